"""Laws come out of censored histograms as maximum likelihood says, and rare categories borrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import CensoredData, expon
from wactl.controller.family import Family
from wactl.controller.fit import DEAD, fit_all, fit_exponential, lifespan
from wactl.controller.reuse import AGES
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY, MAX_CATEGORIES, UNHASHED
from wactl.policies.features import GAP, POSITION, TURN
from wactl.policies.parameters import MAX_SECONDS, ParameterSet, Score
from wactl.policies.table import Condition, DecisionTable, Rule

Row = NDArray[np.float64]

TABLE = DecisionTable(
    (Rule("first", (Condition(TURN, 1, 1),), (POSITION,)), Rule("later", (), (GAP, POSITION)))
)


def bins_of(ages: Row) -> Row:
    """Counts by the nearest representative age, measured in logarithms."""
    nearest = np.abs(np.log(np.maximum(ages, 1e-9))[:, None] - np.log(AGES)).argmin(axis=1)
    return np.bincount(nearest, minlength=len(AGES)).astype(float)


def observe(p: float, rate: float, window: float, count: int, seed: int = 7) -> tuple[Row, Row]:
    """Ages at reuse, and those at which watching for one ended, between 0 and ``window``."""
    rng = np.random.default_rng(seed)
    reuse = np.where(rng.random(count) < p, rng.exponential(1 / rate, count), np.inf)
    watched = rng.uniform(0, window, count)
    seen = reuse <= watched
    return reuse[seen], watched[~seen]


def likelihood(p: float, rate: float, events: Row, censored: Row) -> float:
    waiting = np.log(p * np.exp(-rate * AGES) + 1 - p)
    return float(events @ (math.log(p * rate) - rate * AGES) + censored @ waiting)


def test_without_a_never_reused_rest_it_agrees_with_scipy() -> None:
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
    p: float, rate: float, window: float
) -> None:
    """Probability and rate come out within a tenth, where ignoring the censored is far off."""
    reused, waiting = observe(p, rate, window, 100_000)
    assert len(waiting) > 0.75 * (len(reused) + len(waiting))
    found_p, found_rate = fit_exponential(bins_of(reused)[None], bins_of(waiting)[None])
    assert found_p[0] == pytest.approx(p, rel=0.1)
    assert found_rate[0] == pytest.approx(rate, rel=0.1)
    assert 1 / reused.mean() > 1.2 * rate


@pytest.mark.parametrize(("p", "rate"), [(0.3, 0.1), (0.8, 0.02)])
def test_no_law_near_by_is_likelier(p: float, rate: float) -> None:
    """Moving the probability or the rate by a twentieth makes the histograms less likely."""
    events, censored = map(bins_of, observe(p, rate, 200.0, 5_000))
    (p_,), (rate_,) = fit_exponential(events[None], censored[None])
    best = likelihood(p_, rate_, events, censored)
    for p_off, rate_off in ((1.05, 1), (0.95, 1), (1, 1.05), (1, 0.95)):
        assert likelihood(p_ * p_off, rate_ * rate_off, events, censored) < best


def test_blocks_that_nobody_asks_for_again_have_no_probability() -> None:
    """A row with censored blocks and no event has p = 0, an empty one too."""
    p, _ = fit_exponential(np.zeros((2, 64)), np.stack([bins_of(np.full(50, 30.0)), np.zeros(64)]))
    assert p.tolist() == [0.0, 0.0]


def test_an_unseen_category_gets_its_parents_law_and_a_well_seen_one_its_own(
    histogram: Callable[..., Any],
) -> None:
    """A part without data has its rule's law, a rule without data that of all traffic."""
    fast, slow = observe(0.9, 0.5, 60.0, 50_000), observe(0.2, 0.01, 600.0, 50_000, seed=8)
    seen = {FIRST_CATEGORY + 2: bins_of(fast[0]), FIRST_CATEGORY + 5: bins_of(slow[0])}
    waited = {FIRST_CATEGORY + 2: bins_of(fast[1]), FIRST_CATEGORY + 5: bins_of(slow[1])}
    fits = fit_all(histogram(seen), histogram(waited), TABLE, 20.0)
    assert fits is not None
    first, later = (fit.law for fit in fits.rules)
    everything = fits.everything.law
    assert first.p == pytest.approx(everything.p, rel=1e-6)
    assert first.rates[0] == pytest.approx(everything.rates[0], rel=1e-6)
    unseen = fits.categories[2 + 7]
    assert unseen.evidence == 0.0
    assert unseen.law.p == pytest.approx(later.p, rel=1e-6)
    assert unseen.law.rates[0] == pytest.approx(later.rates[0], rel=1e-6)
    assert fits.categories[2].evidence == 50_000
    assert fits.categories[2].law.p == pytest.approx(0.9, rel=0.03)
    assert fits.categories[2].law.rates[0] == pytest.approx(0.5, rel=0.05)
    assert fits.categories[5].law.p == pytest.approx(0.2, rel=0.05)


def test_a_rare_category_lies_between_its_own_law_and_its_parents(
    histogram: Callable[..., Any],
) -> None:
    """Ten reuses of ten move a category away from a parent with few, but not all the way."""
    often, seldom, never = np.zeros(64), np.zeros(64), np.zeros(64)
    often[20], seldom[20], never[45] = 10.0, 1000.0, 9000.0
    events = histogram({FIRST_CATEGORY: often, FIRST_CATEGORY + 1: seldom})
    censored = histogram({FIRST_CATEGORY + 1: never})
    fits = fit_all(events, censored, TABLE, 20.0)
    assert fits is not None
    assert fits.rules[0].law.p + 0.1 < fits.categories[0].law.p < 0.9
    assert fits.categories[1].law.p == pytest.approx(0.1, rel=0.02)


def test_blocks_of_no_category_count_for_the_global_law_only(
    histogram: Callable[..., Any],
) -> None:
    """What no rule fits is evidence for everything and no rule; unhashed blocks are none."""
    row = bins_of(np.full(30, 5.0))
    fits = fit_all(histogram({DEFAULT: row, UNHASHED: row}), histogram({}), TABLE, 20.0)
    assert fits is not None
    assert fits.everything.evidence == 30.0
    assert [rule.evidence for rule in fits.rules] == [0.0, 0.0]


def test_before_any_reuse_there_are_no_laws(histogram: Callable[..., Any]) -> None:
    """Without data nothing is fitted, and waiting blocks alone tell nothing of their reuse."""
    assert fit_all(histogram({}), histogram({}), TABLE, 20.0) is None
    waiting = histogram({FIRST_CATEGORY: bins_of(np.full(50, 30.0))})
    assert fit_all(histogram({}), waiting, TABLE, 20.0) is None


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


counts = st.one_of(st.just(0.0), st.floats(0.0, 1e12), st.sampled_from([5e-324, 1e-9, 1.0]))
rows = st.dictionaries(
    st.integers(0, MAX_CATEGORIES - 1) | st.integers(DEFAULT, FIRST_CATEGORY + 4),
    st.dictionaries(st.integers(0, 63), counts, max_size=4),
    max_size=6,
)


@settings(deadline=None)
@given(rows, rows, st.floats(0.0, 1e6), st.sampled_from(Score), st.sampled_from(Family))
def test_whatever_was_observed_gives_parameters_that_an_engine_takes(
    events: dict[int, dict[int, float]],
    censored: dict[int, dict[int, float]],
    borrowed: float,
    score: Score,
    family: Family,
) -> None:
    """The laws of any histograms and family make a valid parameter set."""
    counted = np.zeros((2, MAX_CATEGORIES, len(AGES)))
    for array, given_rows in zip(counted, (events, censored), strict=True):
        for category, cells in given_rows.items():
            for age, count in cells.items():
                array[category, age] = count
    fits = fit_all(counted[0], counted[1], TABLE, borrowed, family)
    if fits is None:
        assert counted[0, DEFAULT : FIRST_CATEGORY + TABLE.categories].sum() == 0.0
        return
    laws = tuple(fit.law for fit in fits.categories)
    parameters = ParameterSet(1, 60.0, 1.0, score, 60.0, fits.everything.law, laws, TABLE)
    assert parameters.problem() is None
