"""Several queues among which blocks move: what ARC, S3-FIFO and W-TinyLFU are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .rings import Rings, append, new_rings, oldest, remove

NOWHERE = -1
"""The queue of a block that is in none."""


class Queues(NamedTuple):
    """Which queue a block is in, and how long each queue is."""

    rings: Rings
    where: NDArray[np.int8]
    size: NDArray[np.int64]
    """The last element counts for `NOWHERE`, so that it needs no branch, and means nothing."""


@njit(cache=True)
def new_queues(blocks: int, count: int) -> Queues:
    """``count`` empty queues, 0 to ``count - 1``, for that many blocks."""
    return Queues(
        new_rings(blocks, count), np.full(blocks, NOWHERE, np.int8), np.zeros(count + 1, np.int64)
    )


@njit(cache=True)
def first(queues: Queues, queue: int) -> int:
    """The block that has been longest in a queue that is not empty."""
    return oldest(queues.rings, len(queues.where) + queue)


@njit(cache=True)
def move(queues: Queues, block: int, to: int) -> None:
    """Take a block from where it is to the newest end of a queue, or to `NOWHERE`."""
    if queues.where[block] != NOWHERE:
        remove(queues.rings, block)
    if to != NOWHERE:
        append(queues.rings, len(queues.where) + to, block)
    queues.size[queues.where[block]] -= 1
    queues.size[to] += 1
    queues.where[block] = to
