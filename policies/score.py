"""The score: how soon a block that has been idle for so long is wanted again.

A category's time to reuse follows a mixture of exponentials with weights ``w_k`` and rates
``λ_k`` (one a second), and with probability ``1 − Σ w_k`` its blocks are never reused. With
the idle age ``a`` in seconds and ``F`` standing for ``Σ w_k e^(−λ_k a)``, the three forms are

    hazard  Σ w_k λ_k e^(−λ_k a) / (F + never)            reuses a second, given none so far
    window  Σ w_k e^(−λ_k a)(1 − e^(−λ_k H)) / (F + never)  reuse in the next H seconds, given none
    paper   Σ w_k (e^(−λ_k a) − e^(−λ_k (a + L)))           the same, unconditional

The last is the form of "KVCache Cache in the Wild" (USENIX ATC'25, section 4.2), with ``L``
its lifespan regulator. Every one falls as the age grows, so within a category the oldest
block is always the least likely, and comparing the heads of the queues suffices.

All are worked with as logarithms: ``e^(−λa)`` itself underflows to exact ties within an hour
for a rate of one reuse a second. A parameter set is tabulated once, on the grid of `AGES`; what
the evictor does for a block is to read between two entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .ages import AGES, position
from .blocks import DEFAULT, FIRST_CATEGORY
from .parameters import Law, ParameterSet, Score

LIFESPAN = 0
SCORES = 1
"""Columns of a row of laws: the lifespan window (s), then the log score at each of `AGES`."""

PAST_LIFESPAN = -1e12
"""Below the log score of any live block; minus the age, so that the oldest goes first."""

NEVER = -1e11
"""What stands for the logarithm of zero: below that of anything that can happen."""

Laws = NDArray[np.float64]
Scores = NDArray[np.float64]


def compile_laws(parameters: ParameterSet) -> Laws:
    """The laws of a parameter set as rows for `log_score`, indexed by category id.

    Each is blended with the global law by the trust τ: ``τ log S_c + (1 − τ) log S_global``.
    Returns an array of shape ``(FIRST_CATEGORY + categories, 1 + len(AGES))``; the row `DEFAULT`
    holds the global law, the two before it stay empty.
    """
    laws = [parameters.default, *parameters.laws]
    rows = np.zeros((FIRST_CATEGORY + len(parameters.laws), SCORES + len(AGES)))
    rows[DEFAULT:, LIFESPAN] = [law.lifespan for law in laws]
    score, horizon = parameters.score, parameters.horizon
    scores = [
        hazard_scores(np.array(law.hazards), score, horizon)
        if law.hazards
        else mixture_scores(law, score, horizon, AGES)
        for law in laws
    ]
    trust, own = parameters.trust, np.maximum(scores, NEVER)
    # Rounding may lift a score by a hair where it is flat; to the evictor it never rises.
    rows[DEFAULT:, SCORES:] = np.minimum.accumulate(trust * own + (1.0 - trust) * own[0], axis=1)
    return rows


def mixture_scores(
    law: Law, score: Score, horizon: float, ages: NDArray[np.floating[Any]]
) -> Scores:
    """The exact logarithm of the score of a mixture of exponentials, for each of ``ages`` (s)."""
    weights, rates = np.array(law.weights), np.array(law.rates)
    numerator = weights * (rates if score is Score.HAZARD else -np.expm1(-rates * horizon))
    with np.errstate(divide="ignore"):  # the log of zero: nothing is reused, or everything is
        decay = -rates[:, None] * ages
        soon = np.logaddexp.reduce(np.log(numerator)[:, None] + decay)
        if score is Score.PAPER:
            return soon
        alive = np.logaddexp.reduce(np.log(weights)[:, None] + decay)
        return soon - np.logaddexp(alive, np.log(law.never))


def hazard_scores(hazards: Scores, score: Score, horizon: float) -> Scores:
    """The logarithm of the score of a law given by its hazards (1/s) at `AGES`, for these ages.

    Between two ages the hazard is taken for linear, before the first and behind the last for
    constant. With ``Λ(a)`` for its integral up to ``a``, the window is ``1 − e^(Λ(a) − Λ(a + H))``
    and the paper's form the same times ``e^(−Λ(a))``.
    """
    if score is Score.HAZARD:
        return np.log(hazards)
    ages, known = np.append(0.0, AGES), np.append(hazards[0], hazards)
    passed = np.append(0.0, np.cumsum(0.5 * (known[1:] + known[:-1]) * np.diff(ages)))
    later = AGES + horizon
    at = np.searchsorted(ages, later, side="right") - 1
    ahead = passed[at] + 0.5 * (known[at] + np.interp(later, ages, known)) * (later - ages[at])
    with np.errstate(divide="ignore"):
        soon = np.log(-np.expm1(passed[1:] - ahead))
    return soon - passed[1:] if score is Score.PAPER else soon


@njit(cache=True)
def log_score(laws: Laws, category: int, age: float) -> float:
    """Logarithm of the score of a block of ``category`` idle for ``age`` seconds.

    Linear in the logarithm of the age between `AGES`, constant outside.
    """
    row = laws[category]
    if age > row[LIFESPAN]:
        return PAST_LIFESPAN - age
    place = position(age)
    at = min(int(place), len(row) - SCORES - 2)
    low, high = row[SCORES + at], row[SCORES + at + 1]
    return low + (place - at) * (high - low)
