"""Where shared traces and programs are (in CI they must be there), room to listen, and keys."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from wactl.policies.keys import KEYS, write_keys

TRACES = Path(__file__).parent.parent.parent / "shared" / "traces"


@pytest.fixture(autouse=True)
def state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sidecar of a test goes on from what another one learned, or the user's own."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))


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


@pytest.fixture
def two_ports() -> Callable[[], int]:
    """Finds a free port of this machine with another free one behind it."""

    def find() -> int:
        while True:
            with socket.socket() as one, socket.socket() as two:
                one.bind(("127.0.0.1", 0))
                port = int(one.getsockname()[1])
                try:
                    two.bind(("127.0.0.1", port + 1))
                except (OSError, OverflowError):
                    continue
                return port

    return find


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys, the one that the environment names."""
    write_keys(tmp_path / "keys")
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def program() -> Callable[[str], str]:
    """The path of a program of the dev extra or the system, by its name."""

    def find(name: str) -> str:
        path = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if path is None:
            if os.environ.get("CI"):
                pytest.fail(f"{name} is missing")
            pytest.skip(f"{name} is not on this machine")
        return path

    return find


@pytest.fixture
def tool(program: Callable[[str], str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program to its end."""

    def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [program(name), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run
