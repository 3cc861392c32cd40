"""A network that listens in, goes dead, and holds the wrong engine for a while."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from wactl.controller.daemon import Daemon
from wactl.controller.status import Engine, Request, ask
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, load_keys, write_keys
from wactl.policies.network import Network, network


class Tap:
    """A proxy for both ports of an engine that keeps what passes.

    ``cut`` makes the present line to one of them deliver nothing any more, without hanging up.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.passed = bytearray()
        self.lines = 0
        self._cuts = [threading.Event(), threading.Event()]
        self._sockets: list[socket.socket] = []
        for offset in (0, 1):
            server = socket.create_server(("127.0.0.1", port + offset))
            self._sockets.append(server)
            self._start(self._accept, server, target, offset)

    def cut(self, offset: int) -> None:
        self._cuts[offset].set()
        self._cuts[offset] = threading.Event()

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):  # it may have been hung up
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self, server: socket.socket, target: int, offset: int) -> None:
        while True:
            try:
                near, _ = server.accept()
                far = socket.create_connection(("127.0.0.1", target + offset))
            except OSError:
                return
            self.lines += 1
            self._sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                self._start(self._pass, one, other, self._cuts[offset])

    def _pass(self, near: socket.socket, far: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                if not cut.is_set():
                    self.passed += data
                    far.sendall(data)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_ports: Callable[[], int]) -> Network:
    """An address for an engine, and its keys."""
    write_keys(tmp_path / "keys")
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    return network(f"tcp://127.0.0.1:{two_ports()}", load_keys(ENGINE, SIDECAR))


@pytest.fixture
def tap(place: Network, two_ports: Callable[[], int]) -> Iterator[Tap]:
    """A tap on the way to that engine."""
    one = Tap(two_ports(), place.port)
    yield one
    one.close()


@pytest.fixture
def look(run_dir: Path) -> Callable[[], Engine | None]:
    """The only engine that the sidecar reports, or None."""

    def first() -> Engine | None:
        engines = ask(run_dir, Request()).engines
        return engines[0] if engines else None

    return first


def test_nothing_readable_is_on_the_wire(
    place: Network,
    tap: Tap,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Callable[..., Any],
) -> None:
    """Records, state and parameters cross the network; no word of them in the clear does."""
    one = engine("the engine's name", place=place)
    daemon(mode="enforce", engines=[f"tcp://127.0.0.1:{tap.port}"])
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    assert tap.lines == 2
    assert tap.passed.count(b"CURVE") == 4, "both ends of both lines say what they speak"
    for word in (b"the engine's name", b"heartbeat", b"parameters", b"follow-up"):
        assert word not in tap.passed


@pytest.mark.parametrize("offset", [0, 1], ids=["records", "parameters"])
def test_a_line_that_went_dead_is_replaced(
    offset: int,
    place: Network,
    tap: Tap,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Callable[..., Any],
) -> None:
    """Where the other side has gone without hanging up, the sidecar soon connects anew."""
    one = engine(place=place)
    daemon(mode="enforce", engines=[f"tcp://127.0.0.1:{tap.port}"])
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    tap.cut(offset)
    eventually(lambda: one.intake.in_force(one.clock()) is None, one.traffic)
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    assert tap.lines >= 3


def test_once_turned_away_is_not_for_good(
    tmp_path: Path,
    place: Network,
    monkeypatch: pytest.MonkeyPatch,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Callable[..., Any],
    run_dir: Path,
) -> None:
    """An engine that knows another sidecar refuses; started again with the right key, it is met."""
    write_keys(tmp_path / "others")
    for name in ("engine.secret", "engine.public"):
        (tmp_path / "others" / name).write_bytes((tmp_path / "keys" / name).read_bytes())
    daemon(mode="enforce", engines=[str(place)])
    monkeypatch.setenv(KEYS, str(tmp_path / "others"))
    wrong = engine("wrong", place=network(str(place), load_keys(ENGINE, SIDECAR)))
    refused = threading.Event()
    threading.Timer(2.0, refused.set).start()
    eventually(refused.is_set, wrong.traffic)
    assert look() is None
    wrong.close()
    right = engine("right", place=place)
    assert eventually(look, right.traffic).alive
    eventually(lambda: right.intake.in_force(right.clock()), right.traffic)
    assert wrong.intake.accepted == wrong.intake.rejected == 0
