"""From the record stream to reuse observations: how long until a block is wanted again.

A live cache shows only the reuses that came before eviction. The ghost index follows the
sampled blocks whether they are cached or not: each access of a followed block is an *event*
at its age, and a block not asked for again counts as *censored* at the age it has reached.
Both go into one histogram over log-spaced ages for each category, the category being that of
the access before.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.blocks import MAX_CATEGORIES
from ..policies.recent import Keys, Table, find, new_table, place

GHOST = np.dtype([("key", np.uint64), ("last", np.float64), ("category", np.int32)])

AGES = 0.1 * 1.25 ** np.arange(64)
"""Representative ages of the histograms' bins in seconds: 0.1 s to 35 hours, by 25 %."""

Histogram = NDArray[np.float64]


class Reuse:
    """Reuse ages and censored ages by category, from a bounded ghost index.

    ``entries`` bounds the followed blocks (24 bytes each); an index too small for them takes
    the one idle longest for dead at the age it had.
    """

    def __init__(self, entries: int) -> None:
        self.ghosts = new_table(entries, GHOST)
        self.events = np.zeros((MAX_CATEGORIES, len(AGES)))
        self.censored = np.zeros((MAX_CATEGORIES, len(AGES)))

    def observe(
        self, keys: Keys, positions: Keys, carried: int, new: int, old: int, now: float
    ) -> None:
        """One admitted request: its followed blocks, and the categories of its two parts.

        The first ``carried`` blocks belong to category ``old``, those behind to ``new``.
        """
        _observe(self.ghosts, self.events, self.censored, keys, positions, carried, new, old, now)

    def histograms(self, now: float) -> tuple[Histogram, Histogram]:
        """Events and censored counts by category and age bin, the living counted at their age.

        Both of shape ``(MAX_CATEGORIES, len(AGES))``.
        """
        alive = self.ghosts[self.ghosts["key"] != 0]
        bins = _bins(now - alive["last"])
        censored = self.censored.copy()
        np.add.at(censored, (alive["category"], bins), 1.0)
        return self.events, censored

    def forget(self, factor: float) -> None:
        """Let what was observed so far count only ``factor`` times as much."""
        self.events *= factor
        self.censored *= factor

    def relabel(self, category: int) -> None:
        """Put everything under one category: the rules that named the others are gone."""
        for histogram in (self.events, self.censored):
            total = histogram.sum(axis=0)
            histogram[:] = 0.0
            histogram[category] = total
        self.ghosts["category"] = category


def _bins(ages: NDArray[np.float64]) -> NDArray[np.int64]:
    position = np.log(np.maximum(ages, AGES[0]) / AGES[0]) / np.log(1.25)
    return np.minimum(np.rint(position), len(AGES) - 1).astype(np.int64)


@njit(cache=True)
def _bin(age: float) -> int:
    position = np.log(max(age, 0.1) / 0.1) / np.log(1.25)
    return min(int(np.rint(position)), 63)


@njit(cache=True)
def _observe(
    ghosts: Table,
    events: Histogram,
    censored: Histogram,
    keys: Keys,
    positions: Keys,
    carried: int,
    new: int,
    old: int,
    now: float,
) -> None:
    for index, key in enumerate(keys):
        slot = find(ghosts, key)
        if slot >= 0:
            ghost = ghosts[slot]
            events[ghost.category, _bin(now - ghost.last)] += 1.0
        else:
            slot = place(ghosts, key)
            ghost = ghosts[slot]
            if ghost.key != 0:
                censored[ghost.category, _bin(now - ghost.last)] += 1.0
        ghost.key = key
        ghost.last = now
        ghost.category = old if positions[index] < carried else new
