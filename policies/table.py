"""The decision table: from features to a category, in a microsecond, without the sidecar.

The operator's rules (YAML, read by `wactl.controller.rules`) are compiled to this form and
pushed with the parameters. The first rule whose conditions all hold names the category, and
the buckets of the features it is split by tell which of its parts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

from .blocks import DEFAULT, FIRST_CATEGORY, MAX_CATEGORIES
from .features import BUCKETS, EDGES, FEATURES, Features, bucket

MAX_RULES = 64
MAX_CONDITIONS = 16
MAX_NAME = 64


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """Holds when the feature lies between ``low`` and ``high``, both included."""

    feature: int
    low: float
    high: float


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """A category: who belongs to it, and the features it is divided by."""

    name: str
    conditions: tuple[Condition, ...]
    splits: tuple[int, ...]

    @property
    def parts(self) -> int:
        """Number of categories this rule stands for."""
        return math.prod(len(BUCKETS[feature][0]) + 1 for feature in self.splits)

    def problem(self) -> str | None:
        """What is wrong with this rule, as the end of a sentence, or None."""
        if not 0 < len(self.name) <= MAX_NAME or not self.name.isprintable():
            return f"needs a printable name of 1 to {MAX_NAME} characters"
        if len(self.conditions) > MAX_CONDITIONS:
            return f"has {len(self.conditions)} conditions, more than {MAX_CONDITIONS}"
        for condition in self.conditions:
            if not 0 <= condition.feature < len(FEATURES):
                return f"asks for feature number {condition.feature}, which does not exist"
            if not condition.low <= condition.high:
                return f"asks for values from {condition.low} to {condition.high}: none fits"
        if len(set(self.splits)) != len(self.splits) or not set(self.splits) <= set(BUCKETS):
            return "is split by a feature twice, or by one that has no buckets"
        return None


class DecisionTable(msgspec.Struct, frozen=True, array_like=True):
    """Rules in order; the first that fits decides."""

    rules: tuple[Rule, ...]

    @property
    def categories(self) -> int:
        """Number of categories, all parts of all rules counted."""
        return sum(rule.parts for rule in self.rules)

    def problem(self) -> str | None:
        """The first thing wrong with this table, as a sentence, or None."""
        if len(self.rules) > MAX_RULES:
            return f"{len(self.rules)} rules, more than {MAX_RULES}"
        for index, rule in enumerate(self.rules):
            if wrong := rule.problem():
                return f"rule {index + 1} {wrong}"
        if self.categories > MAX_CATEGORIES - FIRST_CATEGORY:
            limit = MAX_CATEGORIES - FIRST_CATEGORY
            return f"{self.categories} categories, more than {limit}; split by fewer features"
        return None

    def rule_of(self, category: int) -> int:
        """Index of the rule that category number ``category`` (from 0) is a part of."""
        for index, rule in enumerate(self.rules):
            if category < rule.parts:
                return index
            category -= rule.parts
        raise IndexError(f"no category {category}")

    def name(self, category: int) -> str:
        """Readable name of category number ``category``, counted from 0."""
        for rule in self.rules:
            if category < rule.parts:
                words = []
                for feature in reversed(rule.splits):
                    names = BUCKETS[feature][1]
                    category, part = divmod(category, len(names))
                    words.append(names[part])
                return ", ".join([rule.name, *reversed(words)])
            category -= rule.parts
        raise IndexError(f"no category {category}")


class CompiledTable(NamedTuple):
    """A `DecisionTable` as arrays: rule ``r`` owns ``conditions[starts[r]:starts[r + 1]]``.

    A row of conditions is ``feature, low, high``; ``bases[r]`` is the id of the rule's first
    category, ``splits[r]`` its features, -1 behind the last.
    """

    conditions: NDArray[np.float64]
    starts: NDArray[np.int64]
    bases: NDArray[np.int64]
    splits: NDArray[np.int64]
    edges: NDArray[np.float64]


def compile_table(table: DecisionTable) -> CompiledTable:
    """Arrays of a valid table for `classify`."""
    rules = table.rules
    conditions = [(c.feature, c.low, c.high) for rule in rules for c in rule.conditions]
    splits = np.full((len(rules), len(BUCKETS) + 1), -1, np.int64)
    for row, rule in zip(splits, rules, strict=True):
        row[: len(rule.splits)] = rule.splits
    return CompiledTable(
        np.array(conditions, np.float64).reshape(-1, 3),
        np.cumsum([0, *(len(rule.conditions) for rule in rules)]),
        np.cumsum([FIRST_CATEGORY, *(rule.parts for rule in rules)])[: len(rules)],
        splits,
        EDGES,
    )


@njit(cache=True)
def classify(table: CompiledTable, features: Features) -> int:
    """Category id of a request's blocks; `DEFAULT` when no rule fits."""
    for rule in range(len(table.bases)):
        fits = True
        for at in range(table.starts[rule], table.starts[rule + 1]):
            feature, low, high = table.conditions[at]
            fits = fits and low <= features[int(feature)] <= high
        if fits:
            part = 0
            for feature in table.splits[rule]:
                if feature < 0:
                    break
                part *= 1 + np.sum(table.edges[feature] < np.inf)
                part += bucket(table.edges, feature, features[feature])
            return int(table.bases[rule] + part)
    return DEFAULT
