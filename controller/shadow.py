"""A shadow cache: what another order would hit, on the followed blocks of this very traffic.

It is the engine's own queue, scaled down: it holds the followed blocks only, one in 2**shift,
and has room for that share of the engine's. Since the blocks are picked by their hash, its hit
ratio is that of a full cache but for sampling noise (as in SHARDS, FAST'15, and miniature
simulation, ATC'17), and differences between two shadows have next to none, for both see the
same blocks.

Blocks are numbered by their place in the ghost index. When that gives a place to another block,
the one before is dropped here as well.

What it evicts is counted by the time since its last use, and so is what it should have kept: blocks
that are asked for again soon after their eviction.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.blocks import Ids
from ..policies.intake import Orders
from ..policies.queue import FreeQueue
from .misses import span_of
from .status import IDLE_AGES

REGRET = 600.0
"""Seconds after its eviction within which a block that is asked for is regretted."""

Flags = NDArray[np.uint8]
Times = NDArray[np.float64]


class Shadow:
    """A cache of ``capacity`` of the ``places`` blocks there may be; LRU until `obey`."""

    def __init__(self, places: int, capacity: int) -> None:
        self.capacity = capacity
        self.queue = FreeQueue(places, np.empty(0, np.int64))
        self.users = np.zeros(places, np.int64)
        """By place, how many running requests hold the block."""
        self.evicted_idle = np.zeros(len(IDLE_AGES) + 1, np.int64)
        """Evicted blocks by the time since their last use, in the spans of `IDLE_AGES`."""
        self.regretted = 0
        """Those of them that were asked for within `REGRET` seconds of their eviction."""
        self._resident = np.zeros(places, np.uint8)
        self._used = np.zeros(places)  # seconds, when a request last asked for the block
        self._evicted = np.full(places, -np.inf)  # seconds, when it was evicted
        self._held = 0  # blocks in use
        self._lineage = 0

    def obey(self, orders: Orders | None) -> None:
        """Order by these parameters from now on, None is LRU."""
        if orders is not None and orders.parameters.table.lineage != self._lineage:
            self._lineage = orders.parameters.table.lineage
            self.queue.relabel()
        self.queue.obey(orders)

    def drop(self, places: Ids) -> None:
        """These places belong to other blocks now."""
        self._evicted[places] = -np.inf
        gone = places[self._resident[places] == 1]
        if len(gone) == 0:
            return
        self._resident[gone] = 0
        idle = gone[self.users[gone] == 0]
        self._held -= len(gone) - len(idle)
        self.users[gone] = 0
        self.queue.take(idle)
        self.queue.forget(gone)

    def admit(self, places: Ids, now: float) -> int:
        """A request with these blocks, head first, starts; how many it hits from the head on."""
        state = self._resident, self.users, self._used, self._evicted
        hits, idle, new, regretted = _enter(*state, places, now)
        self.regretted += regretted
        self.queue.take(idle)
        self._held += len(idle) + new
        self._shrink(now)
        return int(hits)

    def release(
        self, places: Ids, carried: int, categories: Ids, admitted: float, now: float
    ) -> None:
        """A request admitted at ``admitted`` has ended: what nobody else uses becomes free."""
        idle = _leave(self._resident, self.users, places)
        self.queue.tag(places, carried, categories, admitted)
        self.queue.append(idle, now)
        self._held -= len(idle)
        self._shrink(now)

    def _shrink(self, now: float) -> None:
        over = min(self.queue.length + self._held - self.capacity, self.queue.length)
        if over > 0:
            gone = self.queue.pop(over, now)
            self._resident[gone] = 0
            self._evicted[gone] = now
            _count(self._used, gone, now, self.evicted_idle)


@njit(cache=True)
def _enter(
    resident: Flags, users: Ids, used: Times, evicted: Times, places: Ids, now: float
) -> tuple[int, Ids, int, int]:
    """Hits from the head on, which blocks were idle; how many were not there, or gone too soon."""
    hits, gap, new, regretted, count = 0, False, 0, 0, 0
    idle = np.empty(len(places), np.int64)
    for place in places:
        gap = gap or not resident[place]
        hits += not gap
        if not resident[place]:
            resident[place] = 1
            new += 1
            regretted += now - evicted[place] <= REGRET
        elif users[place] == 0:
            idle[count] = place
            count += 1
        users[place] += 1
        used[place] = now
    return hits, idle[:count], new, regretted


@njit(cache=True)
def _count(used: Times, places: Ids, now: float, counts: Ids) -> None:
    for place in places:
        counts[span_of(now - used[place])] += 1


@njit(cache=True)
def _leave(resident: Flags, users: Ids, places: Ids) -> Ids:
    """Which blocks nobody uses any more, the last of the prompt first."""
    idle = np.empty(len(places), np.int64)
    count = 0
    for index in range(len(places) - 1, -1, -1):
        place = places[index]
        if users[place] > 0:
            users[place] -= 1
            if users[place] == 0 and resident[place]:
                idle[count] = place
                count += 1
    return idle[:count]
