"""Laws come out of the cells' counts node by node, and a node seen little borrows from above."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from wactl.controller.cells import COLUMNS, REFINED
from wactl.controller.exponential import fit_exponential
from wactl.controller.family import Family
from wactl.controller.fit import HINTED, Fits, Observed, fit_all
from wactl.controller.lifetable import exponential_hazards
from wactl.controller.rules import Hints
from wactl.controller.tree import Branch, Fork, Tree
from wactl.policies.ages import AGES
from wactl.policies.features import TURN
from wactl.policies.parameters import MAX_SECONDS, Law, ParameterSet, Score
from wactl.policies.table import DecisionTable

Row = NDArray[np.float64]
Observe = Callable[..., tuple[Row, Row]]
Bins = Callable[[Row], Row]

EXPONENTIAL = (Family.EXPONENTIAL,)
TURN_COLUMN = 1 + REFINED.index(TURN)
NOBODY = np.array([], np.int64)

EARLY, LATE = [
    (5, *(mask if 1 + index == TURN_COLUMN else -1 for index in range(COLUMNS - 1)))
    for mask in (1, ~1)
]
TREE = Tree(
    [
        Branch((5, *(-1,) * (COLUMNS - 1)), -1, NOBODY, Fork(TURN_COLUMN, 0), (2, 3)),
        Branch((6, *(-1,) * (COLUMNS - 1)), -1, NOBODY),
        Branch(EARLY, 0, NOBODY),
        Branch(LATE, 0, NOBODY),
    ],
    {5: 0, 6: 1},
)
"""Rule 5, divided into first turns (node 2) and later ones (node 3), and rule 6 (node 1)."""


def seen(*cells: tuple[int, int, Row, Row], size: float = 1.0) -> Observed:
    """Cells by rule, bucket of the turn, events and censored, of ``size`` blocks a request."""
    buckets = np.zeros((len(cells), COLUMNS), np.uint8)
    buckets[:, 0] = [rule for rule, *_ in cells]
    buckets[:, TURN_COLUMN] = [turn for _, turn, *_ in cells]
    events = np.array([events for *_, events, _ in cells]).reshape(-1, len(AGES))
    censored = np.array([censored for *_, censored in cells]).reshape(-1, len(AGES))
    blocks = (events + censored).sum(axis=1)
    return Observed(buckets, events, censored, blocks / size, blocks)


def laws(
    cells: Observed,
    borrowed: float = 20.0,
    family: Family = Family.EXPONENTIAL,
    regions: Sequence[tuple[int, ...]] = (),
    hints: dict[int, Hints] | None = None,
) -> Fits:
    found = fit_all(cells, TREE, regions, borrowed, (family,), hints)
    assert found is not None
    return found[family]


@pytest.fixture
def two(observe: Observe, bins_of: Bins) -> tuple[tuple[Row, Row], tuple[Row, Row]]:
    """Counts of fifty thousand blocks mostly reused soon, and of as many rarely and late."""
    fast, slow = observe(0.9, 0.5, 60.0, 50_000), observe(0.2, 0.01, 600.0, 50_000, seed=8)
    return (bins_of(fast[0]), bins_of(fast[1])), (bins_of(slow[0]), bins_of(slow[1]))


def test_an_unseen_category_gets_its_parents_law_and_a_well_seen_one_its_own(
    two: tuple[tuple[Row, Row], tuple[Row, Row]],
) -> None:
    """A leaf without data has the law of its rule, a rule without data that of all traffic."""
    fast, slow = two
    fits = laws(seen((5, 1, *fast), (5, 2, *slow)))
    rule, unseen_rule, unseen, leaf = fits.nodes
    assert (unseen.requests, unseen.reuses, unseen.error) == (0.0, 0.0, None)
    assert unseen.law.p == pytest.approx(rule.law.p, rel=1e-3)
    assert unseen.law.rates[0] == pytest.approx(rule.law.rates[0], rel=1e-3)
    assert unseen_rule.law.p == pytest.approx(fits.everything.law.p, rel=1e-3)
    assert (leaf.requests, rule.requests, fits.everything.requests) == (1e5, 1e5, 1e5)
    fits = laws(seen((5, 0, *fast), (5, 7, *slow)))
    assert fits.nodes[2].law.p == pytest.approx(0.9, rel=0.03)
    assert fits.nodes[2].law.rates[0] == pytest.approx(0.5, rel=0.05)
    assert fits.nodes[3].law.p == pytest.approx(0.2, rel=0.05)
    assert fits.nodes[2].error == pytest.approx(fast[0].sum() ** -0.5)


def test_a_node_has_the_sums_of_what_lies_below(
    two: tuple[tuple[Row, Row], tuple[Row, Row]],
) -> None:
    """Without anything borrowed a rule's law is the fit of the sums over its cells."""
    fast, slow = two
    fits = laws(seen((5, 0, *fast), (5, 3, *slow), (6, 0, *slow)), borrowed=0.0)
    p, rate = fit_exponential((fast[0] + slow[0])[None], (fast[1] + slow[1])[None])
    assert fits.nodes[0].law.p == pytest.approx(p[0], rel=2e-3)
    assert fits.nodes[0].law.rates[0] == pytest.approx(rate[0], rel=2e-3)
    assert [node.requests for node in fits.nodes] == [1e5, 5e4, 5e4, 5e4]
    assert fits.everything.requests == 1.5e5


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_what_is_lent_counts_as_so_many_requests(size: float) -> None:
    """Ten reuses of ten move a category from its parent's 0.1, the less the more it borrows."""
    often, seldom, never, none = np.zeros((4, len(AGES)))
    often[20], seldom[20], never[45] = 10.0 * size, 1e6, 9e6
    cells = seen((5, 0, often, none), (5, 1, seldom, never), size=size)
    found = [laws(cells, borrowed).nodes[2].law.p for borrowed in (0.0, 10.0, 90.0)]
    assert found == pytest.approx([1.0, 0.55, 0.19], abs=0.01)


def test_cells_of_no_rule_count_for_all_traffic_only(bins_of: Bins) -> None:
    """What was counted under a rule that is gone is evidence for everything and no node."""
    row = bins_of(np.full(30, 5.0))
    fits = laws(seen((9, 0, row, 0 * row)))
    assert fits.everything.requests == 30.0
    assert [node.requests for node in fits.nodes] == [0.0] * 4


def test_before_any_reuse_there_are_no_laws(bins_of: Bins) -> None:
    """Without data nothing is fitted, and waiting blocks alone tell nothing of their reuse."""
    row = bins_of(np.full(50, 30.0))
    for cells in (seen(), seen((5, 0, 0 * row, row))):
        assert fit_all(cells, TREE, (), 20.0) is None


def test_a_region_of_a_former_tree_has_the_law_of_its_cells(
    two: tuple[tuple[Row, Row], tuple[Row, Row]],
) -> None:
    """Its blocks are still there, so their law goes on following the traffic."""
    fast, slow = two
    cells = seen((5, 0, *fast), (5, 3, *slow), (6, 0, *slow))
    fits = laws(cells, regions=[LATE, EARLY, (7, *EARLY[1:])])
    assert [fit.requests for fit in fits.regions] == [5e4, 5e4, 0.0]
    assert fits.regions[0].law.p == pytest.approx(0.2, rel=0.05)
    assert fits.regions[1].law.p == pytest.approx(0.9, rel=0.03)
    assert fits.regions[2].law.p == pytest.approx(fits.everything.law.p, rel=1e-3)


def test_each_family_is_fitted_to_the_same_counts(
    two: tuple[tuple[Row, Row], tuple[Row, Row]],
) -> None:
    """Evidence does not depend on the family; only the life table has hazards of its own."""
    found = fit_all(seen((5, 0, *two[0]), (6, 1, *two[1])), TREE, (), 10.0, tuple(Family))
    assert found is not None
    assert set(found) == set(Family)
    for family, fits in found.items():
        assert [fit.requests for fit in fits.nodes] == [5e4, 5e4, 5e4, 0.0]
        assert fits.nodes[2].law.p == pytest.approx(0.9, rel=0.03)
        assert bool(fits.nodes[2].law.hazards) == (family is Family.LIFE_TABLE)
    table = found[Family.LIFE_TABLE].nodes[2].law
    true = exponential_hazards(np.array([0.9]), np.array([0.5]))[0]
    young = (AGES > 0.2) & (AGES < 5.0)
    assert np.array(table.hazards)[young] == pytest.approx(true[young], rel=0.15)


def test_a_hinted_mean_is_believed_until_enough_was_seen(
    two: tuple[tuple[Row, Row], tuple[Row, Row]],
) -> None:
    """Without data a rule and its parts have the mean expected of them; with data what is seen."""
    fast, slow = two
    hints = {5: Hints(mean_seconds=30.0)}
    fits = laws(seen((6, 0, *slow)), hints=hints)
    for node in (0, 2, 3):
        assert fits.nodes[node].law.mean == pytest.approx(30.0, rel=0.1)
        assert fits.nodes[node].law.p == pytest.approx(HINTED, abs=0.02)
    assert fits.nodes[1].law.p == pytest.approx(0.2, rel=0.05)
    fits = laws(seen((5, 0, *fast), (6, 0, *slow)), hints=hints)
    assert fits.nodes[2].law.mean == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("family", Family)
def test_a_hinted_lifespan_holds_whatever_is_learned(
    family: Family, two: tuple[tuple[Row, Row], tuple[Row, Row]]
) -> None:
    """For the rule, its parts, and its regions of former trees; a longer one changes nothing."""
    fast, slow = two
    cells = seen((5, 0, *slow), (5, 1, *fast), (6, 0, *slow))
    free = laws(cells, family=family, regions=[LATE])
    short = laws(cells, family=family, regions=[LATE], hints={5: Hints(lifespan_seconds=7.0)})
    spans = [fit.law.lifespan for fit in (*short.nodes, *short.regions)]
    assert spans == [7.0, free.nodes[1].law.lifespan, 7.0, 7.0, 7.0]
    assert short.nodes[2].law.rates == free.nodes[2].law.rates
    long = {5: Hints(lifespan_seconds=MAX_SECONDS)}
    held = laws(cells, family=family, regions=[LATE], hints=long)
    assert [fit.law for fit in held.nodes] == [fit.law for fit in free.nodes]


def test_hints_of_a_rule_without_a_tree_wait() -> None:
    """A rule that could not be numbered yet has no node that its hints could change."""
    row = np.ones(len(AGES))
    cells = seen((5, 0, row, row))
    hint = {77: Hints(mean_seconds=3.0, lifespan_seconds=3.0)}
    hinted, free = laws(cells, hints=hint), laws(cells)
    assert [fit.law for fit in hinted.nodes] == [fit.law for fit in free.nodes]


COUNTS = st.one_of(st.just(0.0), st.floats(0.0, 1e12), st.sampled_from([5e-324, 1e-9, 1.0]))
SOME = st.dictionaries(st.integers(0, 63), COUNTS, max_size=4)
CELLS = st.lists(st.tuples(st.sampled_from([5, 6, 9]), st.integers(0, 7), SOME, SOME), max_size=6)
SECONDS = st.none() | st.floats(1e-9, MAX_SECONDS)


def row_of(counts: dict[int, float]) -> Row:
    row = np.zeros(len(AGES))
    row[list(counts)] = list(counts.values())
    return row


@settings(deadline=None)
@given(
    CELLS,
    st.floats(0.0, 1e6),
    st.sampled_from(Score),
    st.sampled_from(Family),
    st.builds(Hints, SECONDS, SECONDS),
    st.floats(1.0, 1e4),
)
def test_whatever_was_observed_gives_parameters_that_an_engine_takes(
    cells: list[tuple[int, int, dict[int, float], dict[int, float]]],
    borrowed: float,
    score: Score,
    family: Family,
    hints: Hints,
    size: float,
) -> None:
    """The laws of any counts, family and hints make a valid parameter set."""
    rows = [(rule, turn, row_of(events), row_of(waits)) for rule, turn, events, waits in cells]
    observed = seen(*rows, size=size)
    found = fit_all(observed, TREE, (LATE,), borrowed, (family,), {5: hints})
    if found is None:
        assert observed.events.sum() == 0.0
        return
    fits = found[family]
    every: tuple[Law, ...] = tuple(fit.law for fit in (*fits.nodes, *fits.regions))
    table = DecisionTable(1, len(every), (), ())
    parameters = ParameterSet(1, 60.0, 1.0, score, 60.0, fits.everything.law, every, table)
    assert parameters.problem() is None
