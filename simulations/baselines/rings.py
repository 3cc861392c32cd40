"""Queues that a block can leave from the middle: doubly linked rings through one array.

Row ``block`` holds the older and the newer neighbour of a block; a block is in one ring at
most. A ring is named by its sentinel, a row behind those of the blocks, which closes it: the
sentinel's newer neighbour is the oldest block and its older neighbour the newest.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

OLDER, NEWER = 0, 1

Rings = NDArray[np.int32]


@njit(cache=True)
def new_rings(blocks: int, count: int) -> Rings:
    """``count`` empty rings, ``blocks`` to ``blocks + count - 1``, for that many blocks."""
    rings = np.empty((blocks + count, 2), np.int32)
    for row in range(blocks + count):
        rings[row, OLDER] = rings[row, NEWER] = row
    return rings


@njit(cache=True)
def append(rings: Rings, ring: int, block: int) -> None:
    """Put a block that is in no ring in as the newest."""
    newest = rings[ring, OLDER]
    rings[block, OLDER] = newest
    rings[block, NEWER] = ring
    rings[newest, NEWER] = block
    rings[ring, OLDER] = block


@njit(cache=True)
def remove(rings: Rings, block: int) -> None:
    """Take a block out of the ring it is in."""
    older, newer = rings[block, OLDER], rings[block, NEWER]
    rings[older, NEWER] = newer
    rings[newer, OLDER] = older


@njit(cache=True)
def oldest(rings: Rings, ring: int) -> int:
    """The oldest block of a ring, or the ring itself if it is empty."""
    return rings[ring, NEWER]
