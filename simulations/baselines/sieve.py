"""SIEVE: FIFO with a hand that passes over what was used since it last came by.

Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, algorithm 1. No deviation. No
parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .residency import Residency, enter, leave, play
from .rings import NEWER, append, new_rings, remove


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """A ring in order of arrival. A survivor keeps its place: that is SIEVE's difference
    from CLOCK, and why the hand meets newcomers only after it has been through the old."""
    arrivals = len(cache.resident)
    rings = new_rings(arrivals, 1)
    used = np.zeros(arrivals, np.uint8)
    # On the sentinel the hand is past the newest block: its next step is to the oldest.
    hand = arrivals
    free = capacity
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            used[block] = 1
            continue
        if free == 0:
            while hand == arrivals or used[hand]:
                if hand != arrivals:
                    used[hand] = 0
                hand = rings[hand, NEWER]
            victim = hand
            hand = rings[victim, NEWER]
            remove(rings, victim)
            leave(cache, victim)
            free += 1
        append(rings, arrivals, block)
        enter(cache, block)
        free -= 1


def run(trace: Trace, capacity: int) -> Played:
    """SIEVE over the block accesses of a trace."""
    return play(replay, trace, capacity)
