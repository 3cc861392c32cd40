"""The grid of idle ages that reuse is counted on and scores are tabulated on."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

STEP = 1.25
AGES = 0.1 * STEP ** np.arange(64)
"""Ages in seconds: 0.1 s to 35 hours, by 25 %."""

_FIRST = float(AGES[0])
_LAST = len(AGES) - 1.0
_LOG_STEP = math.log(STEP)


@njit(cache=True)
def position(age: float) -> float:
    """Where an age (seconds) lies on the grid, by its logarithm; from 0 at the first to the last.

    >>> float(round(position(0.1 * 1.25**2.5), 6))
    2.5
    >>> position(0.0), position(1e9)
    (0.0, 63.0)
    """
    if age <= _FIRST:
        return 0.0
    return min(math.log(age / _FIRST) / _LOG_STEP, _LAST)
