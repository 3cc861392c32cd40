"""The decision table: from features to a category, in a microsecond, without the sidecar.

The operator's rules (YAML, read by `wactl.controller.rules`) and the tree that the sidecar has
grown below each (`wactl.controller.tree`) are compiled to this form and pushed with the
parameters. The first rule whose conditions all hold leads into its tree, and the leaf reached
there is the category.

Categories keep their number from table to table: a block that was put in one stays there until
it is used again. One that no leaf leads to any more keeps its law until its blocks are gone.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

from .blocks import DEFAULT, FIRST_CATEGORY, MAX_CATEGORIES
from .features import FEATURES, Features

MAX_RULES = 64
MAX_CONDITIONS = 16
MAX_NODES = 1024
MAX_NAME = 64


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """Holds when the feature lies between ``low`` and ``high``, both included."""

    feature: int
    low: float
    high: float

    def problem(self) -> str | None:
        """What is wrong with this condition, as the end of a sentence, or None."""
        if not 0 <= self.feature < len(FEATURES):
            return f"asks for feature number {self.feature}, which does not exist"
        if not self.low <= self.high:
            return f"asks for values from {self.low} to {self.high}: none fits"
        return None


class Node(msgspec.Struct, frozen=True, array_like=True):
    """A fork of a tree: where to go on if the condition holds, and where if it does not.

    A place below 0 is a leaf, of the category ``-1 - place``; any other is a node.
    """

    condition: Condition
    inside: int
    outside: int


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """Who belongs to a rule, and the place its tree begins at, a node or (see `Node`) a leaf."""

    name: str
    conditions: tuple[Condition, ...]
    root: int

    def problem(self) -> str | None:
        """What is wrong with this rule, as the end of a sentence, or None."""
        if not 0 < len(self.name) <= MAX_NAME or not self.name.isprintable():
            return f"needs a printable name of 1 to {MAX_NAME} characters"
        if len(self.conditions) > MAX_CONDITIONS:
            return f"has {len(self.conditions)} conditions, more than {MAX_CONDITIONS}"
        return next((wrong for c in self.conditions if (wrong := c.problem())), None)


class DecisionTable(msgspec.Struct, frozen=True, array_like=True):
    """Rules in order, the first that fits decides; the nodes of all trees, parents first.

    ``categories`` is how many category numbers there are, from 0. ``lineage`` tells whose
    numbers they are: under another lineage the same number means something else.
    """

    lineage: int
    categories: int
    rules: tuple[Rule, ...]
    nodes: tuple[Node, ...]

    def problem(self) -> str | None:
        """The first thing wrong with this table, as a sentence, or None."""
        if len(self.rules) > MAX_RULES:
            return f"{len(self.rules)} rules, more than {MAX_RULES}"
        if len(self.nodes) > MAX_NODES:
            return f"{len(self.nodes)} nodes, more than {MAX_NODES}"
        if not 0 <= self.categories <= MAX_CATEGORIES - FIRST_CATEGORY:
            limit = MAX_CATEGORIES - FIRST_CATEGORY
            return f"{self.categories} categories, not from 0 to {limit}"
        for index, rule in enumerate(self.rules):
            if wrong := rule.problem():
                return f"rule {index + 1} {wrong}"
            if not -self.categories <= rule.root < len(self.nodes):
                return f"rule {index + 1} leads to {rule.root}, which does not exist"
        for index, node in enumerate(self.nodes):
            if wrong := node.condition.problem():
                return f"node {index} {wrong}"
            for place in (node.inside, node.outside):
                # A node leads to later ones only: no way through the table is endless.
                if not -self.categories <= place < len(self.nodes) or 0 <= place <= index:
                    return f"node {index} leads to {place}, which is no later node and no category"
        return None


EMPTY = DecisionTable(0, 0, (), ())
"""Knows no category."""


class CompiledTable(NamedTuple):
    """A `DecisionTable` as arrays: rule ``r`` owns ``conditions[starts[r]:starts[r + 1]]``.

    A row of conditions or of forks is ``feature, low, high``; a row of ways ``inside, outside``.
    """

    conditions: NDArray[np.float64]
    starts: NDArray[np.int64]
    roots: NDArray[np.int64]
    forks: NDArray[np.float64]
    ways: NDArray[np.int64]


def compile_table(table: DecisionTable) -> CompiledTable:
    """Arrays of a valid table for `classify`."""
    conditions = [(c.feature, c.low, c.high) for rule in table.rules for c in rule.conditions]
    forks = [(n.condition.feature, n.condition.low, n.condition.high) for n in table.nodes]
    return CompiledTable(
        np.array(conditions, np.float64).reshape(-1, 3),
        np.cumsum([0, *(len(rule.conditions) for rule in table.rules)]),
        np.array([rule.root for rule in table.rules], np.int64),
        np.array(forks, np.float64).reshape(-1, 3),
        np.array([(n.inside, n.outside) for n in table.nodes], np.int64).reshape(-1, 2),
    )


@njit(cache=True)
def _holds(condition: NDArray[np.float64], features: Features) -> bool:
    return bool(condition[1] <= features[int(condition[0])] <= condition[2])


@njit(cache=True)
def rule_of(table: CompiledTable, features: Features) -> int:
    """Index of the first rule that fits, -1 if none does."""
    for rule in range(len(table.roots)):
        fits = True
        for at in range(table.starts[rule], table.starts[rule + 1]):
            fits = fits and _holds(table.conditions[at], features)
        if fits:
            return rule
    return -1


@njit(cache=True)
def classify(table: CompiledTable, features: Features) -> int:
    """Category id of a request's blocks; `DEFAULT` when no rule fits."""
    rule = rule_of(table, features)
    if rule < 0:
        return DEFAULT
    place = table.roots[rule]
    while place >= 0:
        place = table.ways[place, 0 if _holds(table.forks[place], features) else 1]
    return FIRST_CATEGORY - 1 - place
