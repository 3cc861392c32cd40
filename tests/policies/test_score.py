"""The score of a block: equal to the formulas of the design, and falling where they underflow."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.policies.ages import AGES, position
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.score import NEVER, Laws, compile_laws, log_score, mixture_scores
from wactl.policies.table import DecisionTable, Rule

HORIZON = 30.0
FOREVER = 1e7
OWN = FIRST_CATEGORY
Make = Callable[..., ParameterSet]

probabilities = st.floats(0.0, 1.0)
rates = st.floats(1e-4, 1.0)
exponentials = st.builds(lambda p, rate: Law((p,), (rate,), FOREVER), probabilities, rates)
mixtures = st.builds(
    lambda p, shares, pairs: Law(
        tuple(p * share / sum(shares) for share in shares[: len(pairs)]) if pairs else (p,),
        tuple(pairs),
        FOREVER,
    ),
    probabilities,
    st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
    st.lists(rates, min_size=2, max_size=6),
)
any_law = exponentials | mixtures


def compiled(
    example: Make, law: Law, score: Score, default: Law | None = None, trust: float = 1.0
) -> Laws:
    """Laws of one category of its own and a global law, the same unless given."""
    table = DecisionTable(1, 1, (Rule("own", (), -1),), ())
    parameters = example(
        score=score,
        horizon=HORIZON,
        laws=(law,),
        default=default or law,
        table=table,
        trust=trust,
    )
    assert parameters.problem() is None
    return compile_laws(parameters)


def exact(law: Law, score: Score, age: float) -> float:
    """The logarithm of the score, not from the table."""
    return float(mixture_scores(law, score, HORIZON, np.array([age]))[0])


def direct(law: Law, score: Score, age: float) -> float:
    """The score by its formula, in plain floats."""
    weights, speeds = np.array(law.weights), np.array(law.rates)
    alive = weights * np.exp(-speeds * age)
    never = 1.0 - min(1.0, math.fsum(law.weights))
    match score:
        case Score.HAZARD:
            return float((alive * speeds).sum() / (alive.sum() + never))
        case Score.WINDOW:
            soon = alive * -np.expm1(-speeds * HORIZON)
            return float(soon.sum() / (alive.sum() + never))
        case _:
            return float((alive - weights * np.exp(-speeds * (age + HORIZON))).sum())


@pytest.mark.parametrize("score", Score)
@given(law=any_law, age=st.floats(0.0, 300.0))
def test_it_equals_the_formula(score: Score, law: Law, age: float) -> None:
    """Each form is the logarithm of its formula, for one exponential and for mixtures."""
    expected, found = direct(law, score, age), exact(law, score, age)
    if expected > 1e-250:
        assert np.exp(found) == pytest.approx(expected, rel=1e-6)
    else:
        assert found < np.log(1e-249)


@given(p=st.floats(0.01, 1.0), rate=rates, age=st.floats(0.0, 300.0))
def test_the_paper_form_is_the_papers(p: float, rate: float, age: float) -> None:
    """The paper's form is p (e^(−λa) − e^(−λ(a + L)))."""
    expected = p * (np.exp(-rate * age) - np.exp(-rate * (age + HORIZON)))
    found = exact(Law((p,), (rate,), FOREVER), Score.PAPER, age)
    assert np.exp(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("score", Score)
@given(law=any_law, age=st.floats(float(AGES[0]), float(AGES[-1])))
def test_the_table_is_near_the_formula(example: Make, score: Score, law: Law, age: float) -> None:
    """Within 3 % of what the score falls between two ages of the grid, and 0.2; exact at them."""
    laws = compiled(example, law, score)
    at = min(int(position(age)), len(AGES) - 2)
    fall = log_score(laws, OWN, AGES[at]) - log_score(laws, OWN, AGES[at + 1])
    assert log_score(laws, OWN, AGES[at]) == pytest.approx(
        max(exact(law, score, AGES[at]), NEVER), rel=1e-6, abs=1e-6
    )
    if 1e-6 <= law.p <= 0.999:  # no fit claims less
        error = abs(log_score(laws, OWN, age) - exact(law, score, age))
        assert error <= 0.03 * fall + 0.2


@pytest.mark.parametrize("score", Score)
@given(law=any_law, ages=st.lists(st.floats(0.0, 1e6), min_size=2, max_size=12))
def test_it_falls_with_age(example: Make, score: Score, law: Law, ages: list[float]) -> None:
    """An older block of a category never scores above a younger one, at any age."""
    laws = compiled(example, law, score)
    found = [log_score(laws, OWN, age) for age in sorted(ages)]
    assert not np.isnan(found).any()
    for younger, older in itertools.pairwise(found):
        # Rounding may lift it by a few units in the last place of λa.
        assert older <= younger + 1e-9 * max(1.0, abs(younger)) or older == younger


@pytest.mark.parametrize("score", Score)
def test_old_blocks_do_not_tie(example: Make, score: Score) -> None:
    """Where e^(−λa) underflows to 0, from twenty minutes on at a rate of 1, one second tells."""
    laws = compiled(example, Law((0.5,), (1.0,), FOREVER), score)
    for age in (1e3, 1e4, 1e5):
        older, younger = log_score(laws, OWN, age + 1.0), log_score(laws, OWN, age)
        assert older == pytest.approx(younger - 1.0, abs=0.15)


@pytest.mark.parametrize("score", Score)
def test_past_its_lifespan_a_block_is_below_every_live_one(example: Make, score: Score) -> None:
    """The dead go before the live ones of the largest rate and age, the oldest of them first."""
    short, long = Law((0.9,), (1e-3,), 10.0), Law((0.9,), (1e4,), FOREVER)
    laws = compiled(example, short, score, default=long)
    dead = [log_score(laws, OWN, age) for age in (10.001, 11.0, 1e3, 1e7)]
    assert dead == sorted(dead, reverse=True)
    assert len(set(dead)) == len(dead)
    alive = [log_score(laws, DEFAULT, age) for age in (0.0, 1e3, FOREVER)]
    assert max(dead) < min(*alive, log_score(laws, OWN, 10.0))
    for trust in (0.1, 0.5):
        blended = compiled(example, short, score, default=long, trust=trust)
        assert log_score(blended, OWN, 11.0) == log_score(laws, OWN, 11.0)


@pytest.mark.parametrize("score", Score)
@given(own=any_law, default=any_law, trust=probabilities, age=st.floats(0.0, 1e4))
def test_trust_blends_the_logarithms(
    example: Make, score: Score, own: Law, default: Law, trust: float, age: float
) -> None:
    """The score is τ log S_c + (1 − τ) log S_global, so it lies between the two."""
    laws = compiled(example, own, score, default)
    mine, globally = log_score(laws, OWN, age), log_score(laws, DEFAULT, age)
    found = log_score(compiled(example, own, score, default, trust), OWN, age)
    slack = 1e-6 * max(1.0, abs(mine), abs(globally))
    assert found == pytest.approx(trust * mine + (1.0 - trust) * globally, abs=slack)


@pytest.mark.parametrize("score", Score)
@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("age", [0.0, 1.0, 1e3, 1e6, 1e7])
def test_certainty_gives_a_number(example: Make, score: Score, p: float, age: float) -> None:
    """Never reused scores below all that can be, always reused above it; neither is NaN."""
    for law in (Law((p,), (2.0,), FOREVER), Law((0.0, p, 0.0), (5.0, 2.0, 0.01), FOREVER)):
        for trust in (0.25, 1.0):
            found = log_score(compiled(example, law, score, trust=trust), OWN, age)
            assert found == NEVER if p == 0.0 else NEVER < found < 100.0


def test_the_default_category_has_the_global_law(example: Make) -> None:
    """A block of no category is scored by the global law, whatever the trust."""
    own, default = Law((0.9,), (1.0,), 1e4), Law((0.2,), (0.1,), 1e4)
    for trust in (0.0, 0.3, 1.0):
        laws = compiled(example, own, Score.HAZARD, default, trust)
        assert log_score(laws, DEFAULT, AGES[20]) == pytest.approx(
            np.log(direct(default, Score.HAZARD, AGES[20]))
        )
