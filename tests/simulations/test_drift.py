"""After a change of the traffic the controller is soon as good as one that knew."""

from __future__ import annotations

from pathlib import Path

import pytest
from wactl.simulations import drift
from wactl.simulations.drift import CHANGES, After, after, main
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate


@pytest.mark.parametrize("preset", ["template", "slower"])
def test_three_minutes_after_a_change(preset: str) -> None:
    """Within 5 % of parameters fitted on what was to come, and no worse than the frozen ones."""
    plan = Plan(seconds=1800.0)
    found = after(generate(preset, plan), preset, 900.0, 1800.0)
    assert found.adaptive >= 0.95 * found.oracle
    assert found.adaptive >= found.frozen - 0.002
    assert found.adaptive > found.lru


def test_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each change of each preset, parted evenly, with the ratio that is asked for."""
    asked: list[tuple[str, float, float]] = []

    def made(trace: object, preset: str, change: float, end: float) -> After:
        asked.append((preset, change, end))
        return After(preset, change, 0.1, 0.2, 0.3, 0.4)

    monkeypatch.setattr(drift, "after", made)
    main(tmp_path / "drift.md")
    rows = [line for line in (tmp_path / "drift.md").read_text().splitlines() if "0.4000" in line]
    assert [row.split("|")[1].strip() for row in rows] == [
        preset for preset, numbers in CHANGES.items() for _ in numbers
    ]
    assert all(row.endswith("| 0.750 |") for row in rows)
    assert asked[1][1] == pytest.approx(2 * asked[0][1], rel=1e-3)
    assert asked[0][2] == asked[1][1]
