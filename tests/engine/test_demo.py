"""The command a newcomer types first: it works, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

DEMO = [sys.executable, "-m", "wactl", "demo"]


def family(marker: str) -> list[int]:
    """Processes whose environment holds the marker: the demo's children, however started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # gone in the meantime
    return found


def test_the_demo_compares_lru_with_wactl(tmp_path) -> None:
    """From start to table; the JSON holds what the table shows."""
    marker = f"DEMO_TEST={tmp_path}"
    done = subprocess.run(
        [*DEMO, "--limit", "400", "--blocks", "400", "--speed", "12", "--json"],
        env={**os.environ, "DEMO_TEST": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    lru, ours = json.loads(done.stdout)
    assert (lru["name"], ours["name"]) == ("LRU", "wactl")
    assert lru["requests"] == ours["requests"] == 400 and lru["failed"] == ours["failed"] == 0
    assert lru["versions"] == 0 and ours["versions"] > 0
    assert 0.0 < lru["hit_ratio"] < 1.0 and 0.0 < ours["hit_ratio"] < 1.0
    assert 0.0 < ours["mean_first_token"] <= ours["p95_first_token"]
    assert family(marker) == []


@pytest.mark.parametrize("moment", [4.0, 45.0], ids=["starting", "serving"])
def test_ctrl_c_ends_everything(tmp_path, moment) -> None:
    """Interrupted while the server starts or serves, the demo leaves no process."""
    marker = f"DEMO_TEST={tmp_path}"
    demo = subprocess.Popen(
        DEMO,
        env={**os.environ, "DEMO_TEST": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(moment)
    assert len(family(marker)) > 1, "the demo did not start its server"
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=90)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert family(marker) == []
