"""LRU: the block that was used longest ago leaves first.

R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal
9(2), 1970. No deviation; vLLM's stock evictor is LRU too, but over whole requests and tail
first. No parameters.
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
    """One ring in the order of last use."""
    recent = len(cache.resident)
    rings = new_rings(recent, 1)
    free = capacity
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            remove(rings, block)
        else:
            if free == 0:
                victim = oldest(rings, recent)
                remove(rings, victim)
                leave(cache, victim)
                free += 1
            enter(cache, block)
            free -= 1
        append(rings, recent, block)


def run(trace: Trace, capacity: int) -> Played:
    """LRU over the block accesses of a trace."""
    return play(replay, trace, capacity)
