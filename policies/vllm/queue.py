"""vLLM's free queue, replaced: the same methods on block objects, over wactl's core.

Every method first tries the core. If that fails, which it never should, the queue becomes a
stock one on the spot, built from the blocks known to be free, and does the same operation
there; the scheduler notices nothing but the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock

from ..blocks import FREE, IN_USE, Ids
from ..queue import FreeQueue

AHEAD = 32
"""Blocks chosen ahead, so that one written at a time costs no call of a kernel each."""


class WactlQueue:
    """Takes over the free blocks of a stock queue.

    ``before_pop`` is called with the time before blocks are handed out, to put the parameters
    in force; ``failed`` is told of an internal error and must not raise.
    """

    def __init__(
        self,
        stock: FreeKVCacheBlockQueue,
        blocks: Sequence[KVCacheBlock],
        clock: Callable[[], float],
        before_pop: Callable[[float], None],
        failed: Callable[[Exception, FreeKVCacheBlockQueue], None],
    ) -> None:
        free = stock.get_all_free_blocks()
        self.num_free_blocks = len(free)
        self.core = FreeQueue(len(blocks), _ids(free))
        self._blocks = np.empty(len(blocks), object)
        self._blocks[:] = blocks
        self._list = blocks
        core = self.core
        self._flags, self._ready, self._leaving = core.flags, core.ready, core.leaving
        self._clock = clock
        self._before_pop = before_pop
        self._failed = failed
        self._stock: FreeKVCacheBlockQueue | None = None

    def popleft(self) -> KVCacheBlock:
        """The block to reuse next. Raises ValueError if none is free."""
        if self.num_free_blocks == 0 and self._stock is None:
            raise ValueError("No free blocks available")
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        """The ``n`` blocks to reuse next."""
        ready = self._ready
        if n == 1 and ready and not self._leaving and self._clock() < self.core.until:
            block_id = ready.pop()
            self._flags[block_id] = IN_USE
            self.num_free_blocks -= 1
            return [self._list[block_id]]
        if self._stock is not None:
            return self._stock.popleft_n(n)
        if n == 0:
            return []
        assert self.num_free_blocks >= n
        try:
            now = self._clock()
            self._before_pop(now)
            ids = self.core.pop(n, now, AHEAD)
            found: list[KVCacheBlock] = self._blocks[ids].tolist()
        except Exception as error:
            return self.stand_down(error).popleft_n(n)
        self.num_free_blocks -= n
        return found

    def remove(self, block: KVCacheBlock) -> None:
        """A free block was hit. Raises RuntimeError if it is not free."""
        block_id = block.block_id
        if self._flags[block_id] == FREE:
            self._flags[block_id] = IN_USE
            self._leaving.append(block_id)
        elif self._stock is not None:
            return self._stock.remove(block)
        else:
            self.core.remove(block_id)
        self.num_free_blocks -= 1

    def append(self, block: KVCacheBlock) -> None:
        """A block became free, still cached."""
        self.append_n([block])

    def append_n(self, blocks: list[KVCacheBlock]) -> None:
        """Blocks became free, still cached; the first is to go before the others."""
        if self._stock is not None:
            return self._stock.append_n(blocks)
        if not blocks:
            return
        try:
            self.core.append(_ids(blocks), self._clock())
        except Exception as error:
            return self.stand_down(error, blocks).append_n(blocks)
        self.num_free_blocks += len(blocks)

    def prepend_n(self, blocks: list[KVCacheBlock]) -> None:
        """Blocks became free that hold nothing anybody could hit."""
        if self._stock is not None:
            return self._stock.prepend_n(blocks)
        if not blocks:
            return
        try:
            self.core.prepend(_ids(blocks))
        except Exception as error:
            return self.stand_down(error, blocks).prepend_n(blocks)
        self.num_free_blocks += len(blocks)

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """All free blocks in the stock order."""
        return list(self.iter_blocks_after(None))

    def iter_blocks_after(self, cursor: KVCacheBlock | None) -> Iterator[KVCacheBlock]:
        """Free blocks behind the cursor, in the stock order.

        While parameters are in force this only comes near the order of eviction: the blocks
        are right, the ranking is LRU's. Its one reader, lazy offloading, uses it to guess
        which blocks are worth a copy.
        """
        if self._stock is not None:
            return self._stock.iter_blocks_after(cursor)
        try:
            ids = self.core.order(-1 if cursor is None else cursor.block_id).tolist()
        except Exception as error:
            return self.stand_down(error).iter_blocks_after(cursor)
        return (self._list[i] for i in ids)

    def stand_down(
        self, error: Exception, entering: Sequence[KVCacheBlock] = ()
    ) -> FreeKVCacheBlockQueue:
        """Become a stock queue of the blocks that are free, less those just ``entering``."""
        free = self.core.free[: len(self._list)] != IN_USE
        free[[block.block_id for block in entering]] = False
        ids = np.flatnonzero(free)
        try:
            known = self.core.order()
            if np.array_equal(np.sort(known), ids):
                ids = known
        except Exception as second:
            # The order is a luxury here: any order of the free blocks is a correct one.
            error.add_note(f"the order of the free blocks was lost too: {second!r}")
        self._stock = FreeKVCacheBlockQueue(self._blocks[ids].tolist())
        # From here on none of the short cuts is taken.
        self._ready.clear()
        self._flags[:] = bytes(len(self._flags))
        self._failed(error, self._stock)
        return self._stock


def _ids(blocks: Sequence[KVCacheBlock]) -> Ids:
    return np.array([block.block_id for block in blocks], np.int64)
