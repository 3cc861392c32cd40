"""GDSF: LFU that forgets, by lifting newcomers to the level of those that left last.

L. Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
policy", HP Labs HPL-98-69R1, 1998: priority = L + uses * cost / size, where L is the priority
of the last block evicted. Blocks here have size and cost 1, which makes priorities integers
and GDSF the same as LFU with dynamic aging. Ties go by age of last use; what leaves loses its
count. libCacheSim differs, probably in how it breaks ties: its miss ratios are within 0.003
of these on the shared traces. No parameters.
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
    """One ring a priority. All priorities lie between L and L + the most uses of any block,
    so that many rings, used in turn, are enough."""
    if len(blocks) == 0:
        return
    base = len(cache.resident)
    levels = np.bincount(blocks).max() + 1
    rings = new_rings(base, levels)
    uses = np.zeros(base, np.int32)
    floor = 0  # the paper's L
    free = capacity
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            remove(rings, block)
            uses[block] += 1
        else:
            if free == 0:
                ring = base + floor % levels
                while oldest(rings, ring) == ring:
                    floor += 1
                    ring = base + floor % levels
                victim = oldest(rings, ring)
                remove(rings, victim)
                leave(cache, victim)
                free += 1
            enter(cache, block)
            free -= 1
            uses[block] = 1
        append(rings, base + (floor + uses[block]) % levels, block)


def run(trace: Trace, capacity: int) -> Played:
    """GDSF over the block accesses of a trace."""
    return play(replay, trace, capacity)
