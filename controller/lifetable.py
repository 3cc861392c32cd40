"""The life table: a hazard for each bin of age, as measured, but never rising.

Of the blocks that reach a bin, ``e`` are reused there in ``x`` seconds waited by all: the hazard
is ``e / x``. A score must fall with age, so bins that rise are pooled with those before (pool
adjacent violators), which is the likeliest such table. What few requests tell is pulled towards
the exponential fit: each bin gets ``PULL`` requests' worth of events at that hazard.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.ages import AGES
from ..policies.parameters import MAX_RATE, MIN_HAZARD

PULL = 1.0
"""Reuses, in requests, that the exponential fit counts for in each bin."""

Rows = NDArray[np.float64]


def fit_life_table(
    events: Rows, waited: Rows, p: Rows, rate: Rows, blocks_per_request: Rows
) -> Rows:
    """Hazards (1/s) at `AGES` for each row, all of shape ``(rows, len(AGES))``.

    ``events`` (blocks) and ``waited`` (seconds) are counted by bin; ``p`` and ``rate``, shape
    ``(rows,)``, are the exponential fit.
    """
    smooth = np.maximum(exponential_hazards(p, rate), MIN_HAZARD)
    borrowed = PULL * blocks_per_request[:, None]
    found = _pooled(events + borrowed, waited + borrowed / smooth)
    # Where it is flat, rounding may lift one by a hair, and the engine would refuse that.
    return np.minimum.accumulate(np.clip(found, MIN_HAZARD, MAX_RATE), axis=1)


def exponential_hazards(p: Rows, rate: Rows) -> Rows:
    """``p λ e^(−λa) / (p e^(−λa) + 1 − p)`` at `AGES`, for each row."""
    alive = p[:, None] * np.exp(-rate[:, None] * AGES)
    return rate[:, None] * alive / np.maximum(alive + 1.0 - p[:, None], 1e-300)


@njit(cache=True)
def _pooled(events: Rows, waited: Rows) -> Rows:
    found = np.empty_like(events)
    rows, bins = events.shape
    e, x, width = np.empty(bins), np.empty(bins), np.empty(bins, np.int64)
    for row in range(rows):
        pools = 0
        for at in range(bins):
            e[pools], x[pools], width[pools] = events[row, at], waited[row, at], 1
            pools += 1
            while pools > 1 and e[pools - 1] * x[pools - 2] > e[pools - 2] * x[pools - 1]:
                pools -= 1
                e[pools - 1] += e[pools]
                x[pools - 1] += x[pools]
                width[pools - 1] += width[pools]
        at = 0
        for pool in range(pools):
            found[row, at : at + width[pool]] = e[pool] / x[pool]
            at += width[pool]
    return found
