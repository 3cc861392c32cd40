"""river's Hoeffding adaptive tree over the classes of reuse, its leaves as the categories.

G. Hulten, L. Spencer, P. Domingos, "Mining time-changing data streams" (KDD 2001), with ADWIN
to replace branches that err more than they did (A. Bifet, R. Gavaldà, IDA 2009). It sees the
buckets of the very features that the cells have. Its divisions are at one bucket of one
feature, as those of our tree are, so it is translated, and everything behind it stays the same.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from river.tree import HoeffdingAdaptiveTreeClassifier

from ...controller import learner
from ...controller import tree as grown
from ...controller.cells import REFINED, WORDED, Buckets, Counts
from ...controller.family import Family
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...controller.tree import Branch, Fork, Tree
from ...policies.features import BUCKETS
from ..cache import SimulatedCache
from ..controlled import replay
from ..played import Played
from ..trace import Trace
from .labels import Labelled
from .swapped import swapped

DELTA = 0.01
"""How often a division may be wrong. With river's own 1e-7 two of the traces are never divided."""

COLUMNS = [1 + column for column, word in enumerate(WORDED) if not word]
"""The columns that river sees: those of numbers, which have an order."""


class Hoeffding:
    """The tree of river, and what it divides."""

    def __init__(self) -> None:
        # Any: river leaves `learn_one` without types.
        self.model: Any = HoeffdingAdaptiveTreeClassifier(grace_period=50, delta=DELTA, seed=1)

    def learn(self, row: Buckets, label: int) -> None:
        """See `wactl.simulations.alternatives.labels.Learn`."""
        self.model.learn_one({column: int(row[column]) for column in COLUMNS}, label)

    def grow(
        self,
        buckets: Buckets,
        events: Counts,
        waited: Counts,
        rules: list[tuple[int, bool]],
        leaves: int,
    ) -> Tree:
        """In place of `wactl.controller.tree.grow`: what river has come to so far."""
        tree = Tree()
        for slot, _ in rules:
            tree.roots[slot] = len(tree.branches)
            rows = np.flatnonzero(buckets[:, 0] == slot)
            tree.branches.append(Branch((slot, *(-1,) * len(REFINED)), -1, rows))
        # river hands out no way to walk its tree; `_root` is what its own methods start from.
        nodes = deque((place, self.model._root) for place in tree.roots.values())
        count = len(rules)
        while nodes and count < leaves:
            index, node = nodes.popleft()
            fork, children = _division(node)
            if fork is not None:
                grown._divide(tree, index, fork, buckets)
                nodes.extend(zip(tree.branches[index].ways, children, strict=True))
                count += 1
        return tree


def _division(node: Any) -> tuple[Fork | None, list[Any]]:
    """Where a node of river's divides the buckets, and its children; None if it is a leaf."""
    while hasattr(node, "children"):
        value = math.floor(node.threshold)
        last = len(BUCKETS[REFINED[node.feature - 1]]) - 1
        if 0 <= value <= last:
            return Fork(node.feature, value), node.children
        node = node.children[0 if value > last else 1]  # all buckets lie on one side
    return None, []


def play(trace: Trace, capacity: int) -> Played:
    """The tree of river in the place of ours."""
    settings = Settings(families=(Family.LIFE_TABLE,))
    model = Hoeffding()
    with swapped(learner, grow=model.grow):
        cache = SimulatedCache(trace, capacity)
        return replay(cache, Labelled(settings, load_rules(settings.rules), model.learn))
