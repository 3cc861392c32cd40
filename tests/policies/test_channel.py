"""The engine's end of the wire, over real sockets: readers that behave, writers that don't."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq
from wactl.policies.channel import QUEUE, QUEUE_BYTES, Channel
from wactl.policies.features import FEATURES
from wactl.policies.intake import Intake
from wactl.policies.messages import (
    WIRE,
    Ack,
    Admission,
    EngineState,
    Finish,
    Heartbeat,
    Push,
    Records,
    Report,
    decode_ack,
    decode_report,
    encode,
)
from wactl.policies.parameters import ParameterSet
from wactl.policies.rundir import control_endpoint, records_endpoint

Make = Callable[..., ParameterSet]
PATIENCE = 20.0


def admission(time: float, key_bytes: int = 8) -> Admission:
    keys, blocks = bytes(key_bytes), key_bytes // 8
    features, places = (0.0,) * len(FEATURES), np.arange(blocks, dtype="<u8").tobytes()
    return Admission(time, features, blocks, 0, 0, False, False, keys, places, int(time))


def unnamed(one: Admission) -> Admission:
    """A record without the names its blocks got on the way."""
    return msgspec.structs.replace(one, keys=bytes(len(one.keys)))


class Wire:
    """A channel, one reader of its stream and one writer to its control socket."""

    def __init__(self, run_dir: Path, state: EngineState) -> None:
        self.run_dir = run_dir
        self.intake = Intake()
        self.broken = False
        self._state = state
        self.channel = Channel(run_dir, 3, "engine", lambda: 7.0, self.intake, self.state)
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self.records = self.connect(zmq.SUB, records_endpoint(run_dir, 3))
        self.control = self.writer()
        # A subscription takes a moment; the first heartbeat shows that it holds.
        assert isinstance(self.report(), Heartbeat)

    def state(self) -> EngineState:
        if self.broken:
            raise RuntimeError("no state today")
        return msgspec.structs.replace(self._state, newest=self.intake.version)

    def connect(self, kind: int, endpoint: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.linger = 0
        socket.rcvtimeo = socket.sndtimeo = int(PATIENCE * 1000)
        socket.rcvhwm = 0
        if kind == zmq.SUB:
            socket.subscribe(b"")
        socket.connect(endpoint)
        return socket

    def writer(self) -> zmq.Socket[bytes]:
        return self.connect(zmq.DEALER, control_endpoint(self.run_dir, 3))

    def report(self) -> Report:
        return decode_report(self.records.recv())

    def reports(self) -> Iterator[Report]:
        while True:
            yield self.report()

    def push(self, raw: bytes) -> Ack:
        self.control.send(raw)
        return decode_ack(self.control.recv())

    def close(self) -> None:
        self._context.destroy(linger=0)
        self.channel.close()


@pytest.fixture
def wire(run_dir: Path, engine_state: EngineState) -> Iterator[Wire]:
    """A channel at work and its other end."""
    wire = Wire(run_dir, engine_state)
    yield wire
    wire.close()


def test_records_arrive_in_order_and_numbered(wire: Wire) -> None:
    """All arrive as they were sent, among heartbeats, with no number left out.

    Of its kind each keeps its place, and a finish never comes in a message before its admission.
    """
    sent = [admission(float(i), 8 * (i % 5)) for i in range(2000)]
    ends = [Finish(i + 0.5, i, 3 * i) for i in range(2000)]
    for one, end in zip(sent, ends, strict=True):
        wire.channel.send(one)
        wire.channel.send(end)
    received: list[Admission] = []
    finished: list[Finish] = []
    numbers = []
    for report in wire.reports():
        assert (report.wire, report.engine) == (WIRE, "engine")
        numbers.append(report.sequence)
        if isinstance(report, Records):
            received.extend(report.admissions)
            finished.extend(report.finishes)
            assert len(report.admissions) + len(report.finishes) <= 256
            assert {end.number for end in report.finishes} <= {one.number for one in received}
        if len(finished) >= len(ends):
            break
    assert [unnamed(one) for one in received] == sent
    assert finished == ends
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert wire.channel.dropped == 0


def test_a_finish_travels_alone(wire: Wire) -> None:
    """Where nobody is admitted, the end of a request is told all the same."""
    wire.channel.send(Finish(8.0, 5, 77))
    records = (report for report in wire.reports() if isinstance(report, Records))
    assert next(records) == Records(WIRE, "engine", 1, (), (Finish(8.0, 5, 77),))


def test_blocks_leave_under_other_names(run_dir: Path, engine_state: EngineState) -> None:
    """No key is sent as it is; equal ones stay equal, and others in the next engine."""
    key, other = b"a block.", b"another."
    seen = []
    for number in range(2):
        folder = run_dir / str(number)
        folder.mkdir(mode=0o700)
        wire = Wire(folder, engine_state)
        for keys in (key + other, key + key):
            one = msgspec.structs.replace(admission(0.0, 16), keys=keys)
            wire.channel.send(one)
        raw = b""
        received: list[bytes] = []
        while len(received) < 2:
            raw += (message := wire.records.recv())
            if isinstance(report := decode_report(message), Records):
                received += [one.keys for one in report.admissions]
        wire.close()
        assert key not in raw and other not in raw
        assert received[1] == received[0][:8] * 2 != received[0]
        seen.append(received[0][:8])
    assert seen[0] != seen[1]


def test_large_records_are_sent_in_readable_messages(wire: Wire) -> None:
    """Prompts of many followed blocks fill more messages, none too large to be read."""
    sent = [admission(float(i), 8 * 4000) for i in range(100)]
    for one in sent:
        wire.channel.send(one)
    received: list[Admission] = []
    for report in wire.reports():  # each is decoded, which fails beyond the largest message
        if isinstance(report, Records):
            received.extend(report.admissions)
        if len(received) == len(sent):
            break
    assert [unnamed(one) for one in received] == sent


def test_heartbeats_come_by_themselves(wire: Wire, example: Make) -> None:
    """Without any traffic the engine tells about itself, about twice a second."""
    assert wire.push(encode(Push(WIRE, example(version=6)))).accepted
    start = time.monotonic()
    beats = [beat for beat in itertools.islice(wire.reports(), 3) if isinstance(beat, Heartbeat)]
    assert time.monotonic() - start < 6.0
    assert len(beats) == 3
    assert beats[-1].time == 7.0 and beats[-1].state.newest == 6


def test_what_does_not_fit_is_dropped_and_counted(run_dir: Path, engine_state: EngineState) -> None:
    """When nothing drains the queue it stays bounded, in number and in bytes."""
    end = Finish(0.0, 0, 1)
    for one, room in (
        (admission(0.0, 8), QUEUE),
        (admission(0.0, 1 << 20), QUEUE_BYTES >> 21),
        (end, QUEUE),
    ):
        channel = Channel(run_dir, 0, "engine", lambda: 0.0, Intake(), lambda: engine_state)
        channel.close()
        for _ in range(room):
            channel.send(one)
        assert channel.dropped == 0
        start = time.monotonic()
        for _ in range(1000):
            channel.send(one)
        assert channel.dropped == 1000
        assert time.monotonic() - start < 0.5


def test_without_a_reader_nothing_piles_up(run_dir: Path, engine_state: EngineState) -> None:
    """Where no sidecar listens, records go nowhere and the scheduler sends on."""
    channel = Channel(run_dir, 0, "engine", lambda: 0.0, Intake(), lambda: engine_state)
    for batch in range(10):
        for _ in range(1000):
            channel.send(admission(float(batch)))
        time.sleep(0.1)
    assert channel.dropped == 0
    channel.close()


def test_pushes_are_acknowledged(wire: Wire, example: Make) -> None:
    """A good push is accepted, an old one refused, and both are answered to who sent it."""
    assert wire.push(encode(Push(WIRE, example(version=2)))) == Ack(WIRE, 2, True, "")
    other = wire.writer()
    other.send(encode(Push(WIRE, example(version=1))))
    ack = decode_ack(other.recv())
    assert (ack.version, ack.accepted) == (2, False) and "not newer" in ack.reason
    # A REQ socket puts an empty part in front; the last part counts.
    wire.control.send_multipart([b"", encode(Push(WIRE, example(version=3)))])
    assert decode_ack(wire.control.recv()).accepted
    orders = wire.intake.in_force(8.0)
    assert orders is not None and orders.parameters.version == 3


def test_a_big_message_is_refused_with_a_reason(wire: Wire, example: Make) -> None:
    """Two megabytes are received only to be refused, and the next push is heard."""
    for raw in (bytes(2 << 20), encode(Push(WIRE, example(laws=example().laws * 5000)))):
        ack = wire.push(raw)
        assert not ack.accepted and f"{len(raw)} bytes; the largest allowed" in ack.reason
    assert wire.push(encode(Push(WIRE, example()))).accepted


def test_a_flood_does_not_stop_it(wire: Wire, example: Make) -> None:
    """Ten thousand messages of junk from one who reads no answer delay the others, no more."""
    flood = wire.writer()
    for i in range(10_000):
        flood.send_multipart([b"\x93junk" * (i % 7)] * (1 + i % 3))
    wire.channel.send(admission(1.0))
    assert wire.push(encode(Push(WIRE, example()))).accepted
    assert any(isinstance(report, Records) for report in itertools.islice(wire.reports(), 10_000))
    deadline = time.monotonic() + PATIENCE
    while wire.intake.rejected < 10_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (wire.intake.rejected, wire.intake.accepted) == (10_000, 1)


def test_a_message_beyond_all_bounds_costs_its_sender_the_line(wire: Wire, example: Make) -> None:
    """A message no socket should receive is not even that, and others are served as before."""
    giant = wire.writer()
    giant.send(bytes(65 << 20))
    giant.send(b"small")
    assert "not a message" in decode_ack(giant.recv()).reason
    assert wire.push(encode(Push(WIRE, example()))).accepted
    assert (wire.intake.rejected, wire.intake.accepted) == (1, 1)


def test_a_failure_inside_does_not_end_it(
    wire: Wire, example: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """If the engine's state cannot be told the log says so, and pushes and records go on."""
    wire.broken = True
    time.sleep(0.7)
    wire.channel.send(admission(5.0))
    assert wire.push(encode(Push(WIRE, example()))).accepted
    assert any(isinstance(report, Records) for report in itertools.islice(wire.reports(), 5))
    assert "no state today" in caplog.text
    wire.broken = False
    assert any(isinstance(report, Heartbeat) for report in itertools.islice(wire.reports(), 5))


def test_closing_removes_the_sockets(run_dir: Path, engine_state: EngineState) -> None:
    """After `close` the folder is empty and another channel may have the name."""
    for _ in range(2):
        channel = Channel(run_dir, 0, "engine", lambda: 0.0, Intake(), lambda: engine_state)
        assert len(list(run_dir.iterdir())) == 2
        channel.close()
        assert list(run_dir.iterdir()) == []
