"""The exponential with a never-reused rest, fitted to events and censored waits.

A share ``p`` of a category's blocks is reused, after a time exponential with rate ``λ``; the
rest never is. With events at ages ``a`` (counts ``E``) and censored blocks at ages ``a``
(counts ``C``), a censored block is still to be reused with probability
``q = p e^(−λa) / (p e^(−λa) + 1 − p)``, and the likelihood is greatest where

    λ = ΣE / (ΣE a + ΣC q a)        p = (ΣE + ΣC q) / (ΣE + ΣC)

which is iterated to its fixed point (expectation-maximisation). Leaving the censored out, as
a fit of the observed gaps does, takes λ too large and p too small.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..policies.ages import AGES
from ..policies.parameters import MAX_RATE, MAX_SECONDS

ROUNDS = 60
"""Steps of the iteration at most."""

SETTLED = 1e-4
"""Relative change of every rate in one step at which the iteration ends."""

DEAD = 1e-3
"""Remaining probability of reuse at which a block counts as dead: its lifespan is over."""


def fit_exponential(
    events: NDArray[np.float64], censored: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Maximum-likelihood ``p`` and ``λ`` (1/s) of each row; inputs of shape ``(rows, ages)``.

    Nothing is reused, ever, in a row without events.
    """
    reused = events.sum(axis=1)
    total = np.maximum(reused + censored.sum(axis=1), 1e-9)
    spent = events @ AGES
    p = np.full(len(events), 0.5)
    rate = np.clip(reused / np.maximum(spent, 1e-9), 1 / MAX_SECONDS, MAX_RATE)
    for _ in range(ROUNDS):
        alive = p[:, None] * np.exp(-rate[:, None] * AGES)
        waiting = censored * alive / np.maximum(alive + 1.0 - p[:, None], 1e-300)
        exposure = np.maximum(spent + waiting @ AGES, 1e-9)
        before = rate
        rate = np.clip(reused / exposure, 1 / MAX_SECONDS, MAX_RATE)
        p = np.clip((reused + waiting.sum(axis=1)) / total, 0.0, 1.0)
        if np.all(np.abs(rate - before) <= SETTLED * rate):
            break
    return np.where(reused > 0.0, p, 0.0), rate


def lifespan(p: float, rate: float) -> float:
    """Age in seconds at which the remaining probability of reuse falls to `DEAD`.

    >>> round(lifespan(0.5, 0.1), 1)
    69.1
    """
    if p >= 1.0:
        return MAX_SECONDS
    if p <= DEAD:
        return 1.0
    odds = p * (1.0 - DEAD) / (DEAD * (1.0 - p))
    return min(max(1.0, math.log(odds) / rate), MAX_SECONDS)
