"""LFU: the block with the fewest uses since it came in leaves first.

In constant time by one queue a frequency: K. Shah, A. Mitra, D. Matani, "An O(1) algorithm
for implementing the LFU cache eviction scheme", 2010. The paper leaves ties open; as in
libCacheSim the block that reached its frequency first goes first. What leaves loses its
count. No parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .residency import Residency, enter, leave, play
from .rings import append, new_rings, oldest, remove


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """Ring ``base + uses`` holds the blocks with that many uses, in the order they got there."""
    if len(blocks) == 0:
        return
    base = len(cache.resident)
    rings = new_rings(base, np.bincount(blocks).max() + 1)
    uses = np.zeros(base, np.int32)
    # After a miss the newcomer is the least used, so this never has to be searched for.
    fewest = 1
    free = capacity
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            remove(rings, block)
            if uses[block] == fewest and oldest(rings, base + fewest) == base + fewest:
                fewest += 1
            uses[block] += 1
        else:
            if free == 0:
                victim = oldest(rings, base + fewest)
                remove(rings, victim)
                leave(cache, victim)
                free += 1
            enter(cache, block)
            free -= 1
            uses[block] = fewest = 1
        append(rings, base + uses[block], block)


def run(trace: Trace, capacity: int) -> Played:
    """LFU over the block accesses of a trace."""
    return play(replay, trace, capacity)
