"""One agent an engine: it puts the queue in, tags and records, and stands down when in doubt.

All patches sit on the instances of this engine's cache manager and pool, not on vLLM's
classes, and `stand_down` takes every one of them back.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import vllm
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

from ..blocks import LAST_RESORT, Ids
from ..channel import Channel
from ..errors import WactlError
from ..intake import Intake, Orders
from ..messages import EngineState
from ..recorder import Recorder, Released
from ..sample import keys_of
from ..sockets import Place, reserve
from ..table import EMPTY
from .queue import WactlQueue
from .requests import features_of, prompt_hashes
from .warmup import warm_up

log = logging.getLogger("vllm.wactl")


class Agent:
    """Controls the device cache of ``manager``, a `KVCacheManager` just built.

    Raises `NotSupported` if that cache is not one wactl understands, having changed nothing.
    """

    def __init__(self, manager: Any, rank: int, place: Place, clock: Callable[[], float]) -> None:
        pool = manager.block_pool
        if reason := unsupported(manager):
            raise NotSupported(reason)
        self.reserved = reserve(place, rank)
        self.manager, self.pool, self.rank, self.clock = manager, pool, rank, clock
        self.groups = [
            group for group in manager.coordinator.single_type_managers if _full_attention(group)
        ]
        self.failure = ""
        self.errors = 0
        self.intake = Intake()
        self.recorder = Recorder(pool.num_gpu_blocks, pool.hash_block_size, secrets.randbits(64))
        self._lineage = EMPTY.lineage
        self.queue = WactlQueue(
            pool.free_block_queue, pool.blocks, clock, self._obey, self._queue_failed
        )
        warm_up()
        self._wrapped: list[tuple[Any, str]] = []
        self._kept: dict[str, list[Ids]] = {}
        engine = f"{os.getpid()}-{rank}-{time.time_ns():x}"
        self.channel = Channel(place, rank, engine, clock, self.intake, self.state)
        pool.free_block_queue = self.queue
        self._wrap(manager, "record_prefix_cache_stats", after=self._admitted)
        self._wrap(manager, "free", before=self._freeing)
        self._wrap(manager, "pop_blocks_for_free", before=self._freeing)
        self._wrap(pool, "unpin_blocks", before=self._unpinning)
        self._wrap(pool, "evict_blocks", after=self._unhashed)
        self._wrap(pool, "reset_prefix_cache", after=self._reset)

    def state(self) -> EngineState:
        """What the heartbeat tells."""
        now = self.clock()
        core = self.queue.core
        orders = None if self.failure else self.intake.in_force(now)
        scored = orders is not None and orders.parameters.trust > 0.0
        return EngineState(
            rank=self.rank,
            pid=os.getpid(),
            version=vllm.__version__,
            block_tokens=self.pool.hash_block_size,
            blocks=self.pool.num_gpu_blocks,
            shift=self.recorder.shift,
            active=orders.parameters.version if orders is not None and scored else 0,
            newest=self.intake.version,
            order="scored" if scored else "lru",
            reason=self.failure or self.intake.reason(now),
            free=self.pool.free_block_queue.num_free_blocks,
            cached=tuple(core.cached().tolist()),
            evicted=core.evicted,
            orphans=core.orphans,
            admitted=self.recorder.admitted,
            dropped=self.channel.dropped,
            accepted=self.intake.accepted,
            rejected=self.intake.rejected,
            errors=self.errors,
            exempt_groups=len(self.manager.coordinator.single_type_managers) - len(self.groups),
        )

    def close(self) -> None:
        """The engine ends: give thread, sockets and name back."""
        self.channel.close()
        self.reserved.close()

    def stand_down(self, error: Exception) -> None:
        """Something of ours failed: leave vLLM as if we had never been here, and say why."""
        self.queue.stand_down(error)

    def _queue_failed(self, error: Exception, stock: FreeKVCacheBlockQueue) -> None:
        self.errors += 1
        self.failure = f"stood down after an internal error: {error!r}"
        self.pool.free_block_queue = stock
        for owner, name in self._wrapped:
            vars(owner).pop(name, None)
        log.error("wactl stands down, the cache is plain LRU again", exc_info=error)

    def _obey(self, now: float) -> None:
        orders = self.intake.in_force(now)
        if orders is not self.queue.core.orders:
            self._follow(orders)
            self.queue.core.obey(orders)

    def _follow(self, orders: Orders | None) -> None:
        if orders is None:
            return
        self.recorder.follow(orders.table)
        lineage = orders.parameters.table.lineage
        if lineage != self._lineage:  # the numbers blocks were tagged with mean something else now
            self._lineage = lineage
            self.queue.core.relabel()

    def _admitted(self, request: Any, num_hits: int) -> None:
        now = self.clock()
        self._obey(now)
        hashes = prompt_hashes(request, self.pool.hash_block_size)
        admission = self.recorder.admit(
            request.request_id,
            keys_of(hashes),
            min(len(hashes), num_hits // self.pool.hash_block_size),
            features_of(request),
            now,
            replay=request.num_preemptions > 0,
            unread=request.skip_reading_prefix_cache,
        )
        self.channel.send(admission)

    def _freeing(self, request: Any) -> None:
        name = request.request_id
        if not request.is_finished():
            if known := self.recorder.preempt(name):  # its blocks are wanted again soon
                kept = Released(known.admitted, 0, np.array([LAST_RESORT, LAST_RESORT]))
                self._kept.setdefault(name, []).extend(self._tag(name, kept))
            return
        if done := self.recorder.finish(name, request.num_output_tokens, self.clock()):
            self._tag(name, done[0])
            self.channel.send(done[1])
        for ids in self._kept.pop(name, ()):  # left behind when it was preempted
            self.queue.core.demote(ids)

    def _tag(self, request: str, released: Released) -> list[Ids]:
        """Tag what a request holds; the ids of its blocks, by cache group."""
        found = []
        for group in self.groups:
            blocks = group.req_to_blocks.get(request, ())
            ids = np.array([block.block_id for block in blocks], np.int64)
            carried = released.carried * self.pool.hash_block_size // group.block_size
            self.queue.core.tag(ids, carried, released.categories, released.admitted)
            found.append(ids)
        return found

    def _unpinning(self, blocks: Any, on_reuse: Any) -> None:
        ids = np.array([block.block_id for block in blocks], np.int64)
        self.queue.core.tag(ids, 0, np.array([LAST_RESORT, LAST_RESORT]), self.clock())

    def _unhashed(self, block_ids: Any) -> None:
        self.queue.core.forget(np.array(sorted(block_ids), np.int64))

    def _reset(self) -> None:
        self.queue.core.forget(np.flatnonzero(self.queue.core.free[:-1]))

    def _wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self._guard(partial(before, *args, **kwargs))
            result = original(*args, **kwargs)
            if after is not None:
                self._guard(partial(after, *args, **kwargs))
            return result

        setattr(owner, name, wrapped)
        self._wrapped.append((owner, name))

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.stand_down(error)


class NotSupported(WactlError):
    """wactl leaves this engine alone; the text says why."""


def unsupported(manager: Any) -> str | None:
    """Why the cache of this manager cannot be controlled, or None."""
    pool = manager.block_pool
    if not manager.enable_caching:
        return "prefix caching is off"
    if type(pool) is not BlockPool or type(pool.free_block_queue) is not FreeKVCacheBlockQueue:
        return f"something else has replaced the block pool already ({type(pool).__name__})"
    if not any(_full_attention(group) for group in manager.coordinator.single_type_managers):
        return "the model has no full-attention layers"
    return None


def _full_attention(group: Any) -> bool:
    return type(group) is FullAttentionManager
