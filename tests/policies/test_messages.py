"""The wire format: what is sent comes back, and what is hostile is refused."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.policies import messages
from wactl.policies.features import FEATURES
from wactl.policies.messages import (
    MAX_MESSAGE,
    WIRE,
    Ack,
    Admission,
    EngineState,
    Finish,
    Heartbeat,
    Push,
    Records,
    Report,
    WireError,
    encode,
)
from wactl.policies.parameters import ParameterSet, Score

Make = Callable[..., ParameterSet]
DECODERS = (messages.decode_report, messages.decode_push, messages.decode_ack)


def admission(**changed: Any) -> Admission:
    """A valid record of a prompt of four blocks, two followed, with the fields given replaced."""
    fields: dict[str, Any] = {
        "time": 12.5,
        "features": tuple(float(i) for i in range(len(FEATURES))),
        "blocks": 4,
        "hits": 2,
        "carried": 3,
        "replay": False,
        "unread": False,
        "keys": struct.pack("<2Q", 2**64 - 1, 7),
        "positions": struct.pack("<2Q", 0, 3),
        "number": 8,
    }
    return Admission(**(fields | changed))


def records(*admissions: Admission, finishes: tuple[Finish, ...] = ()) -> Records:
    return Records(WIRE, "1-0-abc", 5, admissions, finishes)


def test_reports_come_back_as_sent(engine_state: EngineState) -> None:
    """Records and heartbeats survive the way over the wire unchanged."""
    reports: list[Report] = [
        records(),
        records(admission(), admission(replay=True), admission(hits=0, unread=True)),
        records(finishes=(Finish(13.0, 8, 0), Finish(12.0, 2**40, 2**31 - 1))),
        records(admission(), finishes=(Finish(-1.0, 7, 100),)),
        Heartbeat(WIRE, "1-0-abc", 0, 3.5, engine_state),
    ]
    for report in reports:
        assert messages.decode_report(encode(report)) == report


@pytest.mark.parametrize("score", Score)
def test_parameters_come_back_as_sent(example: Make, score: Score) -> None:
    """A push and its answer survive the way over the wire unchanged."""
    parameters = example(score=score)
    assert messages.decode_push(encode(Push(WIRE, parameters))) == parameters
    ack = Ack(WIRE, 3, False, "version 3 is not newer than 4, which is known already")
    assert messages.decode_ack(encode(ack)) == ack


@given(
    time=st.floats(-1e9, 1e9),
    blocks=st.integers(0, 2**31),
    keys=st.lists(st.integers(0, 2**64 - 1), max_size=8),
    features=st.lists(st.floats(-1e15, 1e15), min_size=len(FEATURES), max_size=len(FEATURES)),
    number=st.integers(0, 2**63),
    generated=st.integers(0, 2**31 - 1),
)
def test_any_honest_record_comes_back(
    time: float, blocks: int, keys: list[int], features: list[float], number: int, generated: int
) -> None:
    """A record with any values in range is read as it was written."""
    packed = struct.pack(f"<{len(keys)}Q", *keys)
    positions = struct.pack(f"<{len(keys)}Q", *range(len(keys)))
    report = records(
        admission(
            time=time,
            features=tuple(features),
            blocks=blocks + len(keys),
            keys=packed,
            positions=positions,
            number=number,
        ),
        finishes=(Finish(time, number, generated),),
    )
    if blocks + len(keys) >= 2:
        assert messages.decode_report(encode(report)) == report


HOSTILE: dict[str, dict[str, Any]] = {
    "time NaN": {"time": math.nan},
    "time infinite": {"time": -math.inf},
    "feature NaN": {"features": (math.nan,) * len(FEATURES)},
    "feature infinite": {"features": (math.inf,) * len(FEATURES)},
    "feature too large": {"features": (1e300,) * len(FEATURES)},
    "features missing": {"features": (1.0,) * (len(FEATURES) - 1)},
    "features in excess": {"features": (1.0,) * 10000},
    "more hits than blocks": {"hits": 5},
    "hits negative": {"hits": -1},
    "blocks negative": {"blocks": -4, "hits": -4},
    "carried negative": {"carried": -1},
    "carried too large": {"carried": 2**31 + 1},
    "half a key": {"keys": b"1234", "positions": b"1234"},
    "a key without a position": {"positions": struct.pack("<Q", 0)},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_record_is_refused(what: str) -> None:
    """One bad record spoils its message, with a reason, wherever it stands in the batch."""
    bad = admission(**HOSTILE[what])
    for report in (records(bad), records(admission(), bad), records(bad, admission())):
        with pytest.raises(WireError, match=r"an admission record has .*"):
            messages.decode_report(encode(report))


@pytest.mark.parametrize(
    "bad",
    [
        *(Finish(time, 8, 1) for time in (math.nan, math.inf, -math.inf, 1e300)),
        *(Finish(1.0, 8, generated) for generated in (-1, 2**31, 2**62)),
    ],
)
def test_a_hostile_finish_is_refused(bad: Finish) -> None:
    """One that makes no sense spoils its message, wherever it stands."""
    good = Finish(1.0, 8, 1)
    for finishes in ((bad,), (good, bad), (bad, good)):
        with pytest.raises(WireError, match="a finish record whose time or tokens make no sense"):
            messages.decode_report(encode(records(admission(), finishes=finishes)))


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 1e300])
def test_a_heartbeat_of_no_time_is_refused(engine_state: EngineState, time: float) -> None:
    """The time of a heartbeat is a number too."""
    with pytest.raises(WireError, match="time"):
        messages.decode_report(encode(Heartbeat(WIRE, "1-0-abc", 0, time, engine_state)))


@pytest.mark.parametrize("wire", [0, 1, WIRE + 1, -1, 2**63])
def test_another_wire_format_is_refused(example: Make, wire: int) -> None:
    """A message of another version of the format says so, in both directions."""
    for decode, message in (
        (messages.decode_report, Records(wire, "1-0-abc", 5, ())),
        (messages.decode_push, Push(wire, example())),
        (messages.decode_ack, Ack(wire, 1, True, "")),
    ):
        with pytest.raises(WireError, match=f"wire format {wire}; this side speaks {WIRE}"):
            decode(encode(message))


def test_a_huge_message_is_not_even_parsed() -> None:
    """A message beyond the limit is refused by its size, and one within it is read."""
    for decode in DECODERS:
        with pytest.raises(WireError, match=f"{MAX_MESSAGE + 1} bytes"):
            decode(b"\x90" * (MAX_MESSAGE + 1))
    with pytest.raises(WireError, match="not a message of this format"):
        messages.decode_report(b"\x90" * MAX_MESSAGE)


@pytest.mark.parametrize("decode", DECODERS)
def test_a_reason_is_short(decode: Callable[[bytes], object]) -> None:
    """A refusal does not repeat what a stranger sent at length, deep nesting included."""
    pack = msgspec.msgpack.encode
    long = pack({"type": "x" * 900_000})
    enum = pack({"type": "push", "wire": WIRE, "parameters": {"score": "x" * 900_000}})
    deep = b"\x82" + pack("unknown") + b"\x91" * 900_000 + b"\x90"
    for raw in (long, enum, deep):
        with pytest.raises(WireError) as caught:
            decode(raw)
        assert len(str(caught.value)) < 500


@settings(max_examples=400)
@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(raw: bytes) -> None:
    """Bytes that are no message raise `WireError`, whatever they are."""
    for decode in DECODERS:
        with pytest.raises(WireError):
            decode(raw)


@settings(max_examples=300)
@given(st.data())
def test_damaged_messages_raise_nothing_else(
    example: Make, engine_state: EngineState, data: st.DataObject
) -> None:
    """A valid message with bytes changed or lost is read or refused, never anything else."""
    valid = (
        encode(records(admission(), admission(), finishes=(Finish(1.0, 8, 1),))),
        encode(Heartbeat(WIRE, "1-0-abc", 0, 3.5, engine_state)),
        encode(Push(WIRE, example())),
        encode(Ack(WIRE, 3, True, "")),
    )
    raw = bytearray(data.draw(st.sampled_from(valid)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    for decode in DECODERS:
        try:
            decode(bytes(raw))
        except WireError as error:
            assert str(error)
