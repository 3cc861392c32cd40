"""From counts in cells to the laws of the tree's nodes: one law a category, rule, and all traffic.

The counts of a node are the sums over its cells. A node seen little borrows from the one above:
the other's counts, scaled to a few requests, are added to its own, from all traffic down to the
leaf. So a category nobody has seen behaves like its parent, never like one nobody reuses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.ages import AGES
from ..policies.parameters import MAX_SECONDS, Law
from .cells import Buckets, Counts
from .exponential import DEAD, fit_exponential, lifespan
from .family import Family
from .lifetable import fit_life_table
from .mixture import TIMES, fit_mixture
from .rules import Hints
from .tree import Masks, Tree, exposure, within

LEAST = 1e-6
"""Smallest probability of reuse that a law claims."""

HINTED = 0.5
"""Probability of reuse assumed where an operator gives a mean time and nothing was seen yet."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """One law and the evidence behind it, borrowed not counted, older counting less."""

    law: Law
    requests: float
    reuses: float
    """In requests: a request all of whose blocks are reused is one."""
    events: Rows
    """The same by age, shape ``(len(AGES),)``."""
    waited: Rows
    """Seconds waited at each age, of a request as many as of a block."""

    @property
    def error(self) -> float | None:
        """Relative standard error of the reuse rate, as of a count; None before any reuse."""
        return self.reuses**-0.5 if self.reuses else None


@dataclass(frozen=True, eq=False)
class Fits:
    """The laws of all traffic, of each node of the tree by its index, and of further regions."""

    everything: Fit
    nodes: tuple[Fit, ...]
    regions: tuple[Fit, ...]


@dataclass(frozen=True, eq=False)
class Observed:
    """What the rows of the cells hold: columns, ages of reuse and of waits, requests, blocks."""

    buckets: Buckets
    events: Counts
    censored: Counts
    requests: Rows
    blocks: Rows


def fit_all(
    seen: Observed,
    tree: Tree,
    regions: Sequence[Masks],
    borrowed: float,
    families: Sequence[Family] = (Family.LIFE_TABLE,),
    hints: dict[int, Hints] | None = None,
) -> dict[Family, Fits] | None:
    """Laws for the nodes of a tree and for ``regions`` of former trees, of each family.

    None before any reuse.

    ``borrowed`` is how many requests each node is lent by the one above (a region by all
    traffic), ``hints`` are what an operator expects of a rule, by its number.
    """
    if seen.events.sum() == 0.0:
        return None
    own, size = _sums(seen, tree, regions)
    lent = own.copy()
    hints = hints or {}
    expected = {
        tree.roots[rule]: _expected(hint.mean_seconds)
        for rule, hint in hints.items()
        if hint.mean_seconds and rule in tree.roots
    }
    parents = [branch.parent for branch in tree.branches] + [-1] * len(regions)
    for index, parent in enumerate(parents):
        above = expected.get(index, lent[parent + 1])
        lent[index + 1] += borrowed * size[index + 1] * above / max(above.sum(), 1e-9)
    own /= size[:, None, None]
    waited = exposure(own[:, 0], own[:, 1])
    reuses, total = own[:, 0].sum(axis=1), own.sum(axis=(1, 2))
    most = _most(tree, regions, hints)
    found = {}
    for family in families:
        laws = _laws(lent[:, 0], lent[:, 1], size, family)
        fits = tuple(
            Fit(_shortened(law, end), float(requests), float(reused), events, seconds)
            for law, end, requests, reused, events, seconds in zip(
                laws, most, total, reuses, own[:, 0], waited, strict=True
            )
        )
        cut = 1 + len(tree.branches)
        found[family] = Fits(fits[0], fits[1:cut], fits[cut:])
    return found


def _sums(seen: Observed, tree: Tree, regions: Sequence[Masks]) -> tuple[Rows, Rows]:
    """Counts of all traffic, of each node and region, and the blocks of a request in it.

    Shapes ``(1 + nodes + regions, 2, len(AGES))`` and ``(1 + nodes + regions,)``.
    """
    nodes = len(tree.branches)
    place = tree.leaf_of(seen.buckets) + 1
    of_all = 1 + nodes + len(regions)
    counts = np.zeros((of_all, 2, len(AGES)))
    _add(place, seen.events, counts[:, 0])
    _add(place, seen.censored, counts[:, 1])
    requests = np.bincount(place, seen.requests, of_all)
    blocks = np.bincount(place, seen.blocks, of_all)
    for index, masks in enumerate(regions, start=1 + nodes):
        rows = within(masks, seen.buckets)
        counts[index, 0] = seen.events[rows].sum(axis=0)
        counts[index, 1] = seen.censored[rows].sum(axis=0)
        requests[index], blocks[index] = seen.requests[rows].sum(), seen.blocks[rows].sum()
    for index in range(nodes, 0, -1):  # children stand behind their parents
        above = tree.branches[index - 1].parent + 1
        for of in (counts, requests, blocks):
            of[above] += of[index]
    return counts, np.maximum(blocks / np.maximum(requests, 1e-9), 1.0)


@njit(cache=True)
def _add(place: NDArray[np.int64], rows: Counts, sums: Rows) -> None:
    for row in range(len(rows)):
        sums[place[row]] += rows[row]


def _expected(mean: float) -> Rows:
    """Counts of one observation, shape ``(2, len(AGES))``, if the mean is as hinted."""
    borders = np.append(0.0, np.sqrt(AGES[1:] * AGES[:-1]))
    alive = np.exp(-np.append(borders, np.inf) / mean)
    counts = np.zeros((2, len(AGES)))
    counts[0] = HINTED * -np.diff(alive)
    counts[1, -1] = 1.0 - HINTED
    return counts


def _most(tree: Tree, regions: Sequence[Masks], hints: dict[int, Hints]) -> list[float]:
    """The longest lifespan that operators allow, of all traffic, each node and each region."""
    slots = [branch.masks[0] for branch in tree.branches] + [masks[0] for masks in regions]
    allowed = {slot: hint.lifespan_seconds or MAX_SECONDS for slot, hint in hints.items()}
    return [MAX_SECONDS, *(allowed.get(slot, MAX_SECONDS) for slot in slots)]


def _shortened(law: Law, most: float) -> Law:
    """The law with a lifespan of at most ``most`` seconds."""
    if law.lifespan <= most:
        return law
    return Law(law.weights, law.rates, most, law.hazards)


def _laws(events: Rows, censored: Rows, size: Rows, family: Family) -> list[Law]:
    if family is Family.MIXTURE:
        return _mixture_laws(events, censored)
    # p is never exactly 0: among blocks that nobody reused so far the oldest is still to go.
    p, rate = fit_exponential(events, censored)
    p = np.maximum(p, LEAST)
    pairs = list(zip(p.tolist(), rate.tolist(), strict=True))
    if family is Family.EXPONENTIAL:
        return [Law((p,), (rate,), lifespan(p, rate)) for p, rate in pairs]
    hazards = fit_life_table(events, exposure(events, censored), p, rate, size)
    ends = _ends(hazards)
    return [
        Law((p,), (rate,), end, tuple(row))
        for (p, rate), end, row in zip(pairs, ends, hazards.tolist(), strict=True)
    ]


def _ends(hazards: Rows) -> list[float]:
    """The age of each row at which the remaining probability of reuse falls to `DEAD`."""
    steps = 0.5 * (hazards[:, 1:] + hazards[:, :-1]) * np.diff(AGES)
    ahead = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    dead = ahead < -math.log1p(-DEAD)
    ends = np.where(dead.any(axis=1), AGES[dead.argmax(axis=1)], MAX_SECONDS)
    return np.maximum(1.0, ends).tolist()


def _mixture_laws(events: Rows, censored: Rows) -> list[Law]:
    weights = np.maximum(fit_mixture(events, censored), LEAST)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    reused = weights @ np.exp(-AGES / TIMES[:, None])
    never = np.maximum(1.0 - weights.sum(axis=1, keepdims=True), 0.0)
    dead = reused < DEAD * (reused + never)
    ends = np.where(dead.any(axis=1), AGES[dead.argmax(axis=1)], MAX_SECONDS)
    rates = tuple((1.0 / TIMES).tolist())
    return [
        Law(tuple(row), rates, max(1.0, end))
        for row, end in zip(weights.tolist(), ends.tolist(), strict=True)
    ]
