"""A sweep on a real Ray cluster of one machine: the same cells, and one sentence for a failure."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PRIVATE = {
    **os.environ,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
"""No reports to anybody; only who knows the token can run anything on the cluster."""

DRIVER = """
import sys, time
from pathlib import Path
import numpy as np
from wactl.simulations import cluster, sweep
from wactl.simulations.pool import Job
from wactl.simulations.trace import Trace

none = np.zeros(1, np.int32)
trace = Trace("one", np.zeros(1), np.array([0, 1]), none, 1, none, none)
"""

ONE_BY_ONE = """
signal = Path(sys.argv[2])

def play(trace, policy, capacity):
    end = time.monotonic() + 10.0
    while policy == "waits" and not signal.exists():
        if time.monotonic() > end:
            return "waited in vain"
        time.sleep(0.01)
    return policy

results = cluster.connect(sys.argv[1])(play, [trace], [Job(0, "first", 1), Job(0, "waits", 1)])
print(next(results))
signal.touch()
print(*results)
"""

FAILED = """
def play(trace, policy, capacity):
    raise ModuleNotFoundError("No module named 'wactl'")

for play in (sweep.replay, play):
    try:
        list(cluster.connect(sys.argv[1])(play, [trace], [Job(0, "lur", 1)]))
    except Exception as error:
        print(type(error).__name__, error)
"""


def free_port() -> int:
    """A port nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the head of a cluster of one CPU listens."""
    port = free_port()
    ports = {
        "port": port,
        "ray-client-server-port": free_port(),
        "dashboard-agent-listen-port": free_port(),
    }
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        command = [
            *(str(Path(sys.executable).parent / "ray"), "start", "--head", "--block"),
            *("--num-cpus=1", "--include-dashboard=false", "--object-store-memory=100000000"),
            *(f"--temp-dir={folder}", *(f"--{name}={value}" for name, value in ports.items())),
        ]
        with log.open("w") as file:
            head = subprocess.Popen(command, env=PRIVATE, stdout=file, stderr=subprocess.STDOUT)
        try:
            end = time.monotonic() + 60.0
            while "Ray runtime started" not in log.read_text():
                assert head.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            yield f"127.0.0.1:{port}"
        finally:
            head.terminate()
            head.wait(30)


def wactl(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    code = f"{before}\nfrom wactl.__main__ import main\nmain()"
    command = [sys.executable, "-c", code, "replay", *arguments]
    return subprocess.run(command, env=PRIVATE, capture_output=True, text=True, timeout=120)


def driver(code: str, *arguments: str) -> str:
    """What a program that has joined a cluster prints."""
    command = [sys.executable, "-c", DRIVER + code, *arguments]
    done = subprocess.run(command, env=PRIVATE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two conversations that take turns, Mooncake format."""
    path = tmp_path / "small.jsonl"
    rows = [
        {
            "timestamp": 20_000 * turn,
            "input_length": 9,
            "output_length": 1,
            "hash_ids": [1000 * (turn % 2) + i for i in range(turn + 1)],
        }
        for turn in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_cells_are_those_of_this_machine(address: str, trace: Path) -> None:
    """Whichever policy, in everything but the seconds."""
    options = (str(trace), "--policy", "lru,arc,belady,adaptive", "--capacity", "20,40", "--json")
    found = []
    for place in ((), ("--ray", address)):
        done = wactl(*options, *place)
        assert done.returncode == 0, done.stderr
        found.append([{**cell, "seconds": 0.0} for cell in json.loads(done.stdout)])
    here, there = found
    assert len(here) == 8
    assert there == here


def test_results_come_one_by_one(address: str, tmp_path: Path) -> None:
    """The second job ends only after the result of the first was seen."""
    assert driver(ONE_BY_ONE, address, str(tmp_path / "signal")) == "first\nwaits\n"


def test_what_a_job_raises_is_one_sentence(address: str) -> None:
    """An error for the operator comes back as it is, anything else by its last line."""
    mistake, bug = driver(FAILED, address).splitlines()
    assert mistake.startswith("WactlError no policy 'lur'; there are lru, ")
    assert bug == (
        "ClusterError a replay on the Ray cluster failed: "
        "ModuleNotFoundError: No module named 'wactl'"
    )


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1' within 10 s; "),
        ("nonsense", "the Ray cluster at 'nonsense' cannot be joined: Invalid address format"),
    ],
)
def test_a_wrong_address_is_one_sentence(trace: Path, place: str, sentence: str) -> None:
    """Soon, with nothing on standard output and no traceback."""
    done = wactl(str(trace), "--ray", place)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"wactl: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_without_the_extra_it_says_what_to_install(trace: Path) -> None:
    """Before anything is read."""
    done = wactl(str(trace), "--ray", "auto", before="import sys; sys.modules['ray'] = None")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "wactl: --ray needs Ray: pip install 'wactl[ray]'\n"
