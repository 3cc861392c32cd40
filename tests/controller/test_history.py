"""What is remembered of an engine: in order, by the time that is given, and never too much."""

from __future__ import annotations

import msgspec
import pytest
from wactl.controller.history import CHANGES, EVERY, FOLLOWED, LAWS, SAMPLES, History
from wactl.controller.status import Category, Contestant, Gate


def gate(ratio: float | None = 0.5) -> Gate:
    """LRU 10 points behind the engine, the chosen order 2."""
    ratios = {"lru": -0.1, "life-table": -0.02, "engine": 0.0}
    found = tuple(
        Contestant(name, None if ratio is None else ratio + by, by + 0.1, 0.01, 0.0)
        for name, by in ratios.items()
    )
    return Gate("steady", "life-table", 5.0, "there are laws", 0, 100, found)


def category(name: str, evidence: float = 10.0, p: float | None = 0.5) -> Category:
    return Category(
        *(name, True, 1, 1, 0, 0.0, p, 5.0, 60.0, evidence, None, None, (1.0,) * 16, (1.0,) * 16)
    )


def test_changes_come_newest_first_with_their_age() -> None:
    """An age is never negative, also if the engine's clock goes back."""
    history = History()
    history.note("mode", "shadow: as set", 10.0)
    history.note("gate", "steady: there are laws", 70.0)
    found = [(one.seconds_ago, one.kind, one.text) for one in history.changes(100.0)]
    assert found == [(30.0, "gate", "steady: there are laws"), (90.0, "mode", "shadow: as set")]
    assert history.changes(5.0)[0].seconds_ago == 0.0


def test_refits_do_not_push_out_what_is_rare() -> None:
    """Of the refits one is remembered, the last; of others so many."""
    history = History()
    history.note("rules", "first", 0.0)
    for number in range(1000):
        history.note(LAWS, f"version {number}", float(number))
    assert [one.text for one in history.changes(1000.0)] == ["version 999", "first"]
    for number in range(1000):
        history.note("gate", f"{number}", 1000.0 + number)
    assert [one.text for one in history.changes(2000.0)][:2] == ["999", "998"]
    assert len(history.changes(2000.0)) == CHANGES


def test_samples_are_taken_at_their_time() -> None:
    """The first at once, the next when so many seconds have passed."""
    history = History()
    assert history.due(0.0)
    history.sample(gate(None), (), 0.0)
    assert history.past(0, 7).samples == ()
    history.sample(gate(), (category("a"), category("b", p=None)), 1.0)
    assert not history.due(1.0 + EVERY - 0.1)
    assert history.due(1.0 + EVERY)
    (sample,) = history.past(0, 7).samples
    assert (sample.time, sample.running) == (1.0, "life-table")
    ratios = (sample.engine, sample.lru, sample.chosen)
    assert ratios == (0.5, pytest.approx(0.4), pytest.approx(0.48))
    assert [(one.name, one.p, one.mean_reuse_seconds) for one in sample.parameters] == [
        ("a", 0.5, 5.0)
    ]


def test_it_does_not_grow() -> None:
    """However long it goes on and however many categories there are; the best known are kept."""
    history = History()
    categories = [category(f"category {number}", float(number)) for number in range(100)]
    for number in range(SAMPLES + 50):
        history.sample(gate(), categories, number * EVERY)
    past = history.past(3, 7)
    assert (past.rank, past.pid, len(past.samples)) == (3, 7, SAMPLES)
    assert past.samples[0].time == 50 * EVERY
    names = [one.name for one in past.samples[0].parameters]
    assert names == [f"category {99 - number}" for number in range(FOLLOWED)]
    assert len(msgspec.json.encode(past)) < 500_000
