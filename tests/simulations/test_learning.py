"""The page says what the replays gave, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from wactl.simulations.learning import BASE, CELLS, GOALS, page
from wactl.simulations.variants import Done, Variant, variants

FOLDER = Path("traces")
EVERY = variants()
RATIOS = {
    "bounds: lru": 0.1,
    BASE: 0.3,
    "bounds: adaptive": 0.31,
    "gap: fitted beforehand": 0.29,
    "gap: class known": 0.35,
    "bounds: belady": 0.5,
    "family: mixture": 0.304,
}


def done_of(variant: Variant, ratio: float) -> list[Done]:
    """All replays of a variant, alike."""
    return [Done(variant.key, trace, capacity, 1000, ratio, 0.25) for trace, capacity in CELLS]


@pytest.fixture
def done() -> list[Done]:
    """Replays of a few variants."""
    return [one for variant in EVERY for one in done_of(variant, RATIOS.get(variant.key, 0.28))]


def line(text: str, start: str) -> list[str]:
    """The cells of the first row that starts so."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_the_parts_of_the_gap_add_up(done: list[Done]) -> None:
    """Here they are −1, 6 and 15 of 20 points."""
    text = page(EVERY, done, FOLDER)
    parts = ["1. learning", "2. misclassified", "3. no category can tell"]
    assert [line(text, part) for part in ["gap", *parts]] == [
        [value] * len(CELLS) for value in ("+20.0", "-1.0", "+6.0", "+15.0")
    ]
    assert "So 21.0 points, 2 and 3 together" in text
    assert "borders at 2, 5, 15, 60, 180, 600 and 1800 s" in text


def test_goals_that_are_missed_are_named(done: list[Done]) -> None:
    """With 0.31 everywhere those below are reached."""
    goals = [goal for of in GOALS.values() for goal in of.values()]
    reached = sum(goal <= 0.31 for goal in goals)
    text = page(EVERY, done, FOLDER)
    assert f"{reached} of 12 goals are reached" in text
    assert "agentic 64000 by 0.44700" in text
    assert "conversation 1000 by" not in text


def test_a_table_tells_the_mean_difference_and_the_best(done: list[Done]) -> None:
    """In points, from the learner as shipped."""
    text = page(EVERY, done, FOLDER)
    assert line(text, "mixture") == ["0.3040"] * len(CELLS) + ["+0.40"]
    assert line(text, "exponential")[-1] == "-2.00"
    assert "Best in the mean: mixture, by 0.40 points." in text
    assert "| softmax regression | 250 | 250 | 250 | 250 |" in text


def test_only_what_is_complete_is_shown(done: list[Done]) -> None:
    """A variant with one replay missing is named at the end instead."""
    text = page(EVERY, done, FOLDER)
    assert "Not computed" not in text
    short = [one for one in done if (one.variant, one.capacity) != ("family: mixture", 400)]
    text = page(EVERY, short, FOLDER)
    assert text.endswith("Not computed: family: mixture.\n")
    assert "| mixture |" not in text


def test_declared_types_are_told_of_the_traces_that_have_them(done: list[Done]) -> None:
    """The others show a dash and do not count."""
    some = [
        one
        for one in done
        if not one.variant.startswith("declared") or one.trace in ("lmcache_agent",)
    ]
    row = line(page(EVERY, some, FOLDER), "types and sessions seen")
    assert row == ["–"] * 6 + ["0.2800"] * 3 + ["–"] * 3 + ["-2.00"]


def test_without_any_replay_there_are_no_tables() -> None:
    """Everything is missing, and the page says so."""
    text = page(EVERY, [], FOLDER)
    assert "|" not in text.split("Not computed")[0]
    assert all(variant.key in text for variant in EVERY)
