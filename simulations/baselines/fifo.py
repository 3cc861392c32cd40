"""FIFO: the block that came in first leaves first, used or not.

The oldest paging policy there is; L. A. Belady, "A study of replacement algorithms for a
virtual-storage computer", IBM Systems Journal 5(2), 1966. No deviation. No parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .residency import Residency, enter, leave, play


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """A circular buffer: the next to come in takes the place of the first to leave."""
    # Nobody can need more places than there are blocks, whatever the capacity.
    places = min(capacity, len(cache.resident))
    queue = np.empty(places, np.int32)
    misses = 0
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            continue
        place = misses % places
        if misses >= places:
            leave(cache, queue[place])
        queue[place] = block
        enter(cache, block)
        misses += 1


def run(trace: Trace, capacity: int) -> Played:
    """FIFO over the block accesses of a trace."""
    return play(replay, trace, capacity)
