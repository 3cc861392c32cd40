"""From accesses to events and censored counts: which category, which age, and nothing lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from wactl.controller.fit import fit_exponential
from wactl.controller.reuse import AGES, Reuse
from wactl.policies.blocks import FIRST_CATEGORY

A, B, C = range(FIRST_CATEGORY, FIRST_CATEGORY + 3)


def access(
    reuse: Reuse,
    keys: Sequence[int],
    now: float,
    *,
    new: int = A,
    old: int = B,
    carried: int = 0,
    positions: Sequence[int] | None = None,
) -> None:
    """One request for these blocks."""
    where = np.array(range(len(keys)) if positions is None else positions, np.uint64)
    reuse.observe(np.array(keys, np.uint64), where, carried, new, old, now)


def found(counts: np.ndarray) -> dict[tuple[int, int], float]:
    """The cells that are not empty, by category and bin."""
    return {(int(c), int(a)): float(counts[c, a]) for c, a in np.argwhere(counts)}


def test_a_reuse_belongs_to_the_category_of_the_access_before() -> None:
    """The wait began with the first access, so its category gets the event at the wait's age."""
    reuse = Reuse(64)
    access(reuse, [5], 0.0, new=A)
    access(reuse, [5], AGES[10], new=C)
    access(reuse, [5], AGES[10] + AGES[20], new=A)
    events, _ = reuse.histograms(1000.0)
    assert found(events) == {(A, 10): 1.0, (C, 20): 1.0}


def test_carried_blocks_and_new_ones_are_of_two_categories() -> None:
    """Blocks that stand before the carried length belong to the old category, the rest to new."""
    reuse = Reuse(64)
    access(reuse, [1, 2, 3], 0.0, new=A, old=B, carried=5, positions=[0, 4, 5])
    access(reuse, [1, 2, 3], AGES[0], new=C, old=C)
    assert found(reuse.events) == {(B, 0): 2.0, (A, 0): 1.0}


@pytest.mark.parametrize("number", range(len(AGES)))
def test_each_age_has_its_bin_whether_reused_or_waiting(number: int) -> None:
    """An age within a tenth of a representative one is booked there, as event and as censored."""
    for factor in (0.91, 1.0, 1.1):
        age = AGES[number] * factor
        reuse = Reuse(64)
        access(reuse, [5, 6], 0.0)
        access(reuse, [5], age)
        events, censored = reuse.histograms(age)
        assert found(events) == {(A, number): 1.0}
        assert censored[A, number] >= 1.0


def test_ages_out_of_range_are_booked_at_the_ends() -> None:
    """A negative age counts as the youngest there is, one of years as the oldest."""
    reuse = Reuse(64)
    access(reuse, [5, 6], 100.0)
    access(reuse, [5], 50.0)
    access(reuse, [6], 1e9)
    assert found(reuse.events) == {(A, 0): 1.0, (A, len(AGES) - 1): 1.0}


def test_the_living_are_censored_at_their_age_and_go_on_living() -> None:
    """A look at the histograms counts every waiting block as it is now, and changes nothing."""
    reuse = Reuse(64)
    access(reuse, [1, 2], 0.0, new=A)
    access(reuse, [3], 1.0, new=C)
    _, censored = reuse.histograms(1.0 + AGES[20])
    assert censored.sum() == 3.0
    assert censored[C, 20] == 1.0
    _, later = reuse.histograms(AGES[40])
    assert found(later) == {(A, 40): 2.0, (C, 40): 1.0}
    access(reuse, [1], AGES[12], new=A)
    assert found(reuse.events) == {(A, 12): 1.0}


def test_a_full_index_takes_the_one_idle_longest_for_dead() -> None:
    """In a full bucket the ninth key replaces the oldest, which is censored at its age."""
    reuse = Reuse(8)
    for key in range(1, 9):
        access(reuse, [key], float(key), new=A if key == 1 else B)
    access(reuse, [9], 1.0 + AGES[25], new=C)
    assert found(reuse.censored) == {(A, 25): 1.0}
    access(reuse, [1], 2.0 + AGES[25])
    assert found(reuse.events) == {}


def test_memory_is_bounded_and_no_observation_is_lost() -> None:
    """A hundred thousand blocks leave the index as large as it was, each counted exactly once."""
    reuse = Reuse(1024)
    size = reuse.ghosts.nbytes
    keys = np.random.default_rng(7).integers(1, 2**63, 100_000)
    for start in range(0, len(keys), 100):
        access(reuse, keys[start : start + 100].tolist(), float(start))
    events, censored = reuse.histograms(1e6)
    assert reuse.ghosts.nbytes == size == 1024 * reuse.ghosts.itemsize
    assert events.sum() + censored.sum() == len(keys)


def test_a_key_that_is_none_is_ignored() -> None:
    """Key 0 marks an empty slot, so a record that names it changes nothing."""
    reuse = Reuse(64)
    access(reuse, [0, 0, 7], 1.0)
    access(reuse, [0], 2.0)
    events, censored = reuse.histograms(3.0)
    assert (events.sum(), censored.sum()) == (0.0, 1.0)


def test_observations_lose_half_their_weight_in_a_half_life() -> None:
    """Reused or waiting, an observation counts by how long ago its wait began."""
    reuse = Reuse(64, half_life=100.0)
    access(reuse, [1, 2], 0.0)
    access(reuse, [1], 50.0, new=C)
    assert reuse.events[A].sum() == pytest.approx(0.5**0.5)
    reuse.forget(50.0)
    events, censored = reuse.histograms(100.0)
    assert events[A].sum() == pytest.approx(0.5)
    assert censored[A].sum() == pytest.approx(0.5)
    assert censored[C].sum() == pytest.approx(0.5**0.5)


def test_steady_traffic_keeps_its_law_for_many_half_lives() -> None:
    """Half of all blocks come back, and twelve half-lives later that is still what is found."""
    rng = np.random.default_rng(7)
    reuse = Reuse(1 << 15, half_life=300.0)
    due: dict[int, list[int]] = {}
    for second in range(3600):
        keys = due.pop(second, []) + rng.integers(1, 2**63, 4).tolist()
        for key in keys:
            if rng.random() < 0.5:
                due.setdefault(second + 1 + int(rng.exponential(10.0)), []).append(key)
        access(reuse, keys, float(second))
        reuse.forget(1.0)
    events, censored = reuse.histograms(3600.0)
    (p,), _ = fit_exponential(events[A][None], censored[A][None])
    assert p == pytest.approx(0.5, abs=0.03)
