"""`wactl capture` as typed, on the real stream: beside others, interrupted, killed, disk full."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zstandard
from wactl.controller.status import Request, ask
from wactl.policies.features import FEATURES
from wactl.policies.messages import WIRE, Admission, EngineState, Finish, Heartbeat, Records, encode
from wactl.policies.rundir import records_endpoint

WACTL = Path(sys.executable).parent / "wactl"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(run_dir: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts captures in a folder of the test; what still runs after it is ended."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, largest: int | None = None) -> subprocess.Popen[str]:
        def limit() -> None:
            if largest is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

        process = subprocess.Popen(
            [WACTL, "capture", *map(str, arguments)],
            env={**os.environ, "WACTL_RUN_DIR": str(run_dir), "NO_COLOR": "1"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
        )
        running.append(process)
        return process

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=30)
    return process.returncode, out, errors


def sentence(process: subprocess.Popen[str]) -> str:
    """What a capture that failed said, and nothing else."""
    code, out, errors = finished(process)
    assert (code, out) == (1, ""), errors
    assert errors.startswith("wactl: ")
    assert errors.count("\n") == 1, errors
    return errors.removeprefix("wactl: ").strip()


def requests(path: Path) -> list[dict[str, Any]]:
    """Requests in a file, which may still be written."""
    raw = path.read_bytes()
    if path.name.endswith(".zst"):
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    rows = [json.loads(line) for line in raw.splitlines()]
    return [row for row in rows if "t" in row and "b" in row]


def shape(rows: list[dict[str, Any]]) -> list[list[int]]:
    """Prompts with blocks numbered as they first appear: what no renaming changes."""
    seen: dict[int, int] = {}
    return [[seen.setdefault(block, len(seen)) for block in row["b"]] for row in rows]


def test_two_captures_beside_a_sidecar(
    start: Start, engine: Any, daemon: Any, eventually: Any, run_dir: Path, tmp_path: Path
) -> None:
    """Each of three readers gets everything; both files say the same, in no common word."""
    one = engine()
    daemon()
    captures = [start(f"{name}.jsonl.zst", "--json") for name in ("a", "b")]
    files = [tmp_path / f"{name}.jsonl.zst" for name in ("a", "b")]
    eventually(lambda: all(file.exists() for file in files))
    eventually(lambda: ask(run_dir, Request()).engines)
    for _ in range(100):
        one.traffic()
    eventually(lambda: all(len(requests(file)) == 200 for file in files))
    eventually(lambda: ask(run_dir, Request()).engines[0].requests == 200)
    for process in captures:
        process.send_signal(signal.SIGINT)
    for process, file in zip(captures, files, strict=True):
        code, out, errors = finished(process)
        assert (code, errors) == (0, "")
        summary = json.loads(out)
        assert (summary["ended"], summary["requests"], summary["hits"]) == ("interrupted", 200, 0)
        assert (summary["lost_messages"], summary["dropped_records"]) == (0, 0)
        assert (summary["cache_blocks"], summary["block_tokens"]) == (1000, 16)
        assert summary["files"] == [
            {"path": file.name, "bytes": file.stat().st_size, "requests": 200}
        ]
    first, second = map(requests, files)
    assert shape(first) == shape(second)
    ids = [{block for row in rows for block in row["b"]} for rows in (first, second)]
    assert len(ids[0]) == len(ids[1]) > 400
    assert not ids[0] & ids[1]


def test_without_a_sidecar_until_time_is_up(
    start: Start, engine: Any, eventually: Any, tmp_path: Path
) -> None:
    """The summary in words names the file and how to replay it."""
    one = engine()
    process = start("a.jsonl", "--seconds", "2")
    eventually((tmp_path / "a.jsonl").exists)
    one.traffic()
    code, out, errors = finished(process)
    assert (code, errors) == (0, "")
    size = (tmp_path / "a.jsonl").stat().st_size / 1e6
    assert out == (
        f"captured 2 requests in 2 s (ended: seconds): a.jsonl, {size:.2f} MB\n"
        "the engine hit 0.0 % of 8 prompt blocks; its cache has 1000 of 16 tokens, "
        "every block is recorded\n"
        "replay it: wactl replay a.jsonl --capacity 1000\n"
    )


def test_nothing_to_replay_is_said(start: Start, engine: Any) -> None:
    """An engine without traffic is no error, but whoever waits for a trace should know."""
    engine()
    code, out, errors = finished(start("a.jsonl", "--seconds", "1"))
    assert code == 0
    assert "captured 0 requests" in out
    assert "replay it" not in out
    assert errors == "wactl: nothing to replay: the engine admitted no request\n"


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
def test_a_killed_capture_leaves_all_but_the_last_second(
    start: Start, engine: Any, eventually: Any, tmp_path: Path, ending: str
) -> None:
    """Whatever had been on disk is whole lines, read to the last one."""
    one, path = engine(), tmp_path / f"a{ending}"
    process = start(path)
    eventually(path.exists)
    for _ in range(50):
        one.traffic()
    eventually(lambda: len(requests(path)) == 100)
    process.kill()
    process.wait()
    assert len(requests(path)) == 100


def test_a_full_disk_ends_it_in_a_sentence(
    start: Start, engine: Any, eventually: Any, tmp_path: Path
) -> None:
    """The exit status is not zero, and what was written stays readable."""
    one, path = engine(), tmp_path / "a.jsonl"
    process = start("a.jsonl", largest=100_000)
    eventually(path.exists)
    eventually(lambda: process.poll() is not None, one.traffic)
    said = sentence(process)
    size = path.stat().st_size
    assert said == (
        f"a.jsonl: cannot be written: File too large; "
        f"the {size} bytes written before are kept and can be replayed"
    )
    assert 0 < size <= 100_000
    assert path.read_bytes().endswith(b"}\n")
    assert len(requests(path)) > 10


def test_lost_messages_are_told(
    start: Start, eventually: Any, run_dir: Path, tmp_path: Path
) -> None:
    """While a capture is stopped the sockets fill up; what they lose is counted to the last."""
    none = Admission(0.0, (0.0,) * len(FEATURES), 0, 0, 0, False, False, b"", b"", 0)
    ended = Finish(0.0, 0, 1)
    numbers = {name: 0 for name in EngineState.__struct_fields__} | {
        "blocks": 9,
        "block_tokens": 16,
    }
    words = {"version": "0", "order": "lru", "reason": "", "cached": ()}
    state, sent = EngineState(**(numbers | words)), 30_000
    with zmq.Context(1) as context, context.socket(zmq.PUB) as socket:
        socket.linger, socket.sndhwm = 0, 256
        socket.bind(records_endpoint(run_dir, 0))
        process, path = start("a.jsonl", "--json"), tmp_path / "a.jsonl"
        hello = encode(Heartbeat(WIRE, "e", 0, 0.0, state))
        eventually(path.exists, lambda: socket.send(hello))
        process.send_signal(signal.SIGSTOP)
        for number in range(1, sent + 1):
            socket.send(encode(Records(WIRE, "e", number, (none,), (ended,))))
        process.send_signal(signal.SIGCONT)
        # The same number again and again: one that was heard is not missed any more.
        last = encode(Heartbeat(WIRE, "e", sent + 1, 0.0, state))
        eventually(lambda: '"gap":' in path.read_text(), lambda: socket.send(last))
        process.send_signal(signal.SIGINT)
        code, out, errors = finished(process)
    assert (code, errors) == (0, "")
    summary = json.loads(out)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert summary["lost_messages"] == sum(row.get("gap", 0) for row in rows) > 1000
    assert summary["requests"] + summary["lost_messages"] == sent


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.jsonl"], "start one with WACTL=1, or with `wactl run -- …`"),
        (["a.csv"], "no engine in"),
        (["a.jsonl", "--files", "3", "--megabytes", "5"], "--megabytes must be at least 6"),
    ],
)
def test_without_an_engine(start: Start, arguments: list[str], words: str) -> None:
    """It says where it looked, and what to do."""
    assert words in sentence(start(*arguments))


def test_several_engines(start: Start, engine: Any, eventually: Any, tmp_path: Path) -> None:
    """One has to be chosen, and only that one is captured."""
    engines = [engine("zero", 0), engine("one", 1)]
    assert "there are engines 0, 1 in" in sentence(start("a.jsonl"))
    assert "no engine 7 in" in sentence(start("a.jsonl", "--rank", 7))
    process = start("a.jsonl", "--rank", 1)
    eventually((tmp_path / "a.jsonl").exists)
    engines[0].request("no", ["x"])
    engines[1].request("yes", ["x", "y"])
    eventually(lambda: requests(tmp_path / "a.jsonl"))
    process.terminate()
    assert finished(process)[0] == 0
    assert [row["n"] for row in requests(tmp_path / "a.jsonl")] == [2]


def test_a_file_that_is_there_or_cannot_be(start: Start, engine: Any, tmp_path: Path) -> None:
    """It is not touched; a name that says no format is refused."""
    engine()
    (tmp_path / "a.jsonl").write_text("mine")
    assert sentence(start("a.jsonl")) == "a.jsonl exists already; name another file"
    assert (tmp_path / "a.jsonl").read_text() == "mine"
    assert "must be called" in sentence(start("a.csv"))
    assert "cannot be created: No such file or directory" in sentence(start("none/a.jsonl"))
