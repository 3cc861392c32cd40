"""A mixture of exponentials on a shared grid of rates, with a never-reused rest.

Pauses of people and agents are heavier-tailed than one exponential. With the rates fixed, only
the weights of each category are to be fitted, by expectation-maximisation: an event at age
``a`` belongs to component ``k`` in proportion to ``w_k λ_k e^(−λ_k a)``, a censored block to
``w_k e^(−λ_k a)`` or, with what is left of the weights, to those never reused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..policies.ages import AGES

TIMES = np.array([0.5, 3.0, 15.0, 60.0, 300.0, 1500.0])
"""Mean times to reuse of the components, in seconds."""

ROUNDS = 40
"""Steps of the iteration."""


def fit_mixture(events: NDArray[np.float64], censored: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the components for each row, shape ``(rows, len(TIMES))``; the rest is never."""
    alive = np.exp(-AGES[:, None] / TIMES)
    density = alive / TIMES
    total = np.maximum((events + censored).sum(axis=1), 1e-9)
    weights = np.full((len(events), len(TIMES)), 0.5 / len(TIMES))
    for _ in range(ROUNDS):
        never = 1.0 - weights.sum(axis=1)
        reused = events / np.maximum(weights @ density.T, 1e-300)
        waiting = censored / np.maximum(weights @ alive.T + never[:, None], 1e-300)
        weights = weights * (reused @ density + waiting @ alive) / total[:, None]
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    return weights
