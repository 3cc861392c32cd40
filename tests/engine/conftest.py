"""A real vLLM server for every test here, on the CPU, with a generated model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import zmq
from wactl.controller.stream import Stream
from wactl.policies.messages import EngineState, Heartbeat
from wactl.simulations.compare import Plan
from wactl.simulations.load import Answered, replay
from wactl.simulations.model import write_model
from wactl.simulations.server import Served, Server
from wactl.simulations.traces import Prompt
from wactl.simulations.workload import generate


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets, gone after the test."""
    path = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def plan(folder: Path) -> Callable[..., Plan]:
    """Makes plans for prompts, with a cache of so many blocks."""

    def make(
        prompts: Sequence[Prompt],
        blocks: int,
        *,
        speed: float,
        output_tokens: int = 1,
        concurrency: int = 64,
    ) -> Plan:
        longest = max(len(prompt.blocks) for prompt in prompts)
        served = Served(write_model(folder / "model"), blocks, 32, 32 * (longest + 1), concurrency)
        return Plan(prompts, served, speed, folder, output_tokens)

    return make


PAUSE = 0.1
"""Seconds between two answers whose tokens are waited for."""


class Load:
    """Prompts in an endless loop, and short answers whose tokens tell how long a step took.

    Between two of them there is a pause: vLLM's processes spin while a step is under way, and on
    two cores nobody else would get any of either.
    """

    def __init__(self, url: str) -> None:
        self.answers: list[Answered] = []
        self.failed = ""
        self._url = url
        self._gap = 0.0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._requests, self._pulse)]
        for thread in self._threads:
            thread.start()

    def longest_step(self) -> float:
        """Longest time in seconds that a token was waited for since the last call."""
        longest, self._gap = self._gap, 0.0
        return longest

    def end(self) -> None:
        """No more requests; those under way are waited for."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _requests(self) -> None:
        prompts = generate(minutes=60.0)[:100]
        while not self._stop.is_set():
            load = replay(self._url, prompts, block_tokens=32, speed=20.0)
            self.answers.extend(asyncio.run(load))

    def _pulse(self) -> None:
        body = {"model": "tiny", "prompt": [7], "max_tokens": 8, "ignore_eos": True}
        request = urllib.request.Request(
            f"{self._url}/v1/completions",
            json.dumps({**body, "stream": True}).encode(),
            {"Content-Type": "application/json"},
        )
        while not self._stop.is_set():
            time.sleep(PAUSE)
            last = time.monotonic()
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    for line in answer:
                        if line.startswith(b"data: {"):
                            now = time.monotonic()
                            self._gap, last = max(self._gap, now - last), now
            except OSError as error:
                self.failed = repr(error)
                return


class Stage:
    """A server under load, and sidecars beside it that may come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run_dir = folder / "run"
        self.log = folder / "sidecar.log"
        self.settings = folder / "wactl.yaml"
        self.rules = folder / "rules.yaml"
        self.rules.write_text("rules: []\n")
        self.settings.write_text(
            "mode: enforce\nmetrics_port: 0\nrefit_seconds: 1\nttl_seconds: 3\n"
            "state_dir: state\nrules: rules.yaml\n"
        )
        self._served = Served(write_model(folder / "model"), 600, 32, 32 * 200)
        self._context = zmq.Context()
        self._stream: Stream | None = None
        self._running: list[subprocess.Popen[bytes]] = []
        self.serve()

    def serve(self) -> None:
        """Start a server, and a load on it."""
        environment = {"WACTL": "1", "WACTL_RUN_DIR": str(self.run_dir)}
        self.server = Server(self._served, self.folder / "engine.log", environment=environment)
        self.server.__enter__()
        self.load = Load(self.server.url)
        if self._stream is None:
            self._stream = Stream(self._context, self.run_dir, 0)
        self._stream.reconnect()

    def wactl(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command beside it, run to its end."""
        return subprocess.run(
            [sys.executable, "-m", "wactl", *arguments],
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def sidecar(self, **environment: str) -> subprocess.Popen[bytes]:
        """`wactl run` beside the engine; its log goes on where the last one's ended."""
        command = [sys.executable, "-m", "wactl", "run", "--config", str(self.settings)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, env=self._environment(environment), stderr=log)
        self._running.append(process)
        return process

    def until(
        self, what: str, condition: Callable[[EngineState], bool], within: float
    ) -> EngineState:
        """The first state in which the engine itself says so; fails after ``within`` seconds."""
        assert self._stream is not None
        self._stream.reports()
        start, seen = time.monotonic(), None
        while time.monotonic() - start < within:
            self._stream.socket.poll(100)
            for report in self._stream.reports():
                if isinstance(report, Heartbeat):
                    seen = report.state
                    if condition(seen):
                        return seen
        raise AssertionError(f"not {what} within {within} s, but {seen}\n{self.log.read_text()}")

    def end_sidecars(self) -> None:
        """End whatever sidecar still runs."""
        for process in self._running:
            if process.poll() is None:
                process.terminate()
                process.wait()
        self._running.clear()

    def close(self) -> None:
        """Give everything back."""
        self.end_sidecars()
        self.load.end()
        self.server.stop()
        if self._stream is not None:
            self._stream.close()
        self._context.destroy(linger=0)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, "WACTL_RUN_DIR": str(self.run_dir), **more}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """One server under load for all tests of a module."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    try:
        stage = Stage(folder)
        yield stage
        stage.close()
    finally:
        shutil.rmtree(folder)
