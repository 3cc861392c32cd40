"""A real engine and its sidecar with a network between them, and what of a request gets out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq
from wactl.controller.status import Request, ask
from wactl.policies.features import SESSION, TENANT, TYPE
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, load_keys, write_keys
from wactl.policies.messages import Admission, EngineState, Heartbeat, Records, decode_report
from wactl.policies.network import LISTEN, Network, network
from wactl.policies.sockets import connect
from wactl.simulations.load import Answered, replay
from wactl.simulations.server import Server
from wactl.simulations.workload import generate

pytestmark = pytest.mark.engine

WORDS = ("Confidentialsession", "Confidentialsalt", "Confidentialkind", "Confidentialprompt")
"""What a client says: none of it may be seen outside the engine."""


class Listener:
    """A second reader of the engine's records, with the sidecar's keys, that keeps the bytes."""

    def __init__(self, address: Network) -> None:
        self.raw = bytearray()
        self.declared: list[Admission] = []
        """Records of requests that named their kind."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.linger = 0
        self._socket.subscribe(b"")
        connect(self._socket, address.records, address)

    def until(self, condition: Callable[[EngineState], bool], within: float) -> EngineState:
        """The first state that satisfies the condition; fails after ``within`` seconds."""
        end = time.monotonic() + within
        seen = None
        while (left := end - time.monotonic()) > 0:
            if self._socket.poll(int(1000 * left)):
                self.raw += (message := self._socket.recv())
                report = decode_report(message)
                if isinstance(report, Heartbeat):
                    seen = report.state
                    if condition(seen):
                        return seen
                elif isinstance(report, Records):
                    self.declared += [one for one in report.admissions if one.features[TYPE]]
        raise AssertionError(f"not within {within} s, but {seen}")

    def close(self) -> None:
        """Give the socket back."""
        self._context.destroy(linger=0)


def ask_confidentially(url: str) -> None:
    """A completion by a client who tells the engine a lot about himself."""
    session, salt, kind, prompt = WORDS
    body = {
        "model": "tiny",
        "prompt": prompt * 20,
        "max_tokens": 1,
        "cache_salt": salt,
        "session_id": session,
        "vllm_xargs": {"wactl_category": kind},
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_over_a_network_with_keys(plan, folder: Path, two_ports, monkeypatch) -> None:
    """Parameters come into force by way of the network, and nothing a client said leaves."""
    keys = folder / "keys"
    write_keys(keys)
    monkeypatch.setenv(KEYS, str(keys))
    port, metrics = two_ports(), two_ports()
    address = network(f"tcp://127.0.0.1:{port}", load_keys(SIDECAR, ENGINE))
    assert address.keys.peer == load_keys(ENGINE, SIDECAR).public
    settings, log = folder / "wactl.yaml", folder / "sidecar.log"
    settings.write_text(
        f"mode: enforce\nmetrics_port: {metrics}\nrefit_seconds: 1\nengines: [{address}]\n"
    )
    prompts = generate(minutes=60.0)
    served = plan(prompts, 600, speed=30.0).served
    environment = {"WACTL": "1", LISTEN: str(address), KEYS: str(keys)}
    answers: list[Answered] = []
    with Server(served, folder / "engine.log", environment=environment) as server:
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                answers.extend(
                    asyncio.run(replay(server.url, prompts[:300], block_tokens=32, speed=20.0))
                )

        run_dir = folder / "run"
        with log.open("wb") as file:
            sidecar = subprocess.Popen(
                [sys.executable, "-m", "wactl", "run", "--config", str(settings)],
                env={**os.environ, "WACTL_RUN_DIR": str(run_dir)},
                stderr=file,
            )
        listener = Listener(address)
        thread = threading.Thread(target=load)
        thread.start()
        try:
            listener.until(lambda state: state.order == "scored", within=60.0)
            ask_confidentially(server.url)
            listener.until(lambda _: bool(listener.declared), within=20.0)
            status = ask(run_dir, Request())
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics") as answer:
                scraped = answer.read().decode()
        finally:
            stop.set()
            thread.join()
            listener.close()
            sidecar.terminate()
            assert sidecar.wait(timeout=10) == 0
        assert server.alive()
    (confidential,) = listener.declared
    assert confidential.features[SESSION] and confidential.features[TENANT] and confidential.keys
    assert [engine.alive for engine in status.engines] == [True]
    assert [answer.error for answer in answers if answer.error] == []
    ours = [line for line in (folder / "engine.log").read_text().splitlines() if "wactl" in line]
    assert any(f"controls the cache of engine 0 from {address}" in line for line in ours)
    told = "\n".join([*ours, log.read_text(), scraped, str(status)])
    for word in WORDS:
        assert word not in told
        assert word.encode() not in listener.raw
    everything = told + (folder / "engine.log").read_text()
    for path in keys.glob("*.secret"):
        assert path.read_text().strip() not in everything
