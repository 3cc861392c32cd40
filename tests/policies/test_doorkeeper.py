"""Over a network: the one key gets in, and everything else stays outside, unread and unheard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
from wactl.policies import channel as channel_module
from wactl.policies.channel import Channel
from wactl.policies.intake import Intake
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, load_keys, write_keys
from wactl.policies.messages import (
    WIRE,
    EngineState,
    Heartbeat,
    Push,
    decode_ack,
    decode_report,
    encode,
)
from wactl.policies.network import AddressError, Network
from wactl.policies.parameters import ParameterSet
from wactl.policies.sockets import connect

Make = Callable[..., ParameterSet]


@pytest.fixture
def sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_ports: Callable[[], int]
) -> tuple[Network, Network]:
    """The address as the engine and as the sidecar know it."""
    write_keys(tmp_path / "keys")
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    port = two_ports()
    return (
        Network("127.0.0.1", port, load_keys(ENGINE, SIDECAR)),
        Network("127.0.0.1", port, load_keys(SIDECAR, ENGINE)),
    )


@pytest.fixture
def engine(sides: tuple[Network, Network], engine_state: EngineState) -> Iterator[Channel]:
    """An engine's end that listens on the network."""
    one = Channel(sides[0], 0, "the engine's name", lambda: 0.0, Intake(), lambda: engine_state)
    yield one
    one.close()


class Peer:
    """Somebody at the other end, with whatever keys; ``place`` None for none at all."""

    def __init__(self, address: Network, place: Network | None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.records = self._open(zmq.SUB, address.records, place)
        self.control = self._open(zmq.DEALER, address.control, place)
        self.records.subscribe(b"")

    def _open(self, kind: int, endpoint: str, place: Network | None) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        if place is None:
            socket.connect(endpoint)
        else:
            connect(socket, endpoint, place)
        return socket

    def heard(self, within: float = 10.0) -> bool:
        """Whether a report of the engine arrives."""
        return bool(self.records.poll(int(within * 1000))) and isinstance(
            decode_report(self.records.recv()), Heartbeat
        )

    def accepted(self, parameters: ParameterSet, within: float = 10.0) -> bool:
        """Whether the engine takes parameters."""
        self.control.sndtimeo = int(within * 1000)
        try:
            self.control.send(encode(Push(WIRE, parameters)))
        except zmq.Again:  # turned away, and the line given up
            return False
        return bool(self.control.poll(int(within * 1000))) and (
            decode_ack(self.control.recv()).accepted
        )

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    """Makes peers, closed after the test."""
    peers: list[Peer] = []

    def make(address: Network, place: Network | None) -> Peer:
        peers.append(Peer(address, place))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


def strangers(sidecar: Network) -> dict[str, Network | None]:
    """Those who must not get in."""
    public, secret = zmq.curve_keypair()
    keys = sidecar.keys
    return {
        "no key at all": None,
        "a key of its own": replace(sidecar, keys=replace(keys, secret=secret, public=public)),
        "the sidecar's public key only": replace(sidecar, keys=replace(keys, secret=secret)),
        "the engine's key for its own": replace(sidecar, keys=replace(keys, public=keys.peer)),
    }


def test_the_right_keys_push_and_listen(
    engine: Channel, sides: tuple[Network, Network], peer: Callable[..., Peer], example: Make
) -> None:
    """Records come out and parameters go in, to be in force."""
    sidecar = peer(sides[1], sides[1])
    assert sidecar.heard()
    assert sidecar.accepted(example())
    assert engine._intake.in_force(1.0) is not None


def test_strangers_neither_hear_nor_are_heard(
    engine: Channel, sides: tuple[Network, Network], peer: Callable[..., Peer], example: Make
) -> None:
    """Whatever keys they made up, nothing arrives on either side; the sidecar is served still."""
    for what, place in strangers(sides[1]).items():
        one = peer(sides[1], place)
        assert not one.heard(within=1.2), what
        assert not one.accepted(example(), within=0.3), what
    assert (engine._intake.accepted, engine._intake.rejected) == (0, 0)
    assert peer(sides[1], sides[1]).accepted(example())


def test_a_sidecar_does_not_talk_to_an_engine_with_another_key(
    engine: Channel, sides: tuple[Network, Network], peer: Callable[..., Peer], example: Make
) -> None:
    """Who took the engine's address but has not its secret gets no parameters, and is not read."""
    public, _ = zmq.curve_keypair()
    deceived = replace(sides[1], keys=replace(sides[1].keys, peer=public))
    one = peer(sides[1], deceived)
    assert not one.heard(within=1.2)
    assert not one.accepted(example(), within=0.3)


def test_without_a_doorkeeper_nobody_gets_in(
    sides: tuple[Network, Network],
    engine_state: EngineState,
    peer: Callable[..., Peer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Should the check be missing, the door is closed, not open: also to the right key."""

    class Absent:
        def __init__(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            pass

    monkeypatch.setattr(channel_module, "Doorkeeper", Absent)
    one = Channel(sides[0], 0, "engine", lambda: 0.0, Intake(), lambda: engine_state)
    assert not peer(sides[1], sides[1]).heard(within=1.5)
    one.close()


def test_a_taken_port_is_one_sentence(
    engine: Channel, sides: tuple[Network, Network], engine_state: EngineState
) -> None:
    """The second engine says where it could not listen, and the first goes on."""
    with pytest.raises(AddressError, match=rf"cannot listen on {sides[0]}: Address already in use"):
        Channel(sides[0], 0, "second", lambda: 0.0, Intake(), lambda: engine_state)
    assert engine._thread.is_alive()
