"""A real vLLM server on this machine's CPU: started, watched, ended with all its children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from ..policies.errors import WactlError

START = 300.0
"""Seconds a server may take to start; 20 are usual, and compiling kernels adds to the first."""
STOP = 45.0
"""Seconds it may take to end before it is killed."""


class ServerError(WactlError):
    """The server did not start or died; the text says where its log is."""


@dataclass(frozen=True)
class Served:
    """How a server is to be started: its model, its cache in blocks, its longest prompt."""

    model: Path
    blocks: int
    block_tokens: int
    max_tokens: int
    max_requests: int = 64

    def command(self, port: int) -> list[str]:
        """The command line of vLLM's OpenAI-compatible server."""
        return [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--model", str(self.model), "--served-model-name", "tiny"),
            *("--dtype", "float32", "--enforce-eager"),
            *("--max-model-len", str(self.max_tokens)),
            *("--max-num-seqs", str(self.max_requests)),
            # One block more: vLLM keeps block 0 for itself.
            *("--num-gpu-blocks-override", str(self.blocks + 1)),
            *("--block-size", str(self.block_tokens)),
            *("--gpu-memory-utilization", "0.2"),
            "--disable-uvicorn-access-log",
        ]


class Server:
    """A server as a context: up when entered, gone when left.

    ``sidecar`` is what comes before the server's own command, say `wactl run --`.
    """

    def __init__(
        self,
        served: Served,
        log: Path,
        sidecar: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._command = [*(sidecar or []), *served.command(self.port)]
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("WACTL")},
            **(environment or {}),
            # The tiny model gains nothing from threads, and the load needs a core too.
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process that was started: the server's, or its sidecar's."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether that process still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server and whatever it started."""
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def counters(self) -> dict[str, float]:
        """Values of the server's Prometheus metrics, summed over labels, by sample name."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values[sample.name] = values.get(sample.name, 0.0) + sample.value
        return values

    def _wait(self) -> None:
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            if not self.alive():
                raise ServerError(f"the server ended while starting; {self._last_words()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.25)
        raise ServerError(f"the server did not start within {START:.0f} s; {self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "Error" in line] or lines[-1:]
        return f"its log is {self.log}" + (f", ending in: {errors[-1].strip()}" if errors else "")


def free_port() -> int:
    """A port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
