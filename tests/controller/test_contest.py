"""Sums over windows are those of plain Python, and who is ahead is said the same both ways."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wactl.controller.contest import ENGINE, LONG, LRU, SHORT, Contest, Lead, Window

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The machine may be busy."""

hits = st.lists(st.integers(0, 50), min_size=3, max_size=3)
requests = st.lists(st.tuples(st.floats(0.0, 300.0), st.integers(1, 50), hits), min_size=1)


@UNHURRIED
@given(requests)
def test_a_window_sums_what_lies_back_less_and_less(
    came: list[tuple[float, int, list[int]]],
) -> None:
    """Each request counts exp(−age / seconds); so do its squares."""
    window = Window(100.0, 3)
    for pause, blocks, scores in came:
        window.fade(pause)
        window.count(blocks, np.array(scores, np.float64))
    age, told = 0.0, []
    for pause, blocks, scores in reversed(came):
        told.append((math.exp(-age / 100.0), blocks, scores))
        age += pause
    whole = math.fsum(weight * blocks for weight, blocks, _ in told)
    ahead = math.fsum(weight * (scores[0] - scores[1]) for weight, _, scores in told)
    squares = math.fsum(weight * (scores[0] - scores[1]) ** 2 for weight, _, scores in told)
    lead = window.lead(0, 1)
    assert lead.points == pytest.approx(ahead / whole)
    assert lead.noise == pytest.approx(math.sqrt(squares) / whole)
    differed = math.fsum(weight for weight, _, scores in told if scores[0] != scores[1])
    assert lead.told == pytest.approx(differed)


@UNHURRIED
@given(requests)
def test_who_is_ahead_is_said_the_same_both_ways(
    came: list[tuple[float, int, list[int]]],
) -> None:
    """With the same noise; nobody is ahead of itself."""
    window = Window(100.0, 3)
    for pause, blocks, scores in came:
        window.fade(pause)
        window.count(blocks, np.array(scores, np.float64))
    for one in range(3):
        for other in range(3):
            lead, back = window.lead(one, other), window.lead(other, one)
            assert lead == Lead(-back.points, back.noise, back.told)
    assert window.lead(1, 1).points == window.lead(1, 1).noise == 0.0


def test_noise_is_the_standard_error_of_a_lead() -> None:
    """Of two that are equally good, leads differ by about that much from window to window."""
    rng = random.Random(7)
    leads = []
    for _ in range(400):
        window = Window(1e9, 2)
        for _ in range(200):
            window.count(10.0, np.array([rng.randint(0, 10), rng.randint(0, 10)], np.float64))
        leads.append(window.lead(0, 1))
    noise = math.fsum(lead.noise for lead in leads) / len(leads)
    assert np.std([lead.points for lead in leads]) == pytest.approx(noise, rel=0.15)


def test_nothing_has_happened() -> None:
    """No division by nothing, and nobody ahead."""
    contest = Contest(100, 10, 0, ("other",))
    for window in (SHORT, LONG):
        assert contest.lead("other", LRU, window) == Lead(0.0, 0.0, 0.0)


def play(contest: Contest, engine: int, *, counted: bool = True) -> dict[str, int]:
    """The same four blocks three times, a second apart; what the last one hit."""
    places, both = np.arange(4), np.array([2, 2])
    found: dict[str, int] = {}
    for second in range(3):
        now = float(second)
        found = contest.admit(places, 8, engine, now, counted=counted)
        contest.release(places, 0, both, now, now)
    return found


def test_shadows_and_the_engine_side_by_side() -> None:
    """A sample of a half: four of the eight blocks are followed, and each hit stands for two."""
    contest = Contest(100, 20, 1, ("other",))
    assert play(contest, engine=4) == {LRU: 8, "other": 8}
    assert contest.sampled
    assert contest.total_blocks == 24
    assert contest.total_hits.tolist() == [16.0, 16.0, 12.0]
    back = contest.lead(LRU, ENGINE, LONG)
    faded = math.exp(-1.0 / LONG)
    hits = -4 * faded**2 + 4 * faded + 4
    assert back.points == pytest.approx(hits / 8 / (faded**2 + faded + 1))
    assert contest.lead("other", LRU, LONG).points == 0.0


def test_the_offset_is_that_of_an_engine_under_lru() -> None:
    """Whatever it hits under another order tells nothing of it."""
    contest = Contest(100, 20, 0, ("other",))
    play(contest, engine=0)
    assert (contest.calibrated, contest.offset) == (False, Lead(0.0, 0.0, 0.0))
    places = np.arange(4)
    for now, hits in ((10.0, 3), (11.0, 1)):
        contest.admit(places, 4, hits, now, counted=True, plain=True)
    faded = math.exp(-1.0 / LONG)
    assert contest.calibrated
    assert contest.offset.points == pytest.approx((1 * faded + 3) / 4 / (1 + faded))
    assert contest.offset.told == pytest.approx(1 + faded)


def test_requests_that_do_not_read_the_cache_tell_nothing() -> None:
    """But their blocks are stored like others'."""
    contest = Contest(100, 20, 0, ("other",))
    assert play(contest, engine=0, counted=False) == {LRU: 0, "other": 0}
    assert contest.lead(ENGINE, LRU, LONG).told == contest.total_blocks == 0
    assert contest.admit(np.arange(4), 4, 0, 9.0, counted=True) == {LRU: 4, "other": 4}


def test_places_that_went_to_others_are_hit_by_nobody() -> None:
    """In no shadow."""
    contest = Contest(100, 20, 0, ("other",))
    play(contest, engine=0)
    contest.drop(np.array([1]))
    assert contest.admit(np.arange(4), 4, 0, 9.0, counted=True) == {LRU: 1, "other": 1}
