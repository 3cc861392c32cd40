"""The loop of docs/capture.md on a real engine: capture, replay, decide, enforce, look again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from wactl.simulations.load import replay as send
from wactl.simulations.readers import load_trace
from wactl.simulations.server import Server
from wactl.simulations.sweep import replay
from wactl.simulations.traces import Prompt
from wactl.simulations.workload import generate

pytestmark = pytest.mark.engine

WACTL = Path(sys.executable).parent / "wactl"
BLOCKS = 1000
SPEED = 25.0
MINUTES = 20.0
PATIENCE = 30.0


class Loop:
    """A server with a sidecar, and the commands an operator types beside them."""

    def __init__(self, server: Server, folder: Path, run_dir: Path) -> None:
        self.server = server
        self.folder = folder
        self._environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), "COLUMNS": "80"}

    def wactl(self, *arguments: str) -> str:
        """What a command prints; the test prints it too, for the documentation."""
        done = subprocess.run(
            [WACTL, *arguments],
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        print(f"\n$ wactl {' '.join(arguments)}\n{done.stdout}", end="")
        return done.stdout

    def captured(self, prompts: Sequence[Prompt], name: str) -> float:
        """Capture these prompts in a file; tokens that vLLM says hit meanwhile."""
        file = self.folder / name
        before = self._hits()
        capture = subprocess.Popen(
            [WACTL, "capture", name, "--json"],
            env=self._environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            end = time.monotonic() + PATIENCE
            while not file.exists():  # which the first heartbeat begins
                assert time.monotonic() < end and capture.poll() is None
                time.sleep(0.1)
            answers = asyncio.run(send(self.server.url, prompts, block_tokens=32, speed=SPEED))
            assert [answer.error for answer in answers if answer.error] == []
            time.sleep(1.0)
        finally:
            capture.send_signal(signal.SIGINT)
            out, _ = capture.communicate(timeout=PATIENCE)
        print(f"\n$ wactl capture {name} --json\n{out}", end="")
        summary = json.loads(out)
        assert summary["requests"] == len(prompts)
        assert (summary["lost_messages"], summary["dropped_records"]) == (0, 0)
        hits = self._hits() - before
        assert 32 * summary["hits"] == hits
        return hits / 32

    def _hits(self) -> float:
        return self.server.counters()["vllm:prefix_cache_hits_total"]


def test_capture_replay_decide_enforce(plan, folder) -> None:
    """A replay tells the engine's hits, before and after; enforcing brings what it promised."""
    first, second = generate(MINUTES, seed=7), generate(MINUTES, seed=8)
    served = plan([*first, *second], BLOCKS, speed=SPEED).served
    settings = folder / "wactl.yaml"
    settings.write_text("metrics_port: 0\n")  # everything else as shipped, so in shadow mode
    run_dir = folder / "run"
    environment = {"WACTL_RUN_DIR": str(run_dir), "WACTL_TIME_SCALE": str(SPEED)}
    sidecar = [str(WACTL), "run", "--config", str(settings), "--"]
    with Server(served, folder / "engine.log", sidecar, environment) as server:
        loop = Loop(server, folder, run_dir)
        stock = loop.captured(first, "before.jsonl.zst")
        loop.wactl("replay", "before.jsonl.zst", "--capacity", "1000,2000")
        loop.wactl("mode", "enforce")
        enforced = loop.captured(second, "after.jsonl.zst")
        loop.wactl("replay", "after.jsonl.zst", "--capacity", "1000,2000")
    before = load_trace(str(folder / "before.jsonl.zst"))
    after = load_trace(str(folder / "after.jsonl.zst"))
    # Running requests hold blocks and need room for what they write, replays have none of that.
    assert replay(before, "lru", BLOCKS).hit_blocks == pytest.approx(stock, rel=0.01)
    # A replay learns from an empty start, the engine had the first capture to learn from.
    assert replay(after, "adaptive", BLOCKS).hit_blocks == pytest.approx(enforced, rel=0.03)
    assert enforced > 1.05 * replay(after, "lru", BLOCKS).hit_blocks


def test_a_sample_without_a_sidecar(plan, folder) -> None:
    """An engine too big to tell of every block: the replay still tells its hits."""
    prompts = generate(MINUTES, seed=7)
    served = plan(prompts, 5 * BLOCKS, speed=SPEED).served
    run_dir = folder / "run"
    environment = {"WACTL_RUN_DIR": str(run_dir), "WACTL_TIME_SCALE": str(SPEED), "WACTL": "1"}
    with Server(served, folder / "engine.log", environment=environment) as server:
        loop = Loop(server, folder, run_dir)
        stock = loop.captured(prompts, "sample.jsonl.zst")
        loop.wactl("replay", "sample.jsonl.zst", "--policy", "lru", "--capacity", "5000")
    trace = load_trace(str(folder / "sample.jsonl.zst"))
    assert (trace.sample, trace.accesses) == (2, sum(len(prompt.blocks) for prompt in prompts))
    assert replay(trace, "lru", 5 * BLOCKS).hit_blocks == pytest.approx(stock, rel=0.03)
