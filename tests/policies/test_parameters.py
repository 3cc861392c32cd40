"""A parameter set is checked in full before anything is ordered by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.policies.features import BUCKETS, GAP, LENGTH, PREVIOUS_GAP, SESSION, TURN
from wactl.policies.parameters import Law, ParameterSet
from wactl.policies.table import Condition, DecisionTable, Rule

Make = Callable[..., ParameterSet]

GOOD = Law((0.3, 0.4), (0.5, 0.01), 600.0)
NAN, INF = math.nan, math.inf

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
}


def test_a_good_set_has_no_problem(example: Make) -> None:
    """A valid law and a valid set are passed."""
    assert GOOD.problem() is None
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
    name = example().table.name(len(laws) - 1)
    assert example(laws=(*laws[:-1], law)).problem() == f"the law of category {name} {text}"
    assert example(default=law).problem() == f"the law of category default {text}"


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


BROKEN_TABLES = {
    "64": DecisionTable((Rule("any", (), ()),) * 65),
    "categories, more than 509": DecisionTable(
        (Rule("any", (), (TURN, GAP, PREVIOUS_GAP, LENGTH)),)
    ),
    "printable name": DecisionTable((Rule("bell \a", (), ()),)),
    "printable name of 1": DecisionTable((Rule("", (), ()),)),
    "printable name of 1 to 64": DecisionTable((Rule("a" * 65, (), ()),)),
    "printable": DecisionTable((Rule("two\nlines", (), ()),)),
    "17 conditions": DecisionTable((Rule("any", (Condition(TURN, 0.0, 1.0),) * 17, ()),)),
    "feature number 11": DecisionTable((Rule("any", (Condition(11, 0.0, 1.0),), ()),)),
    "feature number -1": DecisionTable((Rule("any", (Condition(-1, 0.0, 1.0),), ()),)),
    "from nan": DecisionTable((Rule("any", (Condition(TURN, NAN, 1.0),), ()),)),
    "to nan": DecisionTable((Rule("any", (Condition(TURN, 0.0, NAN),), ()),)),
    "from 2.0 to 1.0": DecisionTable((Rule("any", (Condition(TURN, 2.0, 1.0),), ()),)),
    "a feature twice": DecisionTable((Rule("any", (), (TURN, TURN)),)),
    "no buckets": DecisionTable((Rule("any", (), (SESSION,)),)),
    "split by": DecisionTable((Rule("any", (), (-1,)),)),
    "rule 2 ": DecisionTable((Rule("any", (), ()), Rule("any", (), (10**9,)))),
}


@pytest.mark.parametrize("words", BROKEN_TABLES)
def test_a_broken_table_is_refused(example: Make, words: str) -> None:
    """A set whose table cannot be followed is refused, and the sentence says what is wrong."""
    table = BROKEN_TABLES[words]
    text = example(table=table).problem()
    assert text is not None and words in text
    assert table.problem() == text


def test_the_largest_table_fits(example: Make) -> None:
    """509 categories are allowed, so every id stays below the bound of the evictor."""
    large = Rule("large", (), (TURN, GAP))
    many, rest = divmod(509, large.parts)
    table = DecisionTable((large,) * many + (Rule("small", (), ()),) * rest)
    assert table.categories == 509
    assert example(table=table, laws=(GOOD,) * 509).problem() is None


@given(st.lists(st.sampled_from(sorted(BUCKETS)), unique=True, max_size=3), st.text(max_size=70))
def test_a_table_is_refused_or_usable(splits: list[int], name: str) -> None:
    """Whatever passes has a bounded number of categories, each with a printable name."""
    table = DecisionTable((Rule(name, (), tuple(splits)),))
    if table.problem() is None:
        assert table.categories <= 509
        assert all(table.name(category).isprintable() for category in range(table.categories))
    else:
        assert table.categories > 509 or not name.isprintable() or not 0 < len(name) <= 64
