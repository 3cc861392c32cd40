"""What vLLM's cache manager asked of its queue of free blocks while it served a trace.

The operations are recorded where they happen: at the queue and at the tagging of a real
`KVCacheManager` with wactl's agent on it. They name blocks by what they are handed, taken and
given back as, so the same list can be played to vLLM's own queue, though that hands out other
blocks: see `cast`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...policies.blocks import Ids


class Kind(IntEnum):
    """The operations, by the method they call."""

    POP = 0  # popleft_n
    REMOVE = 1  # remove, for each block of a hit
    APPEND = 2  # append_n
    PREPEND = 3  # prepend_n
    TAG = 4  # wactl's own: who used these blocks last
    PUSH = 5  # the sidecar's parameters arrive


class Tape:
    """Operations in order, as columns; ``start`` is the first to be measured.

    ``ids`` are, one operation after the other, the blocks handed out or given. ``tags`` holds
    the other arguments of each `TAG`.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.start = 0
        self.kinds = bytearray()
        self.times = array("d")
        self.ids = array("i")
        self.ends = array("q", [0])
        self.tags: dict[int, tuple[int, Ids, float]] = {}

    def __len__(self) -> int:
        return len(self.kinds)

    def note(self, kind: Kind, now: float, ids: Sequence[int]) -> None:
        """One more operation; removals one after another are one, as for vLLM they are."""
        if not ids and kind is not Kind.PUSH:
            return
        self.ids.extend(ids)
        if kind is Kind.REMOVE and self.kinds and self.kinds[-1] == kind:
            self.ends[-1] += len(ids)
            return
        self.kinds.append(kind)
        self.times.append(now)
        self.ends.append(self.ends[-1] + len(ids))

    def sizes(self) -> NDArray[np.int64]:
        """Blocks of each operation."""
        return np.diff(np.frombuffer(self.ends, np.int64))

    def __iter__(self) -> Iterator[tuple[Kind, Sequence[int]]]:
        for index, kind in enumerate(self.kinds):
            yield Kind(kind), self.ids[self.ends[index] : self.ends[index + 1]]


class Taped:
    """A queue of free blocks that notes what is asked of it."""

    def __init__(self, queue: Any, tape: Tape, clock: Callable[[], float]) -> None:
        self.queue = queue
        self._tape = tape
        self._clock = clock

    @property
    def num_free_blocks(self) -> int:
        """Blocks that can be handed out."""
        free: int = self.queue.num_free_blocks
        return free

    def popleft_n(self, n: int) -> Any:
        """The ``n`` blocks to reuse next."""
        blocks = self.queue.popleft_n(n)
        self._note(Kind.POP, blocks)
        return blocks

    def remove(self, block: Any) -> None:
        """A free block was hit."""
        self.queue.remove(block)
        self._note(Kind.REMOVE, [block])

    def append_n(self, blocks: Any) -> None:
        """Blocks became free, still cached."""
        self.queue.append_n(blocks)
        self._note(Kind.APPEND, blocks)

    def prepend_n(self, blocks: Any) -> None:
        """Blocks became free that hold nothing."""
        self.queue.prepend_n(blocks)
        self._note(Kind.PREPEND, blocks)

    def _note(self, kind: Kind, blocks: Any) -> None:
        self._tape.note(kind, self._clock(), [block.block_id for block in blocks])


def cast(tape: Tape) -> array[int]:
    """The same operations for vLLM's own queue: ``ids`` with the blocks it hands out itself.

    Where the recorded queue handed out one block and this one another, the two change places
    from there on: both are free, so every later operation stays possible, and it finds as many
    blocks to give back, to hit, and to hand out. Each is as long and as much work as recorded.
    Nothing is exchanged where both follow the stock order.
    """
    from ...policies.vllm.bare import stock_queue

    blocks, queue = stock_queue(tape.blocks)
    queue.popleft()
    actor = list(range(tape.blocks))
    role = list(range(tape.blocks))
    cast_ids = array("i")
    for kind, ids in tape:
        if kind is Kind.POP:
            for recorded, block in zip(ids, queue.popleft_n(len(ids)), strict=True):
                ours, theirs = actor[recorded], block.block_id
                other = role[theirs]
                actor[recorded], actor[other] = theirs, ours
                role[theirs], role[ours] = recorded, other
        played = [actor[i] for i in ids]
        cast_ids.extend(played)
        if kind is Kind.REMOVE:
            for i in played:
                queue.remove(blocks[i])
        elif kind is Kind.APPEND:
            queue.append_n([blocks[i] for i in played])
        elif kind is Kind.PREPEND:
            queue.prepend_n([blocks[i] for i in played])
    return cast_ids
