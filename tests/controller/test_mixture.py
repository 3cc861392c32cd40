"""The mixture's weights are the likeliest there are on the shared rates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize
from wactl.controller.mixture import TIMES, fit_mixture
from wactl.policies.ages import AGES

Row = NDArray[np.float64]
ALIVE = np.exp(-AGES[:, None] / TIMES)


def likelihood(weights: Row, events: Row, censored: Row) -> float:
    """Log likelihood of the weights, the rest being never reused."""
    density = ALIVE / TIMES
    waiting = ALIVE @ weights + 1.0 - weights.sum()
    with np.errstate(divide="ignore"):
        return float(
            events @ np.log(np.maximum(density @ weights, 1e-300)) + censored @ np.log(waiting)
        )


@pytest.mark.parametrize(
    "weights", [(0.0, 0.4, 0.0, 0.0, 0.2, 0.0), (0.1, 0.0, 0.3, 0.0, 0.0, 0.4)]
)
def test_the_weights_are_nearly_as_likely_as_any(
    weights: tuple[float, ...], bins_of: Callable[[Row], Row]
) -> None:
    """Scipy finds none likelier by more than a thousandth a block, and ``p`` comes out right."""
    rng = np.random.default_rng(7)
    count = 20_000
    which = rng.choice(len(TIMES) + 1, count, p=[*weights, 1 - sum(weights)])
    reuse = rng.exponential(np.append(TIMES, np.inf)[which])
    watched = rng.uniform(0, 6000.0, count)
    seen = reuse <= watched
    events, censored = bins_of(reuse[seen]), bins_of(watched[~seen])
    (found,) = fit_mixture(events[None], censored[None])
    assert found.sum() == pytest.approx(sum(weights), abs=0.03)
    best = minimize(
        lambda w: -likelihood(w, events, censored) / count,
        np.full(len(TIMES), 0.1),
        bounds=[(1e-9, 1.0)] * len(TIMES),
        constraints=LinearConstraint(np.ones(len(TIMES)), 0.0, 1.0 - 1e-9),
        method="SLSQP",
    )
    assert best.success
    assert likelihood(found, events, censored) / count > -best.fun - 1e-3


def test_weights_are_probabilities_whatever_was_seen() -> None:
    """None is below 0 and together they are at most 1, also without any data."""
    rng = np.random.default_rng(7)
    events = np.vstack([np.zeros((2, 64)), rng.random((20, 64)) * 10.0 ** rng.integers(0, 9)])
    censored = np.vstack([np.zeros((1, 64)), rng.random((21, 64))])
    found = fit_mixture(events, censored)
    assert np.all(found >= 0.0)
    assert np.all(found.sum(axis=1) <= 1.0 + 1e-12)
