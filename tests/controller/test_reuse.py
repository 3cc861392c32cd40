"""From accesses to events and censored counts: which cell, which age, and nothing lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from wactl.controller.cells import Cells
from wactl.controller.exponential import fit_exponential
from wactl.controller.reuse import Reuse
from wactl.policies.ages import AGES
from wactl.policies.features import blank_features
from wactl.policies.recent import find

A, B, C = range(3)
"""Rules, each with one cell."""


def start(entries: int = 64, half_life: float = np.inf) -> Reuse:
    """An index with three cells."""
    reuse = Reuse(Cells(64), entries, half_life)
    for rule in (A, B, C):
        cell(reuse, rule)
    return reuse


def cell(reuse: Reuse, rule: int) -> int:
    return reuse.cells.key(rule, blank_features(0), 0.0)


def counts(reuse: Reuse, now: float) -> tuple[np.ndarray, np.ndarray]:
    """Events and censored by rule, shape ``(3, len(AGES))``."""
    rows = [find(reuse.cells.table, np.uint64(cell(reuse, rule))) for rule in (A, B, C)]
    events, censored = reuse.counts(now)
    assert events[rows].sum() == events.sum() and censored[rows].sum() == censored.sum()
    return events[rows], censored[rows]


def arguments(
    reuse: Reuse, keys: Sequence[int], new: int, old: int, carried: int, positions: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int, int, int]:
    where = np.array(positions, np.uint64)
    return np.array(keys, np.uint64), where, carried, cell(reuse, new), cell(reuse, old)


def access(
    reuse: Reuse,
    keys: Sequence[int],
    now: float,
    *,
    new: int = A,
    old: int = B,
    carried: int = 0,
    positions: Sequence[int] | None = None,
) -> tuple[list[int], list[int]]:
    """One request for these blocks: their places in the index, and those they displaced."""
    where = range(len(keys)) if positions is None else positions
    places, displaced, _ = reuse.observe(*arguments(reuse, keys, new, old, carried, where), now)
    return places.tolist(), displaced.tolist()


def found(counted: np.ndarray) -> dict[tuple[int, int], float]:
    """What is not empty, by rule and bin."""
    return {(int(c), int(a)): float(counted[c, a]) for c, a in np.argwhere(counted)}


def test_a_reuse_belongs_to_the_cell_of_the_access_before() -> None:
    """The wait began with the first access, so its cell gets the event at the wait's age."""
    reuse = start()
    access(reuse, [5], 0.0, new=A)
    access(reuse, [5], AGES[10], new=C)
    access(reuse, [5], AGES[10] + AGES[20], new=A)
    events, _ = counts(reuse, 1000.0)
    assert found(events) == {(A, 10): 1.0, (C, 20): 1.0}


def test_carried_blocks_and_new_ones_are_of_two_cells() -> None:
    """Blocks that stand before the carried length belong to the old cell, the rest to new."""
    reuse = start()
    access(reuse, [1, 2, 3], 0.0, new=A, old=B, carried=5, positions=[0, 4, 5])
    access(reuse, [1, 2, 3], AGES[0], new=C, old=C)
    assert found(counts(reuse, 1e9)[0]) == {(B, 0): 2.0, (A, 0): 1.0}


@pytest.mark.parametrize("number", range(len(AGES)))
def test_each_age_has_its_bin_whether_reused_or_waiting(number: int) -> None:
    """An age within a tenth of a representative one is booked there, as event and as censored."""
    for factor in (0.91, 1.0, 1.1):
        age = AGES[number] * factor
        reuse = start()
        access(reuse, [5, 6], 0.0)
        access(reuse, [5], age)
        events, censored = counts(reuse, age)
        assert found(events) == {(A, number): 1.0}
        assert censored[A, number] >= 1.0


def test_ages_out_of_range_are_booked_at_the_ends() -> None:
    """A negative age counts as the youngest there is, one of years as the oldest."""
    reuse = start()
    access(reuse, [5, 6], 100.0)
    access(reuse, [5], 50.0)
    access(reuse, [6], 1e9)
    assert found(counts(reuse, 1e9)[0]) == {(A, 0): 1.0, (A, len(AGES) - 1): 1.0}


def test_the_living_are_censored_at_their_age_and_go_on_living() -> None:
    """A look at the counts counts every waiting block as it is now, and changes nothing."""
    reuse = start()
    access(reuse, [1, 2], 0.0, new=A)
    access(reuse, [3], 1.0, new=C)
    _, censored = counts(reuse, 1.0 + AGES[20])
    assert censored.sum() == 3.0
    assert censored[C, 20] == 1.0
    _, later = counts(reuse, AGES[40])
    assert found(later) == {(A, 40): 2.0, (C, 40): 1.0}
    access(reuse, [1], AGES[12], new=A)
    assert found(counts(reuse, 1e9)[0]) == {(A, 12): 1.0}


def test_a_full_index_takes_the_one_idle_longest_for_dead() -> None:
    """In a full bucket the ninth key replaces the oldest, which is censored at its age."""
    reuse = start(8)
    for key in range(1, 9):
        access(reuse, [key], float(key), new=A if key == 1 else B)
    access(reuse, [9], 1.0 + AGES[25], new=C)
    rows = [find(reuse.cells.table, np.uint64(cell(reuse, rule))) for rule in (A, B, C)]
    assert found(reuse.cells.censored[rows]) == {(A, 25): 1.0}
    access(reuse, [1], 2.0 + AGES[25])
    assert found(counts(reuse, 1e9)[0]) == {}


def test_what_is_learned_later_moves_the_blocks_that_nobody_used_since() -> None:
    """A block asked for again in between stays where the later request put it."""
    reuse = start()
    access(reuse, [1, 2, 3], 10.0, new=A, old=B, carried=1)
    access(reuse, [3], 11.0, new=B)
    reuse.move(*arguments(reuse, [1, 2, 3, 4], C, A, 1, range(4)), 10.0)
    access(reuse, [1, 2, 3], 10.0 + AGES[30])
    events, _ = counts(reuse, 1e6)
    assert found(events) == {(A, 10): 1.0, (A, 30): 1.0, (C, 30): 1.0, (B, 30): 1.0}


def test_places_are_told_and_those_that_changed_hands() -> None:
    """A block has the place that its key is found at, and who had it before is displaced."""
    reuse = start(8)
    places, displaced = access(reuse, [1, 2, 0], 0.0)
    assert [int(reuse.ghosts["key"][place]) for place in places[:2]] == [1, 2]
    assert (places[2], displaced) == (-1, [])
    again, displaced = access(reuse, [2], 1.0)
    assert (again, displaced) == (places[1:2], [])
    access(reuse, list(range(3, 9)), 2.0)
    assert access(reuse, [9], 3.0) == ([places[0]], [places[0]])


def test_memory_is_bounded_and_no_observation_is_lost() -> None:
    """A hundred thousand blocks leave the index as large as it was, each counted exactly once."""
    reuse = start(1024)
    size = reuse.ghosts.nbytes
    keys = np.random.default_rng(7).integers(1, 2**63, 100_000)
    for first in range(0, len(keys), 100):
        access(reuse, keys[first : first + 100].tolist(), float(first))
    events, censored = counts(reuse, 1e6)
    assert reuse.ghosts.nbytes == size == 1024 * reuse.ghosts.itemsize
    assert events.sum() + censored.sum() == len(keys)


def test_a_key_that_is_none_is_ignored() -> None:
    """Key 0 marks an empty slot, so a record that names it changes nothing."""
    reuse = start()
    access(reuse, [0, 0, 7], 1.0)
    access(reuse, [0], 2.0)
    events, censored = counts(reuse, 3.0)
    assert (events.sum(), censored.sum()) == (0.0, 1.0)


def test_observations_lose_half_their_weight_in_a_half_life() -> None:
    """Reused or waiting, an observation counts by how long ago its wait began."""
    reuse = start(half_life=100.0)
    access(reuse, [1, 2], 0.0)
    access(reuse, [1], 50.0, new=C)
    assert counts(reuse, 50.0)[0][A].sum() == pytest.approx(0.5**0.5)
    reuse.forget(50.0)
    events, censored = counts(reuse, 100.0)
    assert events[A].sum() == pytest.approx(0.5)
    assert censored[A].sum() == pytest.approx(0.5)
    assert censored[C].sum() == pytest.approx(0.5**0.5)


def test_steady_traffic_keeps_its_law_for_many_half_lives() -> None:
    """Half of all blocks come back, and twelve half-lives later that is still what is found."""
    rng = np.random.default_rng(7)
    reuse = start(1 << 15, half_life=300.0)
    due: dict[int, list[int]] = {}
    for second in range(3600):
        keys = due.pop(second, []) + rng.integers(1, 2**63, 4).tolist()
        for key in keys:
            if rng.random() < 0.5:
                due.setdefault(second + 1 + int(rng.exponential(10.0)), []).append(key)
        access(reuse, keys, float(second))
        reuse.forget(1.0)
    events, censored = counts(reuse, 3600.0)
    (p,), _ = fit_exponential(events[A][None], censored[A][None])
    assert p == pytest.approx(0.5, abs=0.03)
