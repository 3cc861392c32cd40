"""The queue of free blocks, by integer ids: what the engine's adapter and a simulator drive.

It owns the block records and calls the kernels of `evictor`. Crossing into compiled code costs
more than the work behind it, so what can wait is collected: the blocks of a hit, what is said
of a request that ends. For the same reason blocks may be chosen some ahead (`pop`): the caller
hands them out of `ready` by itself until something happens that could have changed the choice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import evictor, victims
from .blocks import (
    ASIDE,
    DEFAULT,
    FIRST_CATEGORY,
    FREE,
    IN_USE,
    UNHASHED,
    Ids,
    new_blocks,
    new_roots,
)
from .intake import Orders

HOLDS = 1.0
"""Seconds that a choice of blocks holds, though their scores change with time."""

_NOBODY = np.empty(0, np.int64)
_NO_TAG = (_NOBODY, 0, np.array([DEFAULT, DEFAULT]), 0.0)


class FreeQueue:
    """Free blocks among ``count`` blocks; at first ``free``, by default all in id order, unhashed.

    Without parameters in force (`obey`) every method does exactly what vLLM's own queue does.

    >>> queue = FreeQueue(4)
    >>> queue.pop(2, now=0.0).tolist()
    [0, 1]
    >>> queue.tag(np.array([0, 1]), carried=0, categories=np.array([2, 2]), accessed=0.0)
    >>> queue.append(np.array([1, 0]), now=1.0)
    >>> queue.order().tolist()
    [2, 3, 1, 0]
    """

    def __init__(self, count: int, free: Ids | None = None) -> None:
        self.blocks = new_blocks(count)
        self.roots = new_roots()
        self.flags = bytearray(count + 1)
        """By block, and of no meaning for the sentinel, `IN_USE`, `FREE` or `ASIDE`."""
        self.free = np.frombuffer(self.flags, np.uint8)
        """The same for numpy."""
        self.leaving: list[int] = []
        """Blocks that were hit, their flags cleared, of which the kernels have not heard yet."""
        self.ready: list[int] = []
        """Blocks chosen ahead, the next to hand out last. Who takes one clears its flag."""
        self.until = -np.inf
        """Before this time, and with nothing in `leaving`, those in `ready` may be handed out."""
        self.orphans = 0
        self.orders: Orders | None = None
        self._length = self._evicted = 0
        self._chosen = _NOBODY
        self._tag = _NO_TAG
        self._first = _NOBODY
        self._front = 0.0
        self.prepend(np.arange(count) if free is None else free)

    @property
    def length(self) -> int:
        """Blocks that are free."""
        return self._length - len(self.leaving) - len(self._chosen) + len(self.ready)

    @property
    def evicted(self) -> int:
        """Blocks handed out since the beginning."""
        return self._evicted + len(self._chosen) - len(self.ready)

    def obey(self, orders: Orders | None) -> None:
        """Order by these parameters from now on; None or a trust of 0 is the stock order."""
        self.until = -np.inf
        self.orders = orders

    def relabel(self) -> None:
        """Another decision table: the categories blocks were tagged with mean nothing now."""
        self._sync()
        evictor.relabel(self.blocks, self.roots)

    def append(self, ids: Ids, now: float) -> None:
        """Blocks became free ``now``, still cached; the first is to go before the others."""
        self._sync(ids, now)

    def prepend(self, ids: Ids) -> None:
        """Blocks became free that hold nothing anybody could hit."""
        if len(self._first):
            self._sync()
        self._first = ids
        self.free[ids] = ASIDE
        self._length += len(ids)
        self.until = -np.inf

    def remove(self, block: int) -> None:
        """A free block is used again. Raises RuntimeError if it is not free."""
        if self.flags[block] != FREE:
            self._sync()
            if self.flags[block] != FREE:
                raise RuntimeError(f"block {block} is not free")
        # Seen as in use at once, though the kernels hear of it with the next call.
        self.flags[block] = IN_USE
        self.leaving.append(block)

    def take(self, ids: Ids) -> None:
        """Free blocks, all of them free indeed, are used again."""
        self._sync()
        evictor.sync(self.blocks, self.roots, self.free, _NOBODY, 0, ids, 0.0)
        self._length -= len(ids)

    def pop(self, count: int, now: float, ahead: int = 0) -> Ids:
        """Hand out ``count`` free blocks, the least valuable first, at time ``now`` (seconds).

        Up to ``ahead`` more are chosen and put into `ready`.
        """
        if count > self.length:
            raise ValueError(f"{count} blocks asked for, {self.length} free")
        if len(self._first) or self._tag is not _NO_TAG:
            self._sync()
        out = np.empty(min(count + ahead, self.length), np.int64)
        orders = self.orders
        heard = self._hear()
        state = self.blocks, self.roots, self.free, *heard
        if orders is None or orders.parameters.trust == 0.0:
            found, orphans = victims.pop_stock(*state, now, count, out)
        else:
            found, orphans = victims.pop_scored(*state, orders.laws, now, count, out)
        self.orphans += orphans
        self._evicted += count
        self._length -= count
        if ahead:
            self._chosen = out[count:found]
            self.ready += self._chosen[::-1].tolist()
            self.until = now + HOLDS
        return out[:count]

    def tag(self, ids: Ids, carried: int, categories: Ids, accessed: float) -> None:
        """Note who used a chain last, see `evictor.tag`; before its blocks become free."""
        if self._tag is not _NO_TAG or len(self._first):
            self._sync()
        self._tag = ids, carried, categories, accessed

    def demote(self, ids: Ids) -> None:
        """Blocks kept for a request that has ended are ordinary ones again."""
        self._sync()
        evictor.demote(self.blocks, self.roots, self.free, ids)

    def forget(self, ids: Ids) -> None:
        """Blocks lost what they held (a reset, a failed transfer); free ones go first now."""
        self._sync()
        evictor.forget(self.blocks, self.roots, self.free, ids, self._front - 1.0)
        self._front -= len(ids)

    def order(self, after: int = -1) -> Ids:
        """Ids of the free blocks in the stock order, of those behind block ``after`` if given."""
        self._sync()
        return evictor.order(self.blocks, after)

    def categories(self) -> NDArray[np.int16]:
        """The category id of each block."""
        named, era = self.blocks["category"], self.blocks["era"]
        return np.where((named > DEFAULT) & (era != era[-1]), DEFAULT, named)[:-1]

    def cached(self) -> Ids:
        """Number of free blocks that can still be hit, by category id; those `ready` left out."""
        held = self.categories()
        mask = (self.free[:-1] == FREE) & (held != UNHASHED)
        return np.bincount(held[mask], minlength=FIRST_CATEGORY)

    def _hear(self) -> tuple[Ids, int, Ids]:
        """What the kernels have not heard yet: chosen blocks, how many are gone, blocks hit."""
        left = np.array(self.leaving, np.int64) if self.leaving else _NOBODY
        chosen, handed = self._chosen, len(self._chosen) - len(self.ready)
        self._length -= len(left) + handed
        self._evicted += handed
        self.leaving.clear()
        self.ready.clear()
        self._chosen = _NOBODY
        return chosen, handed, left

    def _sync(self, last: Ids = _NOBODY, now: float = 0.0) -> None:
        """Let the kernels hear of everything, and of blocks that become free as the ``last``."""
        first, tag = self._first, self._tag
        if not (len(last) or len(first) or len(self._chosen) or self.leaving or tag is not _NO_TAG):
            return
        self._first, self._tag = _NOBODY, _NO_TAG
        self._front -= 1.0
        evictor.give_back(
            self.blocks,
            self.roots,
            self.free,
            *self._hear(),
            *tag,
            first,
            self._front,
            last,
            now,
        )
        self._length += len(last)
