"""S3-FIFO: a small queue on probation, a main queue, and the ghosts of who failed.

J. Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.
Two details are set so that it misses exactly as often as the authors' simulator, libCacheSim:
until the cache is full for the first time, what does not fit into the small queue goes straight
to the main one, and a block that passes from one to the other starts there from no uses.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .queues import NOWHERE, Queues, first, move, new_queues
from .residency import Residency, enter, leave, play

SMALL_SHARE = 0.1
"""Part of the capacity that is the small queue's."""

GHOST_SHARE = 0.9
"""Ghosts kept, as a part of the capacity."""

PASSES = 2
"""Uses after the first by which a block gets from the small queue into the main one."""

MOST_USES = 3
"""Uses that count: so many rounds in the main queue does a block live without another."""

SMALL, MAIN, GHOST = 0, 1, 2


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """Three queues, of which only the ghosts' is bounded by itself."""
    queues = new_queues(len(cache.resident), 3)
    size = queues.size
    uses = np.zeros(len(cache.resident), np.int8)
    small, ghosts = int(SMALL_SHARE * capacity), int(GHOST_SHARE * capacity)
    was_full = False
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            uses[block] = min(uses[block] + 1, MOST_USES)
            continue
        to = SMALL
        if queues.where[block] == GHOST:
            move(queues, block, NOWHERE)
            to = MAIN
        while size[SMALL] + size[MAIN] == capacity:
            was_full = True
            if size[MAIN] > capacity - small or size[SMALL] == 0:
                _evict_main(queues, uses, cache)
            else:
                _evict_small(queues, uses, cache, ghosts)
        if not was_full and size[SMALL] >= small:
            to = MAIN
        move(queues, block, to)
        uses[block] = 0
        enter(cache, block)


@njit(cache=True)
def _evict_small(queues: Queues, uses: NDArray[np.int8], cache: Residency, ghosts: int) -> None:
    """Pass blocks on to the main queue, until one has not earned it and becomes a ghost."""
    while queues.size[SMALL] > 0:
        block = first(queues, SMALL)
        if uses[block] < PASSES:
            move(queues, block, GHOST)
            if queues.size[GHOST] > ghosts:
                move(queues, first(queues, GHOST), NOWHERE)
            leave(cache, block)
            return
        uses[block] = 0
        move(queues, block, MAIN)


@njit(cache=True)
def _evict_main(queues: Queues, uses: NDArray[np.int8], cache: Residency) -> None:
    """Send blocks round again, at the price of a use each, until one has none left."""
    block = first(queues, MAIN)
    while uses[block] > 0:
        uses[block] -= 1
        move(queues, block, MAIN)
        block = first(queues, MAIN)
    move(queues, block, NOWHERE)
    leave(cache, block)


def run(trace: Trace, capacity: int) -> Played:
    """S3-FIFO over the block accesses of a trace."""
    return play(replay, trace, capacity)
