"""A parameter set is checked in full before anything is ordered by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from wactl.policies.ages import AGES
from wactl.policies.parameters import MAX_RATE, MIN_HAZARD, Law, ParameterSet
from wactl.policies.table import EMPTY, Condition, DecisionTable, Node, Rule

Make = Callable[..., ParameterSet]

GOOD = Law((0.3, 0.4), (0.5, 0.01), 600.0)
FALLING = tuple((0.1 / (1.0 + AGES)).tolist())
NAN, INF = math.nan, math.inf
ANY = Condition(0, 0.0, 1.0)

BROKEN_LAWS: dict[str, dict[str, Any]] = {
    "weight NaN": {"weights": (0.3, NAN)},
    "weight infinite": {"weights": (0.3, INF)},
    "weight negative": {"weights": (0.3, -0.1)},
    "weight above 1": {"weights": (1.5, 0.0)},
    "add up to": {"weights": (0.6, 0.5)},
    "rate NaN": {"rates": (0.5, NAN)},
    "rate infinite": {"rates": (INF, 0.1)},
    "rate negative": {"rates": (0.5, -0.1)},
    "rate 0": {"rates": (0.5, 0.0)},
    "rate too fast": {"rates": (0.5, 1e5)},
    "rate too slow": {"rates": (0.5, 1e-9)},
    "lifespan NaN": {"lifespan": NAN},
    "lifespan infinite": {"lifespan": INF},
    "lifespan zero": {"lifespan": 0.0},
    "lifespan negative": {"lifespan": -1.0},
    "weights and 1 rates": {"rates": (0.5,)},
    "2 weights and 0 rates": {"rates": ()},
    "0 weights and 0 rates": {"weights": (), "rates": ()},
    "17 weights and 17 rates": {"weights": (0.01,) * 17, "rates": (0.1,) * 17},
    "63 hazards": {"hazards": FALLING[1:]},
    "65 hazards": {"hazards": (*FALLING, FALLING[-1])},
    "hazard too fast": {"hazards": (2 * MAX_RATE, *FALLING[1:])},
    "hazard 0": {"hazards": (*FALLING[:-1], 0.0)},
    "hazard negative": {"hazards": (*FALLING[:-1], -1.0)},
    "hazard NaN": {"hazards": (*FALLING[:5], NAN, *FALLING[6:])},
    "hazard infinite": {"hazards": (INF, *FALLING[1:])},
    "hazards that rise": {"hazards": (*FALLING[:-1], FALLING[-2] * 1.001)},
}


def test_a_good_set_has_no_problem(example: Make) -> None:
    """A valid law and a valid set are passed."""
    assert GOOD.problem() is None
    for hazards in (FALLING, (MAX_RATE,) * 64, (MIN_HAZARD,) * 64):
        assert msgspec.structs.replace(GOOD, hazards=hazards).problem() is None
    assert example().problem() is None
    assert example(trust=0.0, ttl=3600.0, horizon=1e7, version=2**62 - 1).problem() is None


def test_certainties_are_allowed() -> None:
    """A category may be never reused, or always, also with weights that round to more than 1."""
    for law in (
        Law((0.0,), (1.0,), 1.0),
        Law((1.0,), (1.0,), 1.0),
        Law((0.1,) * 10, (1.0,) * 10, 1.0),
    ):
        assert law.problem() is None
        assert 0.0 <= law.p <= 1.0
        assert law.p + law.never == 1.0


@pytest.mark.parametrize("words", BROKEN_LAWS)
def test_a_broken_law_is_refused(example: Make, words: str) -> None:
    """A value out of range is named, in a category's law as in the global one."""
    law = msgspec.structs.replace(GOOD, **BROKEN_LAWS[words])
    text = law.problem()
    assert text is not None and words.split()[0] in text
    laws = example().laws
    last = len(laws) - 1
    assert example(laws=(*laws[:-1], law)).problem() == f"the law of category {last} {text}"
    assert example(default=law).problem() == f"the law of all traffic {text}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("version", value) for value in (0, -1, 2**62, 2**63)),
        *(("ttl", value) for value in (0.0, -1.0, 3601.0, NAN, INF)),
        *(("trust", value) for value in (-0.01, 1.01, NAN, INF, -INF)),
        *(("horizon", value) for value in (0.0, -1.0, 1e8, NAN, INF)),
    ],
)
def test_a_value_out_of_range_is_refused(example: Make, field: str, value: float) -> None:
    """The sentence names the field and the value."""
    text = example(**{field: value}).problem()
    assert text is not None
    assert {"ttl": "time to live"}.get(field, field) in text
    assert str(value) in text


def test_every_category_needs_its_law(example: Make) -> None:
    """A set with more or fewer laws than its table has categories is refused."""
    need = len(example().laws)
    for count in (0, need - 1, need + 1, 10**6):
        assert example(laws=(GOOD,) * count).problem() == f"{count} laws for {need} categories"


def test_a_broken_table_is_refused(example: Make) -> None:
    """A set whose table cannot be followed is refused with the table's own sentence."""
    wrong = DecisionTable(1, 1, (Rule("any", (), 0),), (Node(ANY, -1, 0),))
    text = wrong.problem()
    assert text is not None
    assert example(table=wrong, laws=(GOOD,)).problem() == text


def test_the_largest_set_fits(example: Make) -> None:
    """509 categories with a law each are allowed, and no category needs none."""
    table = DecisionTable(1, 509, (Rule("any", (), -1),), ())
    assert example(table=table, laws=(GOOD,) * 509).problem() is None
    assert example(table=EMPTY, laws=()).problem() is None
