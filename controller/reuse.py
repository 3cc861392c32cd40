"""From the record stream to reuse observations: how long until a block is wanted again.

A live cache shows only the reuses that came before eviction. The ghost index follows the
sampled blocks whether they are cached or not: each access of a followed block is an *event*
at its age, and a block not asked for again counts as *censored* at the age it has reached.
Both are counted over log-spaced ages in the cell (`cells`) of the access before.

What was seen long ago counts less, and what tells is when the wait *began*, for events and
censored alike. Were a reuse forgotten while the block that is still waiting counts in full,
the share of reused blocks would seem to fall from hour to hour.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..policies.ages import position
from ..policies.blocks import Ids
from ..policies.features import Features
from ..policies.recent import Keys, Table, find, new_table, place
from .cells import Cells, Counts

GHOST = np.dtype([("key", np.uint64), ("last", np.float64), ("cell", np.uint64)])


class Reuse:
    """Counts reuse in ``cells``, from a bounded ghost index.

    ``entries`` bounds the followed blocks (24 bytes each); an index too small for them takes
    the one idle longest for dead at the age it had. A wait that began ``half_life`` seconds
    ago counts half.
    """

    def __init__(self, cells: Cells, entries: int, half_life: float = np.inf) -> None:
        self.cells = cells
        self.half_life = half_life
        self.ghosts = new_table(entries, GHOST)

    def observe(
        self, keys: Keys, positions: Keys, carried: int, new: int, old: int, now: float
    ) -> tuple[Ids, Ids, Features]:
        """One admitted request: its followed blocks, and the cells of its two parts.

        The first ``carried`` blocks belong to the cell ``old``, those behind to ``new``. Returns
        the place of each block in the index, −1 where there was none, which places used to
        belong to other blocks, and for how long nobody had asked for each block: seconds, infinite
        for one that was not known.
        """
        cells, half_life = self.cells, self.half_life
        places = np.empty(len(keys), np.int64)
        displaced = np.empty(len(keys), np.int64)
        idle = np.empty(len(keys))
        count = _observe(
            *(self.ghosts, cells.table, cells.events, cells.censored, half_life),
            *(keys, positions, carried, np.uint64(new), np.uint64(old), now),
            *(places, displaced, idle),
        )
        return places, displaced[:count], idle

    def move(
        self, keys: Keys, positions: Keys, carried: int, new: int, old: int, admitted: float
    ) -> None:
        """More is known of a request admitted at ``admitted``: its parts belong elsewhere.

        Blocks that somebody used since stay where they are.
        """
        parts = np.uint64(new), np.uint64(old)
        _move(self.ghosts, keys, positions, carried, *parts, admitted)

    def counts(self, now: float) -> tuple[Counts, Counts]:
        """Events and censored counts by cell and age, the living counted at their age.

        Both of shape ``(cells, len(AGES))``.
        """
        cells = self.cells
        censored = cells.censored.copy()
        _add_living(self.ghosts, cells.table, censored, self.half_life, now)
        return cells.events, censored

    def forget(self, seconds: float) -> None:
        """Let ``seconds`` pass for what was observed so far: it counts less and less."""
        self.cells.fade(0.5 ** (seconds / self.half_life))


@njit(cache=True)
def _weight(age: float, half_life: float) -> float:
    return 0.5 ** (max(age, 0.0) / half_life)


@njit(cache=True)
def _bin(age: float) -> int:
    return int(np.rint(position(age)))


@njit(cache=True)
def _add_living(
    ghosts: Table, cells: Table, censored: Counts, half_life: float, now: float
) -> None:
    last, column, weight = np.inf, 0, 0.0
    cell, row = np.uint64(0), -1
    for ghost in ghosts:
        if ghost.key != 0:
            if ghost.last != last:
                last = ghost.last
                column, weight = _bin(now - last), _weight(now - last, half_life)
            if ghost.cell != cell:
                cell = ghost.cell
                row = find(cells, cell)
            if row >= 0:
                censored[row, column] += weight


@njit(cache=True)
def _observe(
    ghosts: Table,
    cells: Table,
    events: Counts,
    censored: Counts,
    half_life: float,
    keys: Keys,
    positions: Keys,
    carried: int,
    new: int,
    old: int,
    now: float,
    places: Ids,
    displaced: Ids,
    idle: Features,
) -> int:
    # Blocks of one prompt were mostly last used together: their age and cell are found once.
    last, column, weight = np.inf, 0, 0.0
    cell, row = np.uint64(0), -1
    gone = 0
    for index, key in enumerate(keys):
        places[index] = -1
        idle[index] = np.inf
        if key == 0:  # no block's key: it stands for an empty slot
            continue
        slot = find(ghosts, key)
        counts = events if slot >= 0 else censored
        if slot >= 0:
            idle[index] = now - ghosts[slot].last
        else:
            slot = place(ghosts, key)
            if ghosts[slot].key != 0:
                if ghosts[slot].last >= now:  # its like of the very moment are not driven out
                    continue
                displaced[gone] = slot
                gone += 1
        places[index] = slot
        ghost = ghosts[slot]
        if ghost.key != 0:
            if ghost.last != last:
                last = ghost.last
                column, weight = _bin(now - last), _weight(now - last, half_life)
            if ghost.cell != cell:
                cell = ghost.cell
                row = find(cells, cell)
            if row >= 0:
                counts[row, column] += weight
        ghost.key = key
        ghost.last = now
        ghost.cell = old if positions[index] < carried else new
    return gone


@njit(cache=True)
def _move(
    ghosts: Table,
    keys: Keys,
    positions: Keys,
    carried: int,
    new: int,
    old: int,
    admitted: float,
) -> None:
    for index, key in enumerate(keys):
        slot = find(ghosts, key)
        if slot >= 0 and ghosts[slot].last == admitted:
            ghosts[slot].cell = old if positions[index] < carried else new
