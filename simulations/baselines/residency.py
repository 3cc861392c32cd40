"""Which blocks are in the cache, and what their leaving costs: the books every policy keeps.

A policy is a kernel that walks the accesses of a trace and decides who leaves; it reads
`Residency.resident` and reports to `enter` and `leave`. `play` runs one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace

EVICTIONS, ORPHANS = 0, 1
"""Places in `Residency.tally`."""


class Residency(NamedTuple):
    """The cache's content by block id, and two counts."""

    parents: NDArray[np.int32]
    resident: NDArray[np.uint8]
    children: NDArray[np.int32]
    """Resident blocks that name this one as parent. The last element stands for "no parent",
    so that an index of -1 needs no branch."""
    tally: NDArray[np.int64]


Kernel = Callable[[NDArray[np.int32], int, Residency, NDArray[np.uint8]], None]
"""``kernel(blocks, capacity, cache, hits)`` leaves 1 in ``hits`` where an access hit."""


def empty(trace: Trace) -> Residency:
    """The books of an empty cache."""
    return Residency(
        trace.parents(),
        np.zeros(trace.distinct, np.uint8),
        np.zeros(trace.distinct + 1, np.int32),
        np.zeros(2, np.int64),
    )


def play(kernel: Kernel, trace: Trace, capacity: int) -> Played:
    """What ``kernel`` does with the trace in a cache of ``capacity`` blocks."""
    if capacity < 1:
        raise ValueError(f"a cache of {capacity} blocks can hold nothing")
    cache, hits = empty(trace), np.zeros(len(trace.blocks), np.uint8)
    kernel(trace.blocks, capacity, cache, hits)
    return Played(hits, int(cache.tally[EVICTIONS]), int(cache.tally[ORPHANS]))


@njit(cache=True)
def enter(cache: Residency, block: int) -> None:
    """The block is in the cache from now on."""
    cache.resident[block] = 1
    cache.children[cache.parents[block]] += 1


@njit(cache=True)
def leave(cache: Residency, block: int) -> None:
    """The block is evicted; while a child of it stays, that child is out of reach."""
    cache.resident[block] = 0
    cache.children[cache.parents[block]] -= 1
    cache.tally[EVICTIONS] += 1
    if cache.children[block] > 0:
        cache.tally[ORPHANS] += 1
