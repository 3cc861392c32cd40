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

All three are ``Σ n_k e^(−λ_k a) / (Σ d_k e^(−λ_k a) + m)`` with constants ``n, d, m`` a
category, so one function serves them. It works on logarithms: ``e^(−λa)`` itself underflows
to exact ties within an hour for a rate of one reuse a second.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .blocks import DEFAULT, FIRST_CATEGORY
from .parameters import Law, ParameterSet, Score

NEVER = 0
LIFESPAN = 1
COMPONENTS = 2
"""Columns of a row of laws: ``m``, the lifespan window (s), then ``n, d, λ`` a component."""

PAST_LIFESPAN = -1e12
"""Below the log score of any live block; minus the age, so that the oldest goes first."""

Laws = NDArray[np.float64]


def compile_laws(parameters: ParameterSet) -> Laws:
    """The laws of a parameter set as rows for `log_score`, indexed by category id.

    Returns an array of shape ``(FIRST_CATEGORY + categories, 2 + 3 * components)``; the row
    `DEFAULT` holds the global law, the two before it stay empty.
    """
    laws = [parameters.default, *parameters.laws]
    width = max(len(law.rates) for law in laws)
    rows = np.zeros((FIRST_CATEGORY + len(parameters.laws), COMPONENTS + 3 * width))
    for category, law in enumerate(laws, start=DEFAULT):
        rows[category, NEVER] = 1.0 if parameters.score is Score.PAPER else law.never
        rows[category, LIFESPAN] = law.lifespan
        rows[category, COMPONENTS:] = _components(law, parameters, width).ravel()
    return rows


def _components(law: Law, parameters: ParameterSet, width: int) -> NDArray[np.float64]:
    """Rows ``n, d, λ`` of one law, slowest rate of any weight first, padded with zeros."""
    used = [pair for pair in zip(law.rates, law.weights, strict=True) if pair[1] > 0.0]
    rates, weights = np.array(sorted(used) or [(law.rates[0], 0.0)]).T
    if parameters.score is Score.HAZARD:
        numerator = weights * rates
    else:
        numerator = weights * -np.expm1(-rates * parameters.horizon)
    denominator = np.zeros_like(weights) if parameters.score is Score.PAPER else weights
    rows = np.zeros((width, 3))
    rows[: len(rates)] = np.column_stack([numerator, denominator, rates])
    return rows


@njit(cache=True)
def log_score(laws: Laws, category: int, age: float) -> float:
    """Logarithm of the score of a block of ``category`` idle for ``age`` seconds."""
    row = laws[category]
    if age > row[LIFESPAN]:
        return PAST_LIFESPAN - age
    slowest = row[COMPONENTS + 2]
    numerator = denominator = 0.0
    for at in range(COMPONENTS, len(row), 3):
        if row[at] > 0.0 or row[at + 1] > 0.0:
            decay = math.exp(-(row[at + 2] - slowest) * age)
            numerator += row[at] * decay
            denominator += row[at + 1] * decay
    # A log of zero is minus infinity here: nothing is ever reused, or everything is.
    alive = np.log(denominator) - slowest * age
    never = np.log(row[NEVER])
    high, low = (alive, never) if alive > never else (never, alive)
    return np.log(numerator) - slowest * age - high - np.log1p(np.exp(low - high))


@njit(cache=True)
def trusted_score(laws: Laws, trust: float, category: int, age: float) -> float:
    """`log_score` blended with the global law: ``τ log S_c + (1 − τ) log S_global``."""
    own = log_score(laws, category, age)
    if trust == 1.0 or own <= PAST_LIFESPAN:
        return own
    return trust * own + (1.0 - trust) * log_score(laws, DEFAULT, age)
