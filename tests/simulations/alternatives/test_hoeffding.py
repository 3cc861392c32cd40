"""River's tree, translated: the same parts of requests in the same leaves."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from wactl.controller.cells import COLUMNS, REFINED, Buckets
from wactl.policies.ages import AGES
from wactl.policies.features import BUCKETS, GAP, POSITION, TURN
from wactl.simulations.alternatives.hoeffding import COLUMNS as SEEN
from wactl.simulations.alternatives.hoeffding import Hoeffding

RULE = 3


@pytest.fixture(scope="module")
def rows() -> Buckets:
    rng = np.random.default_rng(1)
    rows = np.zeros((4000, COLUMNS), np.uint8)
    rows[:, 0] = RULE
    for feature in (POSITION, TURN, GAP):
        rows[:, 1 + REFINED.index(feature)] = rng.integers(0, len(BUCKETS[feature]) + 1, len(rows))
    return rows


@pytest.fixture(scope="module")
def model(rows: Buckets) -> Hoeffding:
    """It has learned that carried blocks come back soon, and new ones of later turns later."""
    model = Hoeffding()
    turn, position = 1 + REFINED.index(TURN), 1 + REFINED.index(POSITION)
    for row in rows:
        model.learn(row, 0 if row[position] else 1 if row[turn] > 3 else 3)
    return model


def test_the_leaves_are_rivers(model: Hoeffding, rows: Buckets) -> None:
    """Two rows share a leaf of the translated tree if and only if they do in river's."""
    none = np.zeros((len(rows), len(AGES)))
    tree = model.grow(rows, none, none, [(RULE, True)], 64)
    found: dict[int, set[int]] = defaultdict(set)
    for row, leaf in zip(rows, tree.leaf_of(rows), strict=True):
        # Leaves of alternative subtrees, which decide nothing yet, stand before the one in force.
        *_, theirs = model.model._root.traverse({column: int(row[column]) for column in SEEN})
        found[int(leaf)].add(id(theirs))
    assert len(found) == len(tree.leaves) >= 3
    assert all(len(theirs) == 1 for theirs in found.values())
    assert len(set.union(*found.values())) == len(found)


def test_no_more_leaves_than_allowed(model: Hoeffding, rows: Buckets) -> None:
    """With room for two, only the division nearest to the root is made."""
    none = np.zeros((len(rows), len(AGES)))
    tree = model.grow(rows, none, none, [(RULE, True)], 2)
    assert len(tree.leaves) == 2
    assert sum(len(tree.branches[leaf].rows) for leaf in tree.leaves) == len(rows)
