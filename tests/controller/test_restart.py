"""A sidecar that comes back goes on where the one before ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wactl.controller import daemon as module
from wactl.controller.daemon import Daemon
from wactl.controller.status import Request, Status, ask

Eventually = Callable[..., Any]

LATER = {"mode": "enforce", "refit_seconds": 3600.0}
"""No refit is due for two minutes of the tests' clock."""


def test_it_pushes_at_once_what_was_learned_before(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """Without any traffic, long before a refit is due, and under the old numbers of categories."""
    one = engine()
    first = daemon(mode="enforce")
    eventually(lambda: one.intake.version > 2, one.traffic)
    before = ask(run_dir, Request()).engines[0]
    lineage = eventually(lambda: one.intake.in_force(one.clock())).parameters.table.lineage
    first.stopping = True
    last = eventually(lambda: one.intake.in_force(one.clock()) is None and one.intake.version)
    daemon(**LATER)
    orders = eventually(lambda: one.intake.in_force(one.clock()), limit=3.0)
    assert orders.parameters.version > last
    assert orders.parameters.table.lineage == lineage
    after = ask(run_dir, Request()).engines[0]
    assert after.hit_blocks >= before.hit_blocks
    assert after.prompt_blocks >= before.prompt_blocks > 0
    counted = [[c.requests for c in e.categories if c.rule] for e in (before, after)]
    assert all(new >= old for old, new in zip(*counted, strict=True))
    assert sum(counted[0]) > 0


def test_one_that_was_killed_has_what_it_wrote_minutes_ago(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is there is written all the time, not at the end only."""
    monkeypatch.setattr(module, "KEEP", 0.5)
    one = engine()
    kept = tmp_path / "state" / "engine-0.state"
    first = daemon(mode="enforce")
    eventually(lambda: one.intake.version > 2 and kept.exists(), one.traffic)
    copy = kept.read_bytes()
    first.stopping = True
    eventually(lambda: one.intake.in_force(one.clock()) is None)
    kept.write_bytes(copy)
    daemon(**LATER)
    eventually(lambda: one.intake.in_force(one.clock()), limit=3.0)


def test_the_mode_asked_for_outlives_the_sidecar(
    run_dir: Path, daemon: Callable[..., Daemon], eventually: Eventually
) -> None:
    """Until the settings are edited; and the status tells which of the two counts."""

    def restarted(**settings: Any) -> Status:
        if running:
            running.pop().stopping = True
            eventually(lambda: not (run_dir / "sidecar").exists())
        running.append(daemon(**settings))
        return ask(run_dir, Request())

    running: list[Daemon] = []
    found = restarted()
    assert (found.mode, found.mode_asked) == ("shadow", False)
    found = ask(run_dir, Request("enforce"))
    assert (found.mode, found.mode_asked) == ("enforce", True)
    found = restarted()
    assert (found.mode, found.mode_asked, found.state_problem) == ("enforce", True, "")
    found = restarted(mode="observe")
    assert (found.mode, found.mode_asked) == ("observe", False)


def test_a_file_of_no_use_costs_only_what_was_learned(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
    tmp_path: Path,
) -> None:
    """The sidecar learns anew, and keeps that."""
    kept = tmp_path / "state" / "engine-0.state"
    kept.parent.mkdir()
    kept.write_bytes(b"wactl state 1\n half of")
    one = engine()
    first = daemon(mode="enforce")
    eventually(lambda: one.intake.version, one.traffic)
    first.stopping = True
    eventually(lambda: not (run_dir / "sidecar").exists())
    assert kept.with_name("engine-0.state.broken").exists()
    assert kept.stat().st_size > 1000
