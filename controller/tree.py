"""The tree that divides the traffic into categories, grown from the counts of the cells.

Of each node it is asked which division of its cells, at one bucket of one feature, makes the
ages of reuse most likely, if either side had its own hazard in each of sixteen spans of age.
The best division of all is made first, and so on until none is worth its price, or there are as
many leaves as allowed. So the least telling divisions are the ones left out. The price is what
hit ratios prefer, not a test of significance: of the hundred divisions tried at a node chance
alone makes some gain as much, and a division too many costs little where leaves borrow.

The log likelihood of a hazard constant over a span with ``e`` events in ``x`` seconds waited is
``e log(e / x) − e``. A division adds a parameter for each span with any events, and under the
null hypothesis half a unit for each (Wilks); noise in time and between requests takes more.

Blocks of one request come back together, so what is weighed is requests: a cell's blocks count
as many as the requests they came with.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.ages import AGES
from .cells import COLUMNS, WORDED, Buckets, Counts

SPANS = 16
"""Spans of age with a hazard of their own."""

PRICE = 1.0
"""Log likelihood that a division must gain for each parameter it adds."""

MOST = 16
"""Buckets of a feature at most."""

_PER_SPAN = len(AGES) // SPANS
_BORDERS = np.append(0.0, np.sqrt(AGES[1:] * AGES[:-1]))
_WIDTHS = np.append(np.diff(_BORDERS), AGES[-1] - _BORDERS[-1])

Masks = tuple[int, ...]
"""A region: the rule's slot, then for each column the buckets that belong to it, one bit each."""

_EVERY = (-1,) * (COLUMNS - 1)


class Fork(NamedTuple):
    """A division: up to bucket ``value`` goes inside; of words, that word alone."""

    column: int
    value: int


@dataclass
class Branch:
    """A node: its place in the tree, and which rows of the cells are in it."""

    masks: Masks
    parent: int
    rows: NDArray[np.int64]
    fork: Fork | None = None
    ways: tuple[int, int] = (-1, -1)


@dataclass
class Tree:
    """Nodes, parents first; ``roots`` says where the tree of each rule's slot begins."""

    branches: list[Branch] = field(default_factory=list)
    roots: dict[int, int] = field(default_factory=dict)

    @property
    def leaves(self) -> list[int]:
        """Indices of the nodes without a division."""
        return [index for index, branch in enumerate(self.branches) if branch.fork is None]

    def leaf_of(self, buckets: Buckets) -> NDArray[np.int64]:
        """Index of the leaf of each row of buckets, shape ``(rows, COLUMNS)``; −1 for no rule's."""
        forks = np.array([b.fork or (-1, 0) for b in self.branches], np.int64).reshape(-1, 2)
        ways = np.array([b.ways for b in self.branches], np.int64).reshape(-1, 2)
        roots = np.full(256, -1, np.int64)
        roots[list(self.roots)] = list(self.roots.values())
        return _descend(forks, ways, roots, WORDED, buckets)


def exposure(events: Counts, censored: Counts) -> Counts:
    """Seconds waited in each bin of age, by all that reached it; of the same shape."""
    ended = events + censored
    reached = np.cumsum(ended[:, ::-1], axis=1)[:, ::-1]
    return (reached - ended) * _WIDTHS + ended * (AGES - _BORDERS)


def grow(
    buckets: Buckets,
    events: Counts,
    waited: Counts,
    rules: list[tuple[int, bool]],
    leaves: int,
    price: float = PRICE,
) -> Tree:
    """A tree of at most ``leaves`` leaves over cells with these columns and counts.

    ``events`` and ``waited`` (seconds), shape ``(cells, len(AGES))``, count requests. ``rules``
    are the slots of the rules, each with a leaf at least, and whether it may be divided.
    """
    spans = np.arange(0, len(AGES), _PER_SPAN)
    e, x = np.add.reduceat(events, spans, axis=1), np.add.reduceat(waited, spans, axis=1)
    tree = Tree()
    best: list[tuple[float, int, Fork]] = []

    def weigh(index: int) -> None:
        gain, column, value = _best(buckets, WORDED, e, x, tree.branches[index].rows, price)
        if gain > 0.0:
            heapq.heappush(best, (-gain, index, Fork(column, value)))

    for rule, divided in rules:
        rows = np.flatnonzero(buckets[:, 0] == rule)
        tree.roots[rule] = len(tree.branches)
        tree.branches.append(Branch((rule, *_EVERY), -1, rows))
        if divided:
            weigh(tree.roots[rule])
    count = len(rules)
    while best and count < leaves:
        _, index, fork = heapq.heappop(best)
        _divide(tree, index, fork, buckets)
        for way in tree.branches[index].ways:
            weigh(way)
        count += 1
    return tree


def _divide(tree: Tree, index: int, fork: Fork, buckets: Buckets) -> None:
    branch = tree.branches[index]
    column, value = fork
    word = column > 0 and bool(WORDED[column - 1])
    taken = 1 << value if word else (1 << (value + 1)) - 1
    values = buckets[branch.rows, column]
    inside = values == value if word else values <= value
    branch.fork = fork
    branch.ways = (len(tree.branches), len(tree.branches) + 1)
    for mask, rows in ((taken, branch.rows[inside]), (~taken, branch.rows[~inside])):
        masks = list(branch.masks)
        masks[column] &= mask
        tree.branches.append(Branch(tuple(masks), index, rows))


def within(masks: Masks, buckets: Buckets) -> NDArray[np.int64]:
    """The rows of ``buckets`` that lie in a region."""
    allowed = np.array([mask & 0xFFFF for mask in masks[1:]], np.uint16)
    return np.flatnonzero((buckets[:, 0] == masks[0]) & _within(allowed, buckets[:, 1:]))


@njit(cache=True)
def _within(allowed: NDArray[np.uint16], buckets: Buckets) -> NDArray[np.bool_]:
    found = np.ones(len(buckets), np.bool_)
    for row in range(len(buckets)):
        for column in range(len(allowed)):
            if not allowed[column] >> buckets[row, column] & 1:
                found[row] = False
                break
    return found


@njit(cache=True)
def _likelihood(e: NDArray[np.float64], x: NDArray[np.float64]) -> float:
    total = 0.0
    for span in range(len(e)):
        if e[span] > 0.0:
            total += e[span] * np.log(e[span] / max(x[span], 1e-12))
    return total


@njit(cache=True)
def _best(
    buckets: Buckets,
    worded: NDArray[np.bool_],
    e: Counts,
    x: Counts,
    rows: NDArray[np.int64],
    price: float,
) -> tuple[float, int, int]:
    """What the best division of the cells ``rows`` gains beyond its price, and which it is."""
    spans = e.shape[1]
    whole_e, whole_x = np.zeros(spans), np.zeros(spans)
    for row in rows:
        for span in range(spans):  # not `+=` of rows, whose views take six times as long
            whole_e[span] += e[row, span]
            whole_x[span] += x[row, span]
    cost = price * max(1.0, float(np.sum(whole_e > 0.5))) + _likelihood(whole_e, whole_x)
    best, column, value = 0.0, -1, -1
    for c in range(1, buckets.shape[1]):
        at_e, at_x = np.zeros((MOST, spans)), np.zeros((MOST, spans))
        lowest, highest = MOST, -1
        for row in rows:
            bucket = int(buckets[row, c])
            for span in range(spans):
                at_e[bucket, span] += e[row, span]
                at_x[bucket, span] += x[row, span]
            lowest, highest = min(lowest, bucket), max(highest, bucket)
        if lowest >= highest:
            continue
        word = worded[c - 1]
        left_e, left_x = np.zeros(spans), np.zeros(spans)
        for v in range(max(lowest, 1) if word else lowest, highest + 1 if word else highest):
            if word:
                left_e[:], left_x[:] = at_e[v], at_x[v]
            else:
                left_e += at_e[v]
                left_x += at_x[v]
            gain = _likelihood(left_e, left_x) - cost
            gain += _likelihood(whole_e - left_e, whole_x - left_x)
            if gain > best:
                best, column, value = gain, c, v
    return best, column, value


@njit(cache=True)
def _descend(
    forks: NDArray[np.int64],
    ways: NDArray[np.int64],
    roots: NDArray[np.int64],
    worded: NDArray[np.bool_],
    buckets: Buckets,
) -> NDArray[np.int64]:
    found = np.empty(len(buckets), np.int64)
    for row in range(len(buckets)):
        at = roots[buckets[row, 0]]
        while at >= 0 and forks[at, 0] >= 0:
            column, value = forks[at]
            bucket = buckets[row, column]
            word = column > 0 and worded[column - 1]
            inside = bucket == value if word else bucket <= value
            at = ways[at, 0 if inside else 1]
        found[row] = at
    return found
