"""The grid tells each bucket of its sides apart, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
from wactl.controller.cells import COLUMNS, REFINED
from wactl.policies.ages import AGES
from wactl.policies.features import BUCKETS, LENGTH
from wactl.simulations.alternatives.grid import SIDES, grid


def test_each_bucket_of_each_side_apart() -> None:
    """Rows that differ in length alone share a leaf."""
    places = list(itertools.product(*(range(len(BUCKETS[side]) + 1) for side in SIDES)))
    rows = np.zeros((2 * len(places), COLUMNS), np.uint8)
    for side, column in zip(SIDES, np.array(places).T, strict=True):
        rows[:, 1 + REFINED.index(side)] = np.tile(column, 2)
    rows[len(places) :, 1 + REFINED.index(LENGTH)] = 3
    none = np.zeros((len(rows), len(AGES)))
    leaves = grid(rows, none, none, [(0, True)], 64).leaf_of(rows)
    assert len(set(leaves.tolist())) == len(places) == 128
    np.testing.assert_array_equal(leaves[: len(places)], leaves[len(places) :])
