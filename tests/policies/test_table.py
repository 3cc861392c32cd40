"""The decision table: compiled, it names the category that reading the rules in turn names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY
from wactl.policies.features import BUCKETS, EDGES, FEATURES, GAP, POSITION, TURN, bucket
from wactl.policies.table import Condition, DecisionTable, Rule, classify, compile_table

Naive = Callable[[DecisionTable, Sequence[float]], int]

# Values on, just below and between all edges, so that the borders are hit often.
edges = sorted({float(edge) for of, _ in BUCKETS.values() for edge in of})
values = st.sampled_from([*edges, *(np.nextafter(edge, -np.inf) for edge in edges), -1.0, 1e9])
features = st.sampled_from(range(len(FEATURES)))
conditions = st.builds(
    lambda feature, bounds: Condition(feature, min(bounds), max(bounds)),
    features,
    st.tuples(values | st.just(-np.inf), values | st.just(np.inf)),
)
splits = st.lists(st.sampled_from(sorted(BUCKETS)), max_size=3, unique=True).map(tuple)
rules = st.lists(
    st.builds(Rule, st.just("rule"), st.lists(conditions, max_size=3).map(tuple), splits).filter(
        lambda rule: rule.parts <= 40
    ),
    max_size=10,
)
tables = rules.map(
    lambda found: DecisionTable(
        tuple(Rule(f"rule {i}", rule.conditions, rule.splits) for i, rule in enumerate(found))
    )
)
vectors = st.lists(values, min_size=len(FEATURES), max_size=len(FEATURES))


@settings(max_examples=300)
@given(tables, st.lists(vectors, min_size=1, max_size=5))
def test_it_agrees_with_the_rules(
    naive_category: Naive, table: DecisionTable, requests: list[list[float]]
) -> None:
    """Any table sends any request to the part of the first rule that fits."""
    assert table.problem() is None
    compiled = compile_table(table)
    for request in requests:
        category = classify(compiled, np.array(request))
        assert category == naive_category(table, request)
        assert DEFAULT <= category < FIRST_CATEGORY + table.categories


@given(tables)
def test_every_category_has_a_name_of_its_own(table: DecisionTable) -> None:
    """Names are unique, begin with the rule they are a part of, and end with the last category."""
    names = [table.name(category) for category in range(table.categories)]
    assert len(set(names)) == len(names)
    for category, name in enumerate(names):
        assert name.split(",")[0] == table.rules[table.rule_of(category)].name
    for beyond in (table.name, table.rule_of):
        with pytest.raises(IndexError):
            beyond(table.categories)


@pytest.mark.parametrize("feature", sorted(BUCKETS))
def test_a_bucket_begins_at_its_edge(feature: int) -> None:
    """An edge belongs to the bucket above it; beyond the first and last edge nothing is lost."""
    edges_of, names = BUCKETS[feature]
    assert len(names) == len(edges_of) + 1
    assert list(edges_of) == sorted(edges_of)
    for number, edge in enumerate(edges_of):
        assert bucket(EDGES, feature, float(edge)) == number + 1
        assert bucket(EDGES, feature, float(np.nextafter(edge, -np.inf))) == number
    assert bucket(EDGES, feature, -1e18) == 0
    assert bucket(EDGES, feature, 1e18) == len(edges_of)


def test_names_say_what_the_features_are() -> None:
    """The name of a request's category tells the buckets its features fall in."""
    table = DecisionTable(
        (
            Rule("batch", (Condition(TURN, 100.0, np.inf),), ()),
            Rule("chat", (), (TURN, GAP, POSITION)),
        )
    )
    compiled = compile_table(table)
    request = np.zeros(len(FEATURES))
    for turn, gap, position, name in (
        (1.0, -1.0, 0.0, "chat, turn 1, unseen, new"),
        (2.0, 1.5, 1.0, "chat, turn 2, <2s, carried"),
        (2.0, 1e5, 0.0, "chat, turn 2, >10min, new"),
        (100.0, 600.0, 0.0, "batch"),
    ):
        request[[TURN, GAP, POSITION]] = turn, gap, position
        assert table.name(classify(compiled, request) - FIRST_CATEGORY) == name


def test_nothing_fits_an_empty_table() -> None:
    """Without rules, or without one that fits, a request is of no category."""
    request = np.zeros(len(FEATURES))
    assert classify(compile_table(DecisionTable(())), request) == DEFAULT
    table = DecisionTable((Rule("late", (Condition(TURN, 5.0, 9.0),), (POSITION,)),))
    assert classify(compile_table(table), request) == DEFAULT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_odd_values_stay_within_the_table(value: float) -> None:
    """A feature that is no number fits no condition and never leaves the table's categories."""
    table = DecisionTable((Rule("a", (Condition(GAP, 0.0, 9.0),), (TURN,)), Rule("b", (), (TURN,))))
    request = np.full(len(FEATURES), value)
    assert table.name(classify(compile_table(table), request) - FIRST_CATEGORY).startswith("b, ")
