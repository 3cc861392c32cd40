"""The dashboard: what its code makes, whole, and without overlap."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent.parent.parent / "config" / "grafana"


@pytest.fixture
def panels() -> list[dict[str, Any]]:
    """Its panels, rows included."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    return found


def test_it_is_what_the_code_makes(tmp_path: Path) -> None:
    """Nobody has changed the one without the other; `make dashboard` mends it."""
    made = tmp_path / "dashboard.json"
    subprocess.run([sys.executable, FOLDER / "dashboard.py", made], check=True, timeout=60)
    assert (FOLDER / "dashboard.json").read_text() == made.read_text()


def test_every_panel_is_complete(panels: list[dict[str, Any]]) -> None:
    """A number of its own, a title, and unless it is a row, what it means and a query."""
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    for panel in panels:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"


def test_no_two_panels_overlap(panels: list[dict[str, Any]]) -> None:
    """Each cell of Grafana's grid, 24 wide, belongs to one panel, and none is left over."""
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in cells
                assert x < 24
                cells.add((x, y))
    assert len(cells) == 24 * (1 + max(y for _, y in cells))
