"""W-TinyLFU: a small LRU window, and a main cache that only lets in who is used more.

G. Einziger, R. Friedman, B. Manes, "TinyLFU: a highly efficient cache admission policy", ACM
Transactions on Storage 13(4), 2017. Parameters are libCacheSim's: four
segments, 1 % window. Unlike the paper a block is counted when it is hit and when it is judged,
not at every access, and the window hands a block on only when the whole cache is full: of the
variants tried, among those nearest to libCacheSim's miss ratios (within 0.028 on the shared
traces; counting every access is off by up to 0.041). Counts are exact, not a sketch.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .queues import NOWHERE, Queues, first, move, new_queues
from .residency import Residency, enter, leave, play

WINDOW_SHARE = 0.01
"""Part of the capacity that is the window's, at least one block."""

SEGMENTS = 4
"""Equal parts of the main cache: a hit lifts a block into the next."""

SAMPLE = 32
"""Counts are halved whenever so many times the capacity has been counted."""

WINDOW = SEGMENTS


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """Queues 0 to `SEGMENTS` - 1 are the main cache from the bottom up, then the window."""
    queues = new_queues(len(cache.resident), SEGMENTS + 1)
    uses = np.zeros(len(cache.resident), np.int32)
    main = capacity - max(1, int(WINDOW_SHARE * capacity))
    room = max(1, main // SEGMENTS)
    free, counted = capacity, 0
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            uses[block] += 1
            counted += 1
            _touch(queues, block, room)
        else:
            while free == 0 and capacity - queues.size[WINDOW] < main:
                _admit(queues, first(queues, WINDOW), room)
            if free == 0:
                leave(cache, _judge(queues, uses, room, main))
                counted += 1
                free += 1
            move(queues, block, WINDOW)
            enter(cache, block)
            free -= 1
        if counted >= SAMPLE * capacity:
            uses //= 2
            counted = 0


@njit(cache=True)
def _touch(queues: Queues, block: int, room: int) -> None:
    """Renew a block of the window; lift one of the main cache, and push down what overflows."""
    segment = queues.where[block]
    if segment == WINDOW:
        move(queues, block, WINDOW)
        return
    segment = min(segment + 1, SEGMENTS - 1)
    move(queues, block, segment)
    while segment > 0 and queues.size[segment] > room:
        move(queues, first(queues, segment), segment - 1)
        segment -= 1


@njit(cache=True)
def _admit(queues: Queues, block: int, room: int) -> None:
    """Let a block into the lowest segment of the main cache with room, else into the lowest."""
    for segment in range(SEGMENTS):
        if queues.size[segment] < room:
            move(queues, block, segment)
            return
    move(queues, block, 0)


@njit(cache=True)
def _judge(queues: Queues, uses: NDArray[np.int32], room: int, main: int) -> int:
    """Oldest of the window against oldest of the main cache; the one used less is evicted."""
    candidate = victim = first(queues, WINDOW)
    if main > 0:
        segment = 0
        while queues.size[segment] == 0:
            segment += 1
        incumbent = first(queues, segment)
        if uses[candidate] > uses[incumbent]:
            victim = incumbent
    uses[candidate] += 1
    move(queues, victim, NOWHERE)
    if victim != candidate:
        _admit(queues, candidate, room)
    return victim


def run(trace: Trace, capacity: int) -> Played:
    """W-TinyLFU over the block accesses of a trace."""
    return play(replay, trace, capacity)
