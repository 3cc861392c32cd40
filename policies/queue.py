"""The queue of free blocks, by integer ids: what the engine's adapter and a simulator drive.

It owns the block records, calls the kernels of `evictor`, and collects the single removals
of a hit into one kernel call, since crossing into compiled code costs more than the work
behind it.
"""

from __future__ import annotations

import numpy as np

from . import evictor
from .blocks import FIRST_CATEGORY, UNHASHED, Ids, new_blocks, new_roots
from .intake import Orders


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
        self.free = self.blocks["free"]
        self.length = 0
        self.evicted = 0
        self.orphans = 0
        self.orders: Orders | None = None
        self._leaving: list[int] = []
        self._front = 0.0
        self.prepend(np.arange(count) if free is None else free)

    def obey(self, orders: Orders | None) -> None:
        """Order by these parameters from now on; None or a trust of 0 is the stock order."""
        self.orders = orders

    def relabel(self) -> None:
        """Another decision table: the categories blocks were tagged with mean nothing now."""
        self._flush()
        evictor.relabel(self.blocks, self.roots)

    def append(self, ids: Ids, now: float) -> None:
        """Blocks became free ``now``, still cached; the first is to go before the others."""
        self._flush()
        evictor.append(self.blocks, self.roots, ids, now)
        self.length += len(ids)

    def prepend(self, ids: Ids) -> None:
        """Blocks became free that hold nothing anybody could hit."""
        self._flush()
        self._front -= 1.0
        evictor.prepend(self.blocks, self.roots, ids, self._front)
        self.length += len(ids)

    def remove(self, block: int) -> None:
        """A free block is used again. Raises RuntimeError if it is not free."""
        if not self.free[block]:
            raise RuntimeError(f"block {block} is not free")
        # Seen as in use at once, though the kernel hears of it with the next call.
        self.free[block] = 0
        self._leaving.append(block)
        self.length -= 1

    def take(self, ids: Ids) -> None:
        """Free blocks, all of them free indeed, are used again."""
        self._flush()
        evictor.remove(self.blocks, self.roots, ids)
        self.length -= len(ids)

    def pop(self, count: int, now: float) -> Ids:
        """Hand out ``count`` free blocks, the least valuable first, at time ``now`` (seconds)."""
        if count > self.length:
            raise ValueError(f"{count} blocks asked for, {self.length} free")
        self._flush()
        out = np.empty(count, np.int64)
        orders = self.orders
        if orders is None or orders.parameters.trust == 0.0:
            orphans = evictor.pop_stock(self.blocks, self.roots, now, out)
        else:
            trust = orders.parameters.trust
            orphans = evictor.pop_scored(self.blocks, self.roots, orders.laws, trust, now, out)
        self.orphans += orphans
        self.evicted += count
        self.length -= count
        return out

    def tag(self, ids: Ids, carried: int, categories: Ids, accessed: float) -> None:
        """Note who used a chain last, see `evictor.tag`; before its blocks become free."""
        self._flush()
        evictor.tag(self.blocks, ids, carried, categories, accessed)

    def demote(self, ids: Ids) -> None:
        """Blocks kept for a request that has ended are ordinary ones again."""
        self._flush()
        evictor.demote(self.blocks, self.roots, ids)

    def forget(self, ids: Ids) -> None:
        """Blocks lost what they held (a reset, a failed transfer); free ones go first now."""
        self._flush()
        for block in ids:
            self._front -= 1.0
            evictor.forget(self.blocks, self.roots, block, self._front)

    def order(self, after: int = -1) -> Ids:
        """Ids of the free blocks in the stock order, of those behind block ``after`` if given."""
        self._flush()
        return evictor.order(self.blocks, after)

    def cached(self) -> Ids:
        """Number of free blocks that can still be hit, by category id."""
        held = self.blocks[:-1]
        mask = (held["free"] == 1) & (held["category"] != UNHASHED)
        return np.bincount(held["category"][mask], minlength=FIRST_CATEGORY)

    def _flush(self) -> None:
        if self._leaving:
            ids = np.array(self._leaving)
            self._leaving.clear()
            self.free[ids] = 1
            evictor.remove(self.blocks, self.roots, ids)
