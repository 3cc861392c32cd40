"""LRU: the block that was used longest ago leaves first, as vLLM has it.

R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal
9(2), 1970. A request's blocks are used all at once: of equally old ones the tail of the prompt
leaves before its head, and none leaves for another of the same prompt. Where every request is
a single block this is the textbook's LRU. No parameters.
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
    blocks: NDArray[np.int32],
    offsets: NDArray[np.int64],
    capacity: int,
    cache: Residency,
    hits: NDArray[np.uint8],
) -> None:
    """One ring in the order of last use, tails older than heads; evicted after each request."""
    recent = len(cache.resident)
    rings = new_rings(recent, 1)
    held = 0
    for request in range(len(offsets) - 1):
        for access in range(offsets[request + 1] - 1, offsets[request] - 1, -1):
            block = blocks[access]
            if cache.resident[block]:
                hits[access] = 1
                remove(rings, block)
            else:
                enter(cache, block)
                held += 1
            append(rings, recent, block)
        while held > capacity:
            victim = oldest(rings, recent)
            remove(rings, victim)
            leave(cache, victim)
            held -= 1


def run(trace: Trace, capacity: int) -> Played:
    """vLLM's own order over the requests of a trace."""
    return play(
        lambda blocks, size, cache, hits: replay(blocks, trace.offsets, size, cache, hits),
        trace,
        capacity,
    )
