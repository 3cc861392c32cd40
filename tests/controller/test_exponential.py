"""The censored exponential is the likeliest one, as scipy finds it by search."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import CensoredData, expon
from wactl.controller.exponential import DEAD, fit_exponential, lifespan
from wactl.policies.ages import AGES
from wactl.policies.parameters import MAX_SECONDS

Row = NDArray[np.float64]
Bins = Callable[[Row], Row]
Observe = Callable[..., tuple[Row, Row]]


def likelihood(p: float, rate: float, events: Row, censored: Row) -> float:
    """Log likelihood of a law: of events their density, of the censored what is left over."""
    waiting = np.log(p * np.exp(-rate * AGES) + 1 - p)
    return float(events @ (math.log(p * rate) - rate * AGES) + censored @ waiting)


def searched(events: Row, censored: Row) -> tuple[float, float]:
    """The likeliest law, by scipy's simplex search from several starts."""

    def unlikely(x: Row) -> float:
        p = float(np.clip(expit(x[0]), 1e-12, 1 - 1e-12))
        return -likelihood(p, math.exp(x[1]), events, censored)

    starts = [(s, math.log(r)) for s in (-2.0, 1.0) for r in (1e-3, 1e-1)]
    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 5000}
    found = [minimize(unlikely, x0, method="Nelder-Mead", options=options) for x0 in starts]
    best = min(found, key=lambda result: float(result.fun)).x
    return float(expit(best[0])), math.exp(best[1])


@pytest.mark.parametrize(
    ("p", "rate", "window"),
    [(0.3, 0.1, 200), (0.8, 0.02, 200), (0.5, 1.0, 20), (0.1, 0.05, 120), (0.95, 0.01, 600)],
)
def test_it_is_the_law_that_scipy_finds(
    p: float, rate: float, window: float, observe: Observe, bins_of: Bins
) -> None:
    """Its likelihood is the greatest there is, and probability and rate are those of the search."""
    events, censored = map(bins_of, observe(p, rate, window, 5_000))
    (found_p,), (found_rate,) = fit_exponential(events[None], censored[None])
    best_p, best_rate = searched(events, censored)
    assert found_p == pytest.approx(best_p, rel=0.01)
    assert found_rate == pytest.approx(best_rate, rel=0.01)
    best = likelihood(best_p, best_rate, events, censored)
    assert best - 0.1 < likelihood(found_p, found_rate, events, censored) < best + 1e-3


def test_without_a_never_reused_rest_it_agrees_with_scipy(observe: Observe, bins_of: Bins) -> None:
    """Where all blocks are reused in the end, the rate is that of scipy's censored fit."""
    reused, waiting = observe(1.0, 0.1, 100.0, 20_000)
    p, rate = fit_exponential(bins_of(reused)[None], bins_of(waiting)[None])
    _, mean = expon.fit(CensoredData(uncensored=reused, right=waiting), floc=0)
    assert p[0] > 0.99
    assert rate[0] == pytest.approx(1 / mean, rel=0.02)


@pytest.mark.parametrize(
    ("p", "rate", "window"),
    [(0.3, 0.1, 20), (0.3, 0.02, 60), (0.05, 0.1, 60), (0.3, 1 / 300, 1200)],
)
def test_the_law_is_recovered_from_heavily_censored_waits(
    p: float, rate: float, window: float, observe: Observe, bins_of: Bins
) -> None:
    """Probability and rate come out within a tenth, where ignoring the censored is far off."""
    reused, waiting = observe(p, rate, window, 100_000)
    assert len(waiting) > 0.75 * (len(reused) + len(waiting))
    found_p, found_rate = fit_exponential(bins_of(reused)[None], bins_of(waiting)[None])
    assert found_p[0] == pytest.approx(p, rel=0.1)
    assert found_rate[0] == pytest.approx(rate, rel=0.1)
    assert 1 / reused.mean() > 1.2 * rate


def test_rows_do_not_touch_each_other(observe: Observe, bins_of: Bins) -> None:
    """A row comes out the same whatever stands beside it, to what the iteration settles at."""
    rows = [tuple(map(bins_of, observe(p, 0.1, 60.0, 2_000))) for p in (0.2, 0.9)]
    together = fit_exponential(*(np.stack(column) for column in zip(*rows, strict=True)))
    for index, (events, censored) in enumerate(rows):
        alone = fit_exponential(events[None], censored[None])
        for found, one in zip(together, alone, strict=True):
            assert found[index] == pytest.approx(one[0], rel=2e-3)


def test_blocks_that_nobody_asks_for_again_have_no_probability(bins_of: Bins) -> None:
    """A row with censored blocks and no event has p = 0, an empty one too."""
    p, _ = fit_exponential(np.zeros((2, 64)), np.stack([bins_of(np.full(50, 30.0)), np.zeros(64)]))
    assert p.tolist() == [0.0, 0.0]


@given(st.floats(2 * DEAD, 0.999), st.floats(1e-4, 1.0))
def test_at_the_lifespan_hardly_any_reuse_is_left(p: float, rate: float) -> None:
    """At that age the remaining probability of reuse is the floor, unless a bound is hit."""
    age = lifespan(p, rate)
    alive = p * math.exp(-rate * age)
    if 1.0 < age < MAX_SECONDS:
        assert alive / (alive + 1 - p) == pytest.approx(DEAD, rel=1e-6)
    else:
        assert age == 1.0


def test_lifespan_at_its_bounds() -> None:
    """What is never reused lives for a second, what is always reused as long as can be."""
    assert lifespan(0.0, 1.0) == lifespan(DEAD, 1.0) == 1.0
    assert lifespan(1.0, 1.0) == lifespan(0.5, 1e-7) == MAX_SECONDS
