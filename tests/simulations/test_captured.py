"""Traces that went through the engine's real channel and a capture replay as they were."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
import zmq
from wactl.controller.capture import Capture, Limits
from wactl.controller.stream import Stream
from wactl.policies.channel import Channel
from wactl.policies.errors import WactlError
from wactl.policies.intake import Intake
from wactl.policies.messages import EngineState
from wactl.simulations.cache import SimulatedCache
from wactl.simulations.readers import load_trace
from wactl.simulations.service import Speeds
from wactl.simulations.service import replay as pinned
from wactl.simulations.sweep import parse_capacities, replay
from wactl.simulations.trace import Trace
from wactl.simulations.workload import generate, trace_of

WACTL = Path(sys.executable).parent / "wactl"
PATIENCE = 60.0

Captured = Callable[..., list[Path]]


class Served:
    """A simulated engine that tells what it does on a real channel."""

    def __init__(self, trace: Trace, blocks: int, run_dir: Path) -> None:
        self.trace = trace
        self.cache = SimulatedCache(trace, blocks)
        numbers = {name: 0 for name in EngineState.__struct_fields__}
        self._state = EngineState(
            **numbers
            | {"version": "0.32.0", "order": "lru", "reason": "", "cached": (), "blocks": blocks}
            | {"block_tokens": trace.block_tokens, "shift": self.cache.recorder.shift}
        )
        self.channel = Channel(run_dir, 0, "e", lambda: 0.0, Intake(), lambda: self._state)

    def serve(self, capture: Capture, stream: Stream) -> None:
        """The whole trace; the capture takes what comes, and keeps up."""

        def heard(requests: int) -> None:
            end = time.monotonic() + PATIENCE
            while not (summary := capture.summary()).engines or summary.requests < requests:
                assert time.monotonic() < end, f"{summary.requests} of {requests} arrived"
                stream.socket.poll(20)
                for report in stream.reports():
                    capture.take(report, 0.0)

        heard(0)
        for request in range(self.trace.requests):
            for record in self.cache.serve(request):
                self.channel.send(record)
            if request % 1000 == 0:
                heard(request)
        heard(self.trace.requests)


@pytest.fixture
def captured(tmp_path: Path) -> Iterator[Captured]:
    """Files of a capture of a trace, served by an engine with so many blocks; it misses nothing."""
    run_dir = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))

    def run(trace: Trace, blocks: int, limits: Limits | None = None) -> list[Path]:
        served = Served(trace, blocks, run_dir)
        capture = Capture(tmp_path / f"{trace.name}.jsonl.zst", limits or Limits(), 0.0)
        with zmq.Context(1) as context:
            stream = Stream(context, run_dir, 0)
            try:
                served.serve(capture, stream)
            finally:
                capture.end("interrupted")
                stream.close()
                served.channel.close()
        summary = capture.summary()
        assert (summary.lost_messages, summary.dropped_records) == (0, 0)
        assert summary.hits == served.cache.played().prefix_hits(trace.offsets)
        return [Path(file.path) for file in summary.files]

    yield run
    shutil.rmtree(run_dir)


@pytest.fixture(scope="module")
def chats() -> Trace:
    """Half an hour of the workload that ships."""
    return trace_of(generate(30.0), "chats")


def test_replays_of_a_capture_equal_those_of_the_trace(captured: Captured, chats: Trace) -> None:
    """To the last hit and eviction: stock order, textbook, learned and clairvoyant."""
    (file,) = captured(chats, 1000)
    trace = load_trace(str(file))
    assert (trace.requests, trace.distinct) == (chats.requests, chats.distinct)
    assert trace.times.tolist() == chats.times.tolist()
    assert trace.blocks.tolist() == chats.blocks.tolist()
    assert trace.input_tokens.tolist() == chats.input_tokens.tolist()
    assert trace.output_tokens.tolist() == chats.output_tokens.tolist()
    for policy in ("lru", "arc", "adaptive", "belady"):
        for capacity in (300, 1000, 3000):
            one, other = replay(chats, policy, capacity), replay(trace, policy, capacity)
            assert one.hit_blocks == other.hit_blocks > 0
            assert (one.evictions, one.orphans) == (other.evictions, other.orphans)


def test_a_production_trace(captured: Captured, shared_trace: Callable[[str], Path]) -> None:
    """Twelve thousand conversations of Mooncake, exactly."""
    original = load_trace(str(shared_trace("mooncake_conversation.jsonl.gz")))
    trace = load_trace(str(captured(original, 1000)[0]))
    for policy in ("lru", "adaptive"):
        assert replay(trace, policy, 1000).hit_blocks == replay(original, policy, 1000).hit_blocks


@pytest.mark.parametrize(
    ("name", "blocks", "sample"),
    [
        ("mooncake_conversation", 8000, 2),
        ("mooncake_conversation", 32000, 8),
        ("agentic_dev_2h", 64000, 16),
    ],
)
def test_a_sample_tells_the_hits_of_the_whole(
    captured: Captured,
    shared_trace: Callable[[str], Path],
    name: str,
    blocks: int,
    sample: int,
) -> None:
    """At the engine's capacity, in the engine's blocks: hit ratios within a point of the true."""
    original = load_trace(str(shared_trace(f"{name}.jsonl.gz")))
    trace = load_trace(str(captured(original, blocks)[0]))
    assert (trace.sample, trace.accesses) == (sample, len(original.blocks))
    assert len(trace.blocks) < 1.3 * len(original.blocks) / sample
    for policy in ("lru", "adaptive", "belady"):
        true, found = replay(original, policy, blocks), replay(trace, policy, blocks)
        print(f"\n{name} at {blocks}, {policy}: {true.hit_ratio:.4f}, {found.hit_ratio:.4f}")
        assert found.hit_ratio == pytest.approx(true.hit_ratio, abs=0.01)
        assert found.evictions == pytest.approx(true.evictions, rel=0.1)
        assert (found.blocks, found.sample) == (len(original.blocks), sample)


def test_capacities_of_a_sample_are_the_engines(chats: Trace, captured: Captured) -> None:
    """Shares count the distinct blocks of all traffic; less than one sampled block is refused."""
    trace = load_trace(str(captured(chats, 5000)[0]))
    assert trace.sample == 2
    assert parse_capacities("100%,1000", None)(trace) == [1000, 2 * trace.distinct]
    assert 2 * trace.distinct == pytest.approx(chats.distinct, rel=0.05)
    with pytest.raises(WactlError, match="capacity 1 is too small for chats, which holds one"):
        parse_capacities("1", None)(trace)
    with pytest.raises(WactlError, match="--pin needs every block, and chats holds one in 2"):
        pinned(trace, "lru", 1000, Speeds())


def test_rotated_files_join_to_the_whole(captured: Captured, chats: Trace, tmp_path: Path) -> None:
    """One after another they are one trace; each is one by itself as well."""
    files = captured(chats, 1000, Limits(size=10**8, files=1000))
    assert len(files) > 3
    joined = tmp_path / "joined"
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    assert load_trace(str(joined)).blocks.tolist() == chats.blocks.tolist()
    assert sum(load_trace(str(file)).requests for file in files) == chats.requests


def test_the_commands_take_the_file(captured: Captured, chats: Trace, tmp_path: Path) -> None:
    """`wactl replay` and `wactl regress`, as they take any other."""
    (file,) = captured(chats, 1000)
    done = subprocess.run(
        [WACTL, "replay", file, "--policy", "lru", "--capacity", "1000", "--json"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert json.loads(done.stdout)[0]["hit_blocks"] == replay(chats, "lru", 1000).hit_blocks
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        yaml.safe_dump({"traces": [file.name], "policies": ["lru"], "capacities": ["5%"]})
    )
    for command in ("record", "check"):
        done = subprocess.run([WACTL, "regress", command, spec], capture_output=True, text=True)
        assert (done.returncode, done.stderr.strip()) == (0, ""), done.stdout
