"""The KV cache of a server under way: blocks of running requests are held, the others are free.

Unlike in `cache`, a request keeps its blocks until it is done, room is made for it before it
runs, and what it writes has a place as well. Blocks are found again by the trace's numbers,
which stand for a whole prefix; so where one is cached, so are all before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import NONE, Ids
from ..policies.queue import FreeQueue
from ..policies.recorder import Released
from .trace import Trace


class Memory:
    """``capacity`` blocks for the requests of one trace, all of them free at first.

    Always ``queue.length + used == capacity``.
    """

    def __init__(self, trace: Trace, capacity: int) -> None:
        self.trace = trace
        self.queue = FreeQueue(capacity)
        self.hits = np.zeros(len(trace.blocks), np.uint8)
        self.evictions = 0
        self.held: dict[int, Ids] = {}
        """Per running request its slots: those of the prompt, head first, then the output's."""
        self.block_of = np.full(capacity, NONE, np.int64)
        """What each slot holds, `NONE` if nothing anybody could hit."""
        self._slot_of = np.full(trace.distinct, NONE, np.int64)
        self._users = np.zeros(capacity, np.int64)

    @property
    def used(self) -> int:
        """Blocks held by running requests."""
        return int(np.count_nonzero(self._users))

    def admit(self, request: int, blocks: int, now: float) -> int | None:
        """Hold ``blocks`` blocks for prompt and output; how many were hits, None if no room.

        The prompt's new blocks can be hit from here on. Whoever admits must wait until they
        are computed before admitting anybody else.
        """
        first, last = self.trace.offsets[request], self.trace.offsets[request + 1]
        prompt = self.trace.blocks[first:last]
        slots = self._slot_of[prompt]
        hits = _leading(slots)
        found = slots[:hits]
        idle = found[self.queue.free[found] == 1]
        if blocks - hits > self.queue.length - len(idle):
            return None
        self.hits[first:last] = slots != NONE
        self.queue.take(idle)
        fresh = self.queue.pop(blocks - hits, now)
        self._refill(fresh, prompt[hits:])
        self.held[request] = np.concatenate((found, fresh))
        self._users[self.held[request]] += 1
        return hits

    def release(self, request: int, released: Released, now: float) -> None:
        """A request is done: what nobody else holds becomes free, the prompt's tail to go first.

        Its output is no prompt's beginning as far as the trace tells: nobody can hit it.
        """
        held = self.held.pop(request)
        length = self.trace.offsets[request + 1] - self.trace.offsets[request]
        prompt, output = held[:length], held[length:]
        self.queue.tag(prompt, released.carried, released.categories, released.admitted)
        self._users[held] -= 1
        self.queue.append(prompt[self._users[prompt] == 0][::-1].copy(), now)
        self.queue.prepend(output)

    def _refill(self, fresh: Ids, prompt: NDArray[np.int32]) -> None:
        """Slots were handed out: forget what they held, give the first ones to these blocks."""
        evicted = self.block_of[fresh]
        evicted = evicted[evicted != NONE]
        self.evictions += len(evicted)
        self._slot_of[evicted] = NONE
        self.block_of[fresh] = NONE
        self._slot_of[prompt] = fresh[: len(prompt)]
        self.block_of[fresh[: len(prompt)]] = prompt


def _leading(slots: Ids) -> int:
    """How many blocks at the head of a prompt are cached."""
    missing = np.flatnonzero(slots == NONE)
    return int(missing[0]) if len(missing) else len(slots)
