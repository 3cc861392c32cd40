"""The client of docs/stream.md on a real channel: ratios, gaps, restarts, formats it is not for."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq
from wactl.policies.channel import Channel
from wactl.policies.features import FEATURES
from wactl.policies.intake import Intake
from wactl.policies.messages import WIRE, Admission, EngineState, Finish, Heartbeat, encode
from wactl.policies.rundir import records_endpoint

CLIENT = Path(__file__).parent.parent.parent / "examples" / "hits.py"
STATE = EngineState(
    **{name: 0 for name in EngineState.__struct_fields__}
    | {"version": "0.32.0", "order": "lru", "reason": "", "cached": ()}
)


class Engine:
    """A channel whose clock the test sets."""

    def __init__(self, run_dir: Path, name: str) -> None:
        self.now = 1000.0
        self.channel = Channel(run_dir, 0, name, lambda: self.now, Intake(), lambda: STATE)

    def admit(self, time: float, blocks: int, hits: int, **more: bool) -> None:
        fields = {"replay": False, "unread": False} | more
        features = (0.0,) * len(FEATURES)
        self.channel.send(
            Admission(time, features, blocks, hits, 0, keys=b"", positions=b"", number=0, **fields)
        )


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A private folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def client(run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """The example, from a folder without wactl, listening to the engine of rank 0."""
    command = [sys.executable, CLIENT, run_dir / "engine-0.records"]
    process = subprocess.Popen(
        command,
        cwd=run_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    signal.alarm(60)  # a line that never comes fails the test
    yield process
    signal.alarm(0)
    process.kill()
    process.communicate()


def line(client: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    assert client.stdout is not None
    return client.stdout.readline().rstrip("\n")


def line_after(client: subprocess.Popen[str], act: Callable[[], object]) -> str:
    """The line that it prints in the end when something is done again and again."""
    assert client.stdout is not None
    while not select.select([client.stdout], [], [], 0.1)[0]:
        act()
    return line(client)


def test_a_line_a_minute(run_dir: Path, client: subprocess.Popen[str]) -> None:
    """Preempted and unread requests do not count, nor do ends; empty minutes are told as well."""
    engine = Engine(run_dir, "one")
    assert line(client) == "engine one"
    engine.admit(1010.0, 10, 4)
    engine.admit(1059.0, 10, 8)
    engine.admit(1059.5, 10, 10, replay=True)
    engine.admit(1059.6, 10, 0, unread=True)
    engine.channel.send(Finish(1059.9, 0, 50))
    engine.admit(1061.0, 3, 1)
    assert line(client) == "2 requests, hit ratio 0.600"
    engine.now = 1185.0
    assert line(client) == "1 requests, hit ratio 0.333"
    assert line(client) == "0 requests, hit ratio -"
    engine.channel.close()


def test_a_restart_and_a_gap(run_dir: Path, client: subprocess.Popen[str]) -> None:
    """The next engine's numbers begin anew; those that are left out are counted."""
    first = Engine(run_dir, "one")
    assert line(client) == "engine one"
    first.channel.close()
    with zmq.Context(1) as context, context.socket(zmq.PUB) as socket:
        socket.linger = 0
        socket.bind(records_endpoint(run_dir, 0))

        def beat(number: int, time: float) -> None:
            socket.send(encode(Heartbeat(WIRE, "two", number, time, STATE)))

        seen = line_after(client, lambda: beat(0, 5.0))
        assert seen == "engine two"
        beat(4, 10.0)
        beat(5, 66.0)
        assert line(client) == "0 requests, hit ratio -, 3 messages lost"
        other = {**msgspec.structs.asdict(Heartbeat(WIRE, "two", 6, 0.0, STATE)), "wire": 99}
        socket.send(msgspec.msgpack.encode({"type": "heartbeat", **other}))
        assert client.wait(timeout=20) == 1
    assert client.stderr is not None
    assert client.stderr.read() == "the engine speaks wire format 99, this client 2\n"


def test_a_message_of_a_kind_to_come(run_dir: Path, client: subprocess.Popen[str]) -> None:
    """It is numbered like others, and otherwise passed over."""
    with zmq.Context(1) as context, context.socket(zmq.PUB) as socket:
        socket.linger = 0
        socket.bind(records_endpoint(run_dir, 0))
        hello = encode(Heartbeat(WIRE, "one", 0, 0.0, STATE))
        assert line_after(client, lambda: socket.send(hello)) == "engine one"
        kind = {"type": "novelty", "wire": WIRE, "engine": "one", "sequence": 1}
        socket.send(msgspec.msgpack.encode(kind))
        socket.send(encode(Heartbeat(WIRE, "one", 2, 60.0, STATE)))
        assert line(client) == "0 requests, hit ratio -"
