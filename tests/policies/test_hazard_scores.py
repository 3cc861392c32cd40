"""Scores of laws that are given by their hazards: what integrating these step by step gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from wactl.policies.ages import AGES
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.parameters import MAX_RATE, MIN_HAZARD, Law, ParameterSet, Score
from wactl.policies.score import compile_laws, hazard_scores, log_score, mixture_scores
from wactl.policies.table import DecisionTable, Rule

Make = Callable[..., ParameterSet]
HORIZONS = pytest.mark.parametrize("horizon", [0.01, 1.0, 30.0, 600.0, 1e6])

falling = st.builds(
    lambda first, drops: first * np.exp(-np.cumsum([0.0, *drops])),
    st.floats(0.01, 3.0),
    st.lists(st.just(0.0) | st.floats(0.0, 0.4), min_size=63, max_size=63),
)
"""Hazards that never rise, of up to three reuses a second, some of them flat for long."""


def between(hazards: NDArray[np.float64], first: float, last: float) -> float:
    """The integral of the hazard from one age to another, by a thousand steps in each interval."""
    ages = [first, *(age for age in AGES if first < age < last), last]
    total = 0.0
    for low, high in itertools.pairwise(ages):
        fine = np.linspace(low, high, 1001)
        middle = 0.5 * (fine[1:] + fine[:-1])
        total += float(np.interp(middle, AGES, hazards).sum() * (high - low) / 1000)
    return total


@HORIZONS
@given(hazards=falling, index=st.integers(0, 63))
def test_the_window_is_a_reuse_within_the_horizon(
    horizon: float, hazards: NDArray[np.float64], index: int
) -> None:
    """Its probability, given none before: what the hazards behind the age add up to."""
    age = float(AGES[index])
    found = hazard_scores(hazards, Score.WINDOW, horizon)[index]
    expected = -np.expm1(-between(hazards, age, age + horizon))
    assert np.exp(found) == pytest.approx(expected, rel=1e-6)


@HORIZONS
@given(hazards=falling, index=st.integers(0, 40))
def test_the_papers_form_is_the_same_of_all_blocks(
    horizon: float, hazards: NDArray[np.float64], index: int
) -> None:
    """Its probability for a block just used: no reuse up to the age, and one soon after."""
    age = float(AGES[index])
    found = hazard_scores(hazards, Score.PAPER, horizon)[index]
    window = -np.expm1(-between(hazards, age, age + horizon))
    assert found == pytest.approx(np.log(window) - between(hazards, 0.0, age), abs=1e-5)


def test_the_hazard_is_its_own_logarithm() -> None:
    """To the last digit, whatever the horizon."""
    hazards = 1.0 / (1.0 + AGES)
    assert np.array_equal(hazard_scores(hazards, Score.HAZARD, 7.0), np.log(hazards))


@pytest.mark.parametrize("score", Score)
def test_one_rate_for_ever_is_an_exponential(score: Score) -> None:
    """A hazard that does not change is the law of one exponential that is always reused."""
    for rate in (1e-3, 0.1):
        mixture = mixture_scores(Law((1.0,), (rate,), 1e7), score, 30.0, AGES)
        assert hazard_scores(np.full(64, rate), score, 30.0) == pytest.approx(mixture, abs=1e-9)


@pytest.mark.parametrize("score", Score)
@given(hazards=falling, ages=st.lists(st.floats(0.0, 2e5), min_size=2, max_size=12))
def test_it_falls_with_age(
    example: Make, score: Score, hazards: NDArray[np.float64], ages: list[float]
) -> None:
    """As the evictor reads it: an older block never scores above a younger one."""
    bounded = tuple(np.clip(hazards, MIN_HAZARD, MAX_RATE).tolist())
    law = Law((0.5,), (0.1,), 1e7, bounded)
    table = DecisionTable(1, 1, (Rule("own", (), -1),), ())
    parameters = example(score=score, laws=(law,), table=table, trust=1.0)
    assert parameters.problem() is None
    laws = compile_laws(parameters)
    found = [log_score(laws, FIRST_CATEGORY, age) for age in sorted(ages)]
    assert np.isfinite(found).all()
    assert all(older <= younger + 1e-12 for younger, older in itertools.pairwise(found))


@pytest.mark.parametrize("score", Score)
@pytest.mark.parametrize("rate", [MIN_HAZARD, MAX_RATE])
def test_the_extremes_give_numbers(example: Make, score: Score, rate: float) -> None:
    """Neither the slowest nor the fastest law there may be is NaN or infinite at any age."""
    law = Law((0.5,), (0.1,), 1e7, (rate,) * 64)
    for horizon in (1e-6, 1e7):
        made = example(score=score, horizon=horizon, default=law)
        laws = compile_laws(msgspec.structs.replace(made, laws=(law,) * len(made.laws)))
        scores = [log_score(laws, FIRST_CATEGORY, age) for age in (0.0, 1.0, 1e4, 1e7)]
        assert np.isfinite(scores).all()
