"""From the record stream to reuse observations: how long until a block is wanted again.

A live cache shows only the reuses that came before eviction. The ghost index follows the
sampled blocks whether they are cached or not: each access of a followed block is an *event*
at its age, and a block not asked for again counts as *censored* at the age it has reached.
Both go into one histogram over log-spaced ages for each category, the category being that of
the access before.

What was seen long ago counts less, and what tells is when the wait *began*, for events and
censored alike. Were a reuse forgotten while the block that is still waiting counts in full,
the share of reused blocks would seem to fall from hour to hour.
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
    the one idle longest for dead at the age it had. A wait that began ``half_life`` seconds
    ago counts half.
    """

    def __init__(self, entries: int, half_life: float = np.inf) -> None:
        self.half_life = half_life
        self.ghosts = new_table(entries, GHOST)
        self.events = np.zeros((MAX_CATEGORIES, len(AGES)))
        self.censored = np.zeros((MAX_CATEGORIES, len(AGES)))

    def observe(
        self, keys: Keys, positions: Keys, carried: int, new: int, old: int, now: float
    ) -> None:
        """One admitted request: its followed blocks, and the categories of its two parts.

        The first ``carried`` blocks belong to category ``old``, those behind to ``new``.
        """
        _observe(
            self.ghosts,
            self.events,
            self.censored,
            self.half_life,
            keys,
            positions,
            carried,
            new,
            old,
            now,
        )

    def histograms(self, now: float) -> tuple[Histogram, Histogram]:
        """Events and censored counts by category and age bin, the living counted at their age.

        Both of shape ``(MAX_CATEGORIES, len(AGES))``.
        """
        censored = self.censored.copy()
        _add_living(self.ghosts, censored, self.half_life, now)
        return self.events, censored

    def forget(self, seconds: float) -> None:
        """Let ``seconds`` pass for what was observed so far: it counts less and less."""
        factor = 0.5 ** (seconds / self.half_life)
        self.events *= factor
        self.censored *= factor


@njit(cache=True)
def _weight(age: float, half_life: float) -> float:
    return 0.5 ** (max(age, 0.0) / half_life)


@njit(cache=True)
def _add_living(ghosts: Table, censored: Histogram, half_life: float, now: float) -> None:
    last, column, weight = np.inf, 0, 0.0
    for ghost in ghosts:
        if ghost.key != 0:
            if ghost.last != last:
                last = ghost.last
                column, weight = _bin(now - last), _weight(now - last, half_life)
            censored[ghost.category, column] += weight


@njit(cache=True)
def _bin(age: float) -> int:
    position = np.log(max(age, 0.1) / 0.1) / np.log(1.25)
    return min(int(np.rint(position)), 63)


@njit(cache=True)
def _observe(
    ghosts: Table,
    events: Histogram,
    censored: Histogram,
    half_life: float,
    keys: Keys,
    positions: Keys,
    carried: int,
    new: int,
    old: int,
    now: float,
) -> None:
    # Blocks of one prompt were mostly last used together: their age is worked out once.
    last, column, weight = np.inf, 0, 0.0
    for index, key in enumerate(keys):
        if key == 0:  # no block's key: it stands for an empty slot
            continue
        slot = find(ghosts, key)
        counts = events if slot >= 0 else censored
        if slot < 0:
            slot = place(ghosts, key)
        ghost = ghosts[slot]
        if ghost.key != 0:
            if ghost.last != last:
                last = ghost.last
                column, weight = _bin(now - last), _weight(now - last, half_life)
            counts[ghost.category, column] += weight
        ghost.key = key
        ghost.last = now
        ghost.category = old if positions[index] < carried else new
