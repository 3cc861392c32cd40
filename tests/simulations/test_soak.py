"""Twenty minutes of the soak's day, and that it would tell what is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from wactl.controller.numbering import NUMBERS
from wactl.simulations.soak import GROWTH, SLOWER, Pace, Row, broken, grown, soak

QUICK = Pace(row=120.0, restart=500.0, edit=410.0, settled=600.0)


def test_twenty_minutes_break_no_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """With two restarts and two edits of the rules; each row is printed.

    How fast its refits are and what it holds of memory is not asked here, where other tests share
    the machine and the process: the day of ``python -m wactl.simulations.soak`` tells.
    """
    run = soak(1200.0, 2.0, QUICK)
    assert broken(run.rows) == []
    assert (run.restarts, run.edits) == (2, 2)
    assert len(run.rows) == 10
    assert run.rows[-1].version > 30
    assert 0 < run.rows[-1].free_numbers < NUMBERS
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 0.")]
    assert len(printed) == 10


def rows() -> list[Row]:
    """What a good day looks like."""
    return [Row(3600.0 * (n + 1), n, 200.0, 20.0, 100 * (n + 1), 50, 0.5) for n in range(14)]


def test_a_good_day_is_praised() -> None:
    """Neither what memory does at first nor a bit of noise is held against it."""
    day = rows()
    day[0] = replace(day[0], resident_mb=100.0)
    day[-1] = replace(day[-1], resident_mb=400.0, refit_ms=60.0)
    day[-2] = replace(day[-2], resident_mb=200.0 * (1.0 + GROWTH) - 0.1, refit_ms=29.0)
    assert broken(day) + grown(day, 7200.0) == []


@pytest.mark.parametrize(
    ("where", "wrong", "said"),
    [
        (slice(-2, None), {"resident_mb": 200.0 * (1.0 + GROWTH) + 0.1}, "memory grew from 200"),
        (slice(-3, None), {"refit_ms": 20.0 * SLOWER + 0.1}, "a refit takes 30.1 ms"),
        (slice(1, 2), {"free_numbers": 0}, "category numbers ran out"),
        (slice(7, 8), {"version": 700}, "without a newer version"),
    ],
)
def test_what_is_broken_is_told(where: slice, wrong: dict[str, float], said: str) -> None:
    """One thing at a time, in a sentence."""
    day = rows()
    day[where] = [replace(row, **wrong) for row in day[where]]
    (sentence,) = broken(day) + grown(day, 7200.0)
    assert said in sentence


def test_a_short_one_tells_nothing() -> None:
    """Memory is not said to be flat before it could be."""
    assert grown(rows()[:4], 7200.0) == ["it was too short to tell what grows"]
