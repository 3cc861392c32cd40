"""The tree finds what was planted, nothing in noise, and never has too many leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from wactl.controller.cells import COLUMNS, REFINED, WORDED, Buckets
from wactl.controller.tree import Fork, Tree, exposure, grow, within
from wactl.controller.words import PLACES
from wactl.policies.ages import AGES
from wactl.policies.features import BUCKETS, GAP, LENGTH, TENANT, TURN, TYPE

Row = NDArray[np.float64]
Observe = Callable[..., tuple[Row, Row]]
Bins = Callable[[Row], Row]

WIDTHS = [len(BUCKETS[f]) + 1 if f in BUCKETS else PLACES + 1 for f in REFINED]


def column(feature: int) -> int:
    return 1 + REFINED.index(feature)


def some_buckets(rng: np.random.Generator, count: int, rules: Sequence[int]) -> Buckets:
    """Cells with any buckets."""
    found = np.empty((count, COLUMNS), np.uint8)
    found[:, 0] = rng.choice(list(rules), count)
    for index, width in enumerate(WIDTHS):
        found[:, 1 + index] = rng.integers(0, width, count)
    return found


def some_counts(rng: np.random.Generator, count: int) -> tuple[Row, Row]:
    """Events and waits that differ from cell to cell, most ages without any."""
    shape = (count, len(AGES))
    events = rng.poisson(5.0, shape) * (rng.random(shape) < 0.2) * rng.integers(0, 5, (count, 1))
    censored = rng.poisson(5.0, shape) * (rng.random(shape) < 0.2)
    return events.astype(float), exposure(events.astype(float), censored.astype(float))


def any_tree(seed: int, leaves: int = 32, cells: int = 60) -> tuple[Tree, Buckets]:
    rng = np.random.default_rng(seed)
    buckets = some_buckets(rng, cells, (3, 4, 9))
    rules = [(3, True), (9, bool(seed % 2)), (4, True)]
    return grow(buckets, *some_counts(rng, cells), rules, leaves), buckets


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_whatever_was_counted_the_leaves_are_few_and_part_the_cells(seed: int, most: int) -> None:
    """At most as many leaves as allowed, each cell in one, and the region of a leaf says which."""
    tree, buckets = any_tree(seed, most)
    assert len(tree.leaves) <= max(most, 3)
    rows = [tree.branches[leaf].rows for leaf in tree.leaves]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(buckets)))
    found = tree.leaf_of(buckets)
    others = some_buckets(np.random.default_rng(seed + 1), 100, (3, 4, 9))
    for leaf, own in zip(tree.leaves, rows, strict=True):
        masks = tree.branches[leaf].masks
        assert np.flatnonzero(found == leaf).tolist() == own.tolist()
        assert within(masks, buckets).tolist() == own.tolist()
        assert within(masks, others).tolist() == (
            np.flatnonzero(tree.leaf_of(others) == leaf).tolist()
        )


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_the_same_counts_grow_the_same_tree(seed: int) -> None:
    """To the last node, in the same order."""
    rng = np.random.default_rng(seed)
    buckets = some_buckets(rng, 60, (3, 4))
    events, waited = some_counts(rng, 60)
    rules = [(3, True), (4, True)]
    trees = [grow(buckets, events, waited, rules, 16) for _ in range(2)]
    one, two = ([(b.masks, b.fork, b.ways, b.rows.tolist()) for b in t.branches] for t in trees)
    assert one == two


def test_cells_of_no_rule_are_in_no_leaf() -> None:
    """A cell counted under a rule that is gone belongs nowhere."""
    tree, buckets = any_tree(7)
    buckets[:5, 0] = 200
    assert tree.leaf_of(buckets)[:5].tolist() == [-1] * 5
    assert np.all(tree.leaf_of(buckets)[5:] >= 0)


def planted(
    seed: int,
    per_cell: int,
    law_of: Callable[[Row], tuple[float, float]],
    observe: Observe,
    bins_of: Bins,
    cells: int = 100,
) -> tuple[Buckets, Row, Row]:
    """Cells of any buckets, each with so many requests from the law that its buckets have."""
    buckets = some_buckets(np.random.default_rng(seed), cells, (0,))
    events, censored = np.empty((cells, len(AGES))), np.empty((cells, len(AGES)))
    for row in range(cells):
        p, rate = law_of(buckets[row])
        reused, waiting = observe(p, rate, 300.0, per_cell, seed=1000 * seed + row)
        events[row], censored[row] = bins_of(reused), bins_of(waiting)
    return buckets, events, exposure(events, censored)


SURE = 1.75
"""A price at which chance alone divides hardly anything; the default asks for less."""


@pytest.mark.parametrize(("cells", "requests"), [(20, 100), (100, 20), (400, 5)])
def test_noise_is_not_divided(cells: int, requests: int, observe: Observe, bins_of: Bins) -> None:
    """With one law for all, at most five of a hundred times anything is divided at that price.

    Each time some hundred divisions by thirteen features are tried, and the best one is weighed.
    """
    divided = 0
    for seed in range(100):
        counts = planted(seed, requests, lambda _: (0.4, 0.05), observe, bins_of, cells)
        divided += len(grow(*counts, [(0, True)], 64, SURE).leaves) > 1
    assert divided <= 5


@pytest.mark.parametrize(
    ("feature", "value"), [(TURN, 2), (GAP, 4), (LENGTH, 0), (TYPE, 3), (TENANT, 15)]
)
def test_a_planted_division_is_found_and_no_other(
    feature: int, value: int, observe: Observe, bins_of: Bins
) -> None:
    """Two laws that differ by one bucket or word: that is the division, and it is enough."""
    at = column(feature)
    word = WORDED[at - 1]

    def law_of(row: Row) -> tuple[float, float]:
        inside = row[at] == value if word else row[at] <= value
        return (0.8, 0.3) if inside else (0.3, 0.02)

    cells = planted(7, 40, law_of, observe, bins_of, cells=200)
    tree = grow(*cells, [(0, True)], 64, SURE)
    assert tree.branches[0].fork == Fork(at, value)
    assert len(tree.leaves) == 2
    assert grow(*cells, [(0, True)], 2).branches[0].fork == Fork(at, value)


def test_the_most_telling_division_is_kept(observe: Observe, bins_of: Bins) -> None:
    """Room for two leaves goes to the feature that matters more; with more room both are used."""

    def law_of(row: Row) -> tuple[float, float]:
        p = 0.8 if row[column(TURN)] <= 3 else 0.2
        return p, 0.03 if row[column(GAP)] <= 3 else 0.05

    cells = planted(7, 200, law_of, observe, bins_of)
    assert grow(*cells, [(0, True)], 2).branches[0].fork == Fork(column(TURN), 3)
    forks = {b.fork for b in grow(*cells, [(0, True)], 64).branches}
    assert Fork(column(GAP), 3) in forks


def test_a_rule_that_is_not_to_be_refined_stays_whole(observe: Observe, bins_of: Bins) -> None:
    """However much a division would gain."""

    def law_of(row: Row) -> tuple[float, float]:
        return (0.9, 0.5) if row[column(TURN)] <= 3 else (0.2, 0.01)

    cells = planted(7, 50, law_of, observe, bins_of)
    assert len(grow(*cells, [(0, True)], 64).leaves) > 1
    assert len(grow(*cells, [(0, False)], 64).leaves) == 1


def test_more_rules_than_leaves_leave_each_rule_one() -> None:
    """Nothing is divided then, and no rule is left out."""
    buckets = some_buckets(np.random.default_rng(7), 60, range(5))
    counts = some_counts(np.random.default_rng(7), 60)
    tree = grow(buckets, *counts, [(rule, True) for rule in range(5)], 2)
    assert [tree.branches[leaf].masks[0] for leaf in tree.leaves] == list(range(5))


def test_all_that_reached_an_age_waited_for_it() -> None:
    """Seconds waited add up to the ages at which the waits ended."""
    rng = np.random.default_rng(7)
    events, censored = rng.poisson(1.0, (2, 5, len(AGES))).astype(float)
    waited = exposure(events, censored)
    assert waited.shape == events.shape
    assert waited.sum(axis=1) == pytest.approx((events + censored) @ AGES)
    assert np.all(waited >= 0.0)
