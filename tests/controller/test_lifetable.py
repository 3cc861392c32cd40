"""The life table: pooled as scipy pools, falling always, and smooth where little was seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from wactl.controller.exponential import fit_exponential
from wactl.controller.lifetable import PULL, exponential_hazards, fit_life_table
from wactl.controller.tree import exposure
from wactl.policies.ages import AGES
from wactl.policies.parameters import MAX_RATE, MIN_HAZARD

Row = NDArray[np.float64]

COUNTS = st.lists(st.floats(0.0, 1e6), min_size=len(AGES), max_size=len(AGES)).map(np.array)
SPENT = st.lists(st.floats(0.0, 1e9), min_size=len(AGES), max_size=len(AGES)).map(np.array)


@settings(deadline=None)
@given(COUNTS, SPENT, st.floats(0.01, 0.99), st.floats(1e-4, 10.0), st.floats(1.0, 1000.0))
def test_it_is_the_isotonic_regression_of_the_measured_hazards(
    events: Row, waited: Row, p: float, rate: float, size: float
) -> None:
    """The likeliest falling hazard is scipy's regression of ``e / x``, weighed by the waits."""
    each = np.array([p]), np.array([rate])
    found = fit_life_table(events[None], waited[None], *each, np.array([size]))[0]
    smooth = np.maximum(exponential_hazards(*each)[0], MIN_HAZARD)
    e, x = events + PULL * size, waited + PULL * size / smooth
    expected = isotonic_regression(e / x, weights=x, increasing=False).x
    assert found == pytest.approx(np.clip(expected, MIN_HAZARD, MAX_RATE), rel=1e-6)
    assert np.all(np.diff(found) <= 0.0)


def test_without_data_it_is_the_exponential() -> None:
    """Nothing observed leaves the law it is pulled towards."""
    p, rate = np.array([0.4, 0.9]), np.array([0.1, 0.02])
    nothing = np.zeros((2, len(AGES)))
    found = fit_life_table(nothing, nothing, p, rate, np.ones(2))
    expected = np.clip(exponential_hazards(p, rate), MIN_HAZARD, MAX_RATE)
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("size", [1.0, 50.0])
def test_the_more_blocks_a_request_has_the_less_each_tells(size: float) -> None:
    """Blocks that come so many at a time count as requests: scaled alike, the law is the same."""
    rng = np.random.default_rng(7)
    events, waited = rng.random((1, len(AGES))) * 10, 50 * AGES[None]
    p, rate = np.array([0.5]), np.array([0.05])
    one = fit_life_table(events, waited, p, rate, np.ones(1))
    many = fit_life_table(size * events, size * waited, p, rate, np.array([size]))
    assert many == pytest.approx(one, rel=1e-9)


def test_a_law_of_two_speeds_is_found_where_one_rate_cannot(
    bins_of: Callable[[Row], Row],
) -> None:
    """Half of the blocks come back within a second, half within minutes: both hazards are right."""
    rng = np.random.default_rng(7)
    count = 200_000
    quick = rng.random(count) < 0.5
    events = bins_of(np.where(quick, rng.exponential(1.0, count), rng.exponential(300.0, count)))
    rows = events[None], np.zeros((1, len(AGES)))
    p, rate = fit_exponential(*rows)
    found = fit_life_table(rows[0], exposure(*rows), p, rate, np.ones(1))[0]
    alive = 0.5 * np.exp(-AGES), 0.5 * np.exp(-AGES / 300.0)
    true = (alive[0] + alive[1] / 300.0) / (alive[0] + alive[1])
    seen = (AGES > 0.5) & (AGES < 600.0)
    # A bin is 25 % of its age wide, over which the hazard falls.
    assert np.all(np.abs(np.log(found[seen] / true[seen])) < 0.35)
    assert np.abs(np.log(exponential_hazards(p, rate)[0][seen] / true[seen])).max() > 1.0
