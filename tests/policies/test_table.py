"""The decision table: compiled, it names the category that reading it place by place names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY, MAX_CATEGORIES
from wactl.policies.features import BUCKETS, EDGES, FEATURES, GAP, TURN, bucket
from wactl.policies.table import (
    EMPTY,
    MAX_CONDITIONS,
    MAX_NAME,
    MAX_NODES,
    MAX_RULES,
    Condition,
    DecisionTable,
    Node,
    Rule,
    classify,
    compile_table,
    rule_of,
)

Naive = Callable[[DecisionTable, Sequence[float]], int]
NAN = float("nan")

# Values on, just below and between all edges, so that the borders are hit often.
edges = sorted({float(edge) for of in BUCKETS.values() for edge in of})
values = st.sampled_from([*edges, *(np.nextafter(edge, -np.inf) for edge in edges), -1.0, 1e9])
features = st.sampled_from(range(len(FEATURES)))
conditions = st.builds(
    lambda feature, bounds: Condition(feature, min(bounds), max(bounds)),
    features,
    st.tuples(values | st.just(-np.inf), values | st.just(np.inf)),
)
vectors = st.lists(values, min_size=len(FEATURES), max_size=len(FEATURES))


@st.composite
def tables(draw: st.DrawFn) -> DecisionTable:
    """Valid tables: any rules, and nodes that lead to later nodes or to categories."""
    categories = draw(st.integers(1, 12))
    count = draw(st.integers(0, 12))

    def place(first: int) -> int:
        return draw(st.integers(-categories, -1) | st.integers(first, max(first, count - 1)))

    def leads(first: int) -> int:
        return place(first) if first < count else draw(st.integers(-categories, -1))

    nodes = tuple(Node(draw(conditions), leads(i + 1), leads(i + 1)) for i in range(count))
    rules = tuple(
        Rule(f"rule {i}", tuple(draw(st.lists(conditions, max_size=3))), leads(0))
        for i in range(draw(st.integers(0, 6)))
    )
    return DecisionTable(draw(st.integers(0, 2**60)), categories, rules, nodes)


@settings(max_examples=300)
@given(tables(), st.lists(vectors, min_size=1, max_size=5))
def test_it_agrees_with_a_plain_reading(
    naive_category: Naive, table: DecisionTable, requests: list[list[float]]
) -> None:
    """Any table sends any request down the tree of the first rule that fits."""
    assert table.problem() is None
    compiled = compile_table(table)
    for request in requests:
        category = classify(compiled, np.array(request))
        assert category == naive_category(table, request)
        assert DEFAULT <= category < FIRST_CATEGORY + table.categories
        fitting = (
            index
            for index, rule in enumerate(table.rules)
            if all(c.low <= request[c.feature] <= c.high for c in rule.conditions)
        )
        assert rule_of(compiled, np.array(request)) == next(fitting, -1)


def test_both_bounds_of_a_condition_are_within() -> None:
    """So that a condition on one value alone can be met."""
    node = Node(Condition(GAP, 2.0, 5.0), -1, -2)
    compiled = compile_table(DecisionTable(1, 2, (Rule("any", (), 0),), (node,)))
    request = np.zeros(len(FEATURES))
    found = []
    for gap in (np.nextafter(2.0, 0.0), 2.0, 5.0, np.nextafter(5.0, 9.0)):
        request[GAP] = gap
        found.append(classify(compiled, request) - FIRST_CATEGORY)
    assert found == [1, 0, 0, 1]


@pytest.mark.parametrize("feature", sorted(BUCKETS))
def test_a_bucket_begins_at_its_edge(feature: int) -> None:
    """An edge belongs to the bucket above it; beyond the first and last edge nothing is lost."""
    edges_of = BUCKETS[feature]
    assert list(edges_of) == sorted(set(edges_of))
    for number, edge in enumerate(edges_of):
        assert bucket(EDGES, feature, float(edge)) == number + 1
        assert bucket(EDGES, feature, float(np.nextafter(edge, -np.inf))) == number
    assert bucket(EDGES, feature, -1e18) == 0
    assert bucket(EDGES, feature, 1e18) == len(edges_of)


def test_nothing_fits_an_empty_table() -> None:
    """Without rules, or without one that fits, a request is of no category."""
    request = np.zeros(len(FEATURES))
    assert EMPTY.problem() is None
    assert classify(compile_table(EMPTY), request) == DEFAULT
    late = DecisionTable(1, 1, (Rule("late", (Condition(TURN, 5.0, 9.0),), -1),), ())
    assert classify(compile_table(late), request) == DEFAULT


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_odd_values_stay_within_the_table(value: float) -> None:
    """A feature that is no number fits no condition and never leaves the table's categories."""
    node = Node(Condition(TURN, 0.0, 9.0), -2, -3)
    rules = Rule("a", (Condition(GAP, 0.0, 9.0),), -1), Rule("b", (), 0)
    compiled = compile_table(DecisionTable(1, 3, rules, (node,)))
    request = np.full(len(FEATURES), value)
    assert classify(compiled, request) == FIRST_CATEGORY + 2


ANY = Condition(TURN, 0.0, 1.0)
LEAF = Node(ANY, -1, -1)
BROKEN = {
    f"{MAX_RULES + 1} rules, more than {MAX_RULES}": (1, (Rule("a", (), -1),) * 65, ()),
    f"{MAX_NODES + 1} nodes, more than {MAX_NODES}": (1, (), (LEAF,) * 1025),
    "-1 categories, not from 0 to 509": (-1, (), ()),
    "510 categories, not from 0 to 509": (510, (), ()),
    "rule 1 needs a printable name of 1 to 64 characters": (1, (Rule("", (), -1),), ()),
    "rule 2 needs a printable name of 1 to 64 characters": (
        *(1, (Rule("a", (), -1), Rule("two\nlines", (), -1)), ()),
    ),
    "rule 3 needs a printable name of 1 to 64 characters": (
        *(1, (*(Rule("a", (), -1),) * 2, Rule("a" * (MAX_NAME + 1), (), -1)), ()),
    ),
    "rule 1 has 17 conditions, more than 16": (
        *(1, (Rule("a", (ANY,) * (MAX_CONDITIONS + 1), -1),), ()),
    ),
    "rule 1 asks for feature number 17, which does not exist": (
        *(1, (Rule("a", (Condition(len(FEATURES), 0.0, 1.0),), -1),), ()),
    ),
    "rule 1 asks for feature number -1, which does not exist": (
        *(1, (Rule("a", (ANY, Condition(-1, 0.0, 1.0)), -1),), ()),
    ),
    "rule 1 asks for values from 2.0 to 1.0: none fits": (
        *(1, (Rule("a", (Condition(TURN, 2.0, 1.0),), -1),), ()),
    ),
    "rule 1 asks for values from nan to 1.0: none fits": (
        *(1, (Rule("a", (Condition(TURN, NAN, 1.0),), -1),), ()),
    ),
    "rule 1 leads to 0, which does not exist": (1, (Rule("a", (), 0),), ()),
    "rule 1 leads to -3, which does not exist": (2, (Rule("a", (), -3),), (LEAF,)),
    "rule 1 leads to -1, which does not exist": (0, (Rule("a", (), -1),), ()),
    "node 1 asks for values from 0.0 to nan: none fits": (
        *(1, (), (LEAF, Node(Condition(GAP, 0.0, NAN), -1, -1))),
    ),
    "node 0 asks for feature number 99, which does not exist": (
        *(1, (), (Node(Condition(99, 0.0, 1.0), -1, -1),)),
    ),
    **{
        f"node 1 leads to {place}, which is no later node and no category": (
            *(2, (), (LEAF, Node(ANY, *ways), LEAF)),
        )
        for place, ways in (
            *((0, (0, -1)), (1, (-1, 1)), (3, (2, 3)), (-3, (-3, -1)), (-4, (-1, -4))),
        )
    },
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_table_is_refused(sentence: str) -> None:
    """The sentence names the rule or node and what is wrong with it."""
    assert DecisionTable(1, *BROKEN[sentence]).problem() == sentence


def test_the_largest_table_fits() -> None:
    """509 categories are allowed, so every id stays below the bound of the evictor."""
    nodes = (*(Node(ANY, -1 - i, i + 1) for i in range(507)), Node(ANY, -508, -509))
    table = DecisionTable(1, 509, (Rule("a" * MAX_NAME, (), 0),) * MAX_RULES, nodes)
    assert table.problem() is None
    request = np.full(len(FEATURES), 2.0)
    assert classify(compile_table(table), request) == MAX_CATEGORIES - 1


@given(
    st.integers(-2, 3),
    st.lists(st.builds(Rule, st.just("a"), st.just(()), st.integers(-5, 5)), max_size=3),
    st.lists(st.builds(Node, conditions, st.integers(-5, 5), st.integers(-5, 5)), max_size=4),
    vectors,
)
def test_a_table_is_refused_or_ends(
    categories: int, rules: list[Rule], nodes: list[Node], request: list[float]
) -> None:
    """Whatever passes leads every request to a category that exists, in as many steps as nodes."""
    table = DecisionTable(1, categories, tuple(rules), tuple(nodes))
    if table.problem() is None:
        category = classify(compile_table(table), np.array(request))
        assert DEFAULT <= category < FIRST_CATEGORY + categories
    else:
        places = [*(rule.root for rule in rules)]
        places += [way for node in nodes for way in (node.inside, node.outside)]
        early = [i for i, n in enumerate(nodes) if 0 <= n.inside <= i or 0 <= n.outside <= i]
        outside = [p for p in places if not -categories <= p < len(nodes)]
        assert categories < 0 or early or outside
