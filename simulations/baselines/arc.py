"""ARC: recency against frequency, the balance moved by hits on what was evicted lately.

N. Megiddo, D. S. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003,
figure 4. No deviation; the target is a real number, as in the paper. No parameters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..played import Played
from ..trace import Trace
from .queues import NOWHERE, Queues, first, move, new_queues
from .residency import Residency, enter, leave, play

T1, T2, B1, B2 = 0, 1, 2, 3
"""The paper's lists: used once and more than once, and the ghosts of both."""


@njit(cache=True)
def replay(
    blocks: NDArray[np.int32], capacity: int, cache: Residency, hits: NDArray[np.uint8]
) -> None:
    """The paper's cases in their order: hit, ghost of T1, ghost of T2, new."""
    queues = new_queues(len(cache.resident), 4)
    size = queues.size
    target = 0.0  # the paper's p: how long T1 should be
    for access in range(len(blocks)):
        block = blocks[access]
        if cache.resident[block]:
            hits[access] = 1
            move(queues, block, T2)
            continue
        found = queues.where[block]
        if found == B1:
            target = min(capacity, target + max(1.0, size[B2] / size[B1]))
            _replace(queues, cache, target, False)
        elif found == B2:
            target = max(0.0, target - max(1.0, size[B1] / size[B2]))
            _replace(queues, cache, target, True)
        elif size[T1] == capacity:
            victim = first(queues, T1)
            move(queues, victim, NOWHERE)
            leave(cache, victim)
        elif size[T1] + size[B1] == capacity:
            move(queues, first(queues, B1), NOWHERE)
            _replace(queues, cache, target, False)
        elif size[T1] + size[T2] == capacity:
            if size[B1] + size[B2] == capacity:
                move(queues, first(queues, B2), NOWHERE)
            _replace(queues, cache, target, False)
        move(queues, block, T1 if found == NOWHERE else T2)
        enter(cache, block)


@njit(cache=True)
def _replace(queues: Queues, cache: Residency, target: float, ghost_of_t2: bool) -> None:
    """Make a ghost of the oldest block of T1 if that is too long, else of T2."""
    length = queues.size[T1]
    too_long = length > 0 and (length > target or (ghost_of_t2 and length == target))
    victim = first(queues, T1 if too_long else T2)
    move(queues, victim, B1 if too_long else B2)
    leave(cache, victim)


def run(trace: Trace, capacity: int) -> Played:
    """ARC over the block accesses of a trace."""
    return play(replay, trace, capacity)
