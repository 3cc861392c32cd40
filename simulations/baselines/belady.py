"""Belady's MIN: the block that is used again last leaves first. No policy misses less.

L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
Journal 5(2), 1966. Without bypass: what missed is taken in even if it is used again last of
all, as an engine must (it writes the block it computes); with bypass the bound is lower by
some 0.0002 of the accesses. Blocks that are not used again go in any order. No parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .residency import Residency, enter, leave, play


@njit(cache=True)
def next_access(blocks: NDArray[np.int32], distinct: int) -> NDArray[np.int64]:
    """Per access, the position of the next one to the same block; past the end if none."""
    following = np.empty(len(blocks), np.int64)
    seen = np.full(distinct, len(blocks), np.int64)
    for access in range(len(blocks) - 1, -1, -1):
        following[access] = seen[blocks[access]]
        seen[blocks[access]] = access
    return following


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """A binary heap of the residents, the one used again last at its root."""
    distinct = len(cache.resident)
    following = next_access(blocks, distinct)
    heap = np.empty(min(capacity, distinct), np.int32)
    place = np.empty(distinct, np.int32)  # where in the heap a resident is
    due = np.empty(distinct, np.int64)  # when a resident is used again
    count = 0
    for access in range(len(blocks)):
        block = blocks[access]
        due[block] = following[access]
        if cache.resident[block]:
            hits[access] = 1
            _rise(heap, place, due, place[block], block)
        elif count < capacity:
            count += 1
            enter(cache, block)
            _rise(heap, place, due, count - 1, block)
        else:
            leave(cache, heap[0])
            enter(cache, block)
            _sink(heap, place, due, count, block)


@njit(cache=True)
def _rise(
    heap: NDArray[np.int32],
    place: NDArray[np.int32],
    due: NDArray[np.int64],
    hole: int,
    block: int,
) -> None:
    """Put a block in at a hole, or above it: what was just used is due later than before."""
    while hole > 0:
        parent = heap[(hole - 1) // 2]
        if due[parent] >= due[block]:
            break
        heap[hole] = parent
        place[parent] = hole
        hole = (hole - 1) // 2
    heap[hole] = block
    place[block] = hole


@njit(cache=True)
def _sink(
    heap: NDArray[np.int32],
    place: NDArray[np.int32],
    due: NDArray[np.int64],
    count: int,
    block: int,
) -> None:
    """Put a block in at the root, or below it."""
    hole = 0
    while 2 * hole + 1 < count:
        child = 2 * hole + 1
        if child + 1 < count and due[heap[child + 1]] > due[heap[child]]:
            child += 1
        if due[heap[child]] <= due[block]:
            break
        heap[hole] = heap[child]
        place[heap[hole]] = hole
        hole = child
    heap[hole] = block
    place[block] = hole


def run(trace: Trace, capacity: int) -> Played:
    """Belady's bound over the block accesses of a trace."""
    return play(replay, trace, capacity)
