"""Where the shared traces are: in CI they must be there, elsewhere a test may do without."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

TRACES = Path(__file__).parent.parent.parent / "shared" / "traces"


@pytest.fixture
def shared_trace() -> Callable[[str], Path]:
    """The path of a shared trace by its file name."""

    def find(name: str) -> Path:
        path = TRACES / name
        if not path.exists():
            if os.environ.get("CI"):
                pytest.fail(f"{path} is missing")
            pytest.skip(f"{path} is not on this machine")
        return path

    return find
