"""A fixed division, as it was before the tree: by position, turn and gap, 128 categories."""

from __future__ import annotations

import numpy as np

from ...controller import learner
from ...controller import tree as grown
from ...controller.cells import REFINED, Buckets, Counts
from ...controller.family import Family
from ...controller.learner import Learner
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...controller.tree import Branch, Fork, Tree
from ...policies.features import BUCKETS, GAP, POSITION, TURN
from ..cache import SimulatedCache
from ..controlled import replay
from ..played import Played
from ..trace import Trace
from .swapped import swapped

SIDES = (POSITION, TURN, GAP)
"""The features of the grid."""


def grid(
    buckets: Buckets,
    events: Counts,
    waited: Counts,
    rules: list[tuple[int, bool]],
    leaves: int,
) -> Tree:
    """In place of `wactl.controller.tree.grow`: each bucket of each side of the grid apart."""
    tree = Tree()
    for slot, _ in rules:
        tree.roots[slot] = len(tree.branches)
        rows = np.flatnonzero(buckets[:, 0] == slot)
        tree.branches.append(Branch((slot, *(-1,) * len(REFINED)), -1, rows))
    for feature in SIDES:
        column = 1 + REFINED.index(feature)
        for leaf in tree.leaves:
            above = leaf
            for value in range(len(BUCKETS[feature])):
                grown._divide(tree, above, Fork(column, value), buckets)
                above = tree.branches[above].ways[1]
    return tree


def play(trace: Trace, capacity: int) -> Played:
    """The grid in the place of the tree."""
    settings = Settings(families=(Family.LIFE_TABLE,))
    with swapped(learner, grow=grid):
        cache = SimulatedCache(trace, capacity)
        return replay(cache, Learner(settings, load_rules(settings.rules)))
