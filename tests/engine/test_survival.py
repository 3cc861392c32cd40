"""Whatever happens to the sidecar, the engine serves; when it returns, so do the parameters."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq
from wactl.controller.stream import Stream
from wactl.policies.messages import EngineState, Heartbeat
from wactl.simulations.load import Answered, replay
from wactl.simulations.server import Server
from wactl.simulations.workload import generate

pytestmark = pytest.mark.engine

TTL = 3.0
SETTINGS = f"mode: enforce\nmetrics_port: 0\nrefit_seconds: 1\nttl_seconds: {TTL}\n"


class Watcher:
    """Listens to the engine itself, not to the sidecar."""

    def __init__(self, run_dir: Path) -> None:
        self._context = zmq.Context()
        self._stream = Stream(self._context, run_dir, 0)

    def until(self, what: str, condition: Callable[[EngineState], bool], within: float) -> float:
        """Seconds until a heartbeat satisfies the condition; fails after ``within``."""
        start = time.monotonic()
        seen = None
        while time.monotonic() - start < within:
            self._stream.socket.poll(100)
            for report in self._stream.reports():
                if isinstance(report, Heartbeat):
                    seen = report.state
                    if condition(seen):
                        return time.monotonic() - start
        raise AssertionError(f"not {what} within {within} s, but {seen}")

    def close(self) -> None:
        """Give the sockets back."""
        self._stream.close()
        self._context.destroy(linger=0)


def start_sidecar(folder: Path) -> subprocess.Popen[bytes]:
    """`wactl run` on its own, for an engine started elsewhere."""
    settings = folder / "survival.yaml"
    settings.write_text(SETTINGS)
    environment = {**os.environ, "WACTL_RUN_DIR": str(folder / "run")}
    return subprocess.Popen(
        [sys.executable, "-m", "wactl", "run", "--config", str(settings)],
        env=environment,
        stderr=subprocess.DEVNULL,
    )


def test_the_engine_outlives_its_sidecar(plan, folder) -> None:
    """Frozen, continued, killed and replaced under load: no failed request, LRU in between."""
    prompts = generate(minutes=60.0)
    served = plan(prompts, 600, speed=30.0).served
    run_dir = folder / "run"
    environment = {"WACTL": "1", "WACTL_RUN_DIR": str(run_dir)}
    answers: list[Answered] = []
    with Server(served, folder / "engine.log", environment=environment) as server:
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                answers.extend(
                    asyncio.run(replay(server.url, prompts[:300], block_tokens=32, speed=20.0))
                )

        thread = threading.Thread(target=load)
        thread.start()
        watcher = Watcher(run_dir)
        sidecar = start_sidecar(folder)
        second = None
        try:
            scored = lambda state: state.order == "scored"  # noqa: E731
            lru = lambda state: state.order == "lru"  # noqa: E731
            watcher.until("scored", scored, within=40.0)

            sidecar.send_signal(signal.SIGSTOP)
            watcher.until("LRU with the sidecar frozen", lru, within=TTL + 2.0)
            served_before = len(answers)
            sidecar.send_signal(signal.SIGCONT)
            watcher.until("scored with the sidecar back", scored, within=15.0)

            sidecar.kill()
            sidecar.wait()
            watcher.until("LRU with the sidecar dead", lru, within=TTL + 2.0)
            second = start_sidecar(folder)
            watcher.until("scored with a new sidecar", scored, within=40.0)
        finally:
            stop.set()
            thread.join()
            watcher.close()
            for process in (sidecar, second):
                if process is not None and process.poll() is None:
                    process.terminate()
                    process.wait()
        assert server.alive()
    assert len(answers) > served_before >= 0 and len(answers) >= 300
    assert [answer.error for answer in answers if answer.error] == []
