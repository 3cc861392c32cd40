"""The page on security names tests; they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_test_it_names_exists() -> None:
    """By file name, or by the name of the function."""
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", (ROOT / "docs" / "security.md").read_text()))
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {path.name for path in files}
    for path in files:
        known |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    assert len(named) > 10
    assert named - known == set()
