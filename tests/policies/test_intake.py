"""The intake takes good parameters, refuses all else with a reason, and lets them expire."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from wactl.policies.intake import Intake
from wactl.policies.messages import MAX_MESSAGE, WIRE, Push, encode
from wactl.policies.parameters import Law, ParameterSet
from wactl.policies.table import Rule

Make = Callable[..., ParameterSet]

TTL = 60.0
pack = msgspec.msgpack.encode


def push(parameters: ParameterSet) -> bytes:
    return encode(Push(WIRE, parameters))


def plain(parameters: ParameterSet) -> dict[str, Any]:
    """A push as the maps and lists it is on the wire."""
    decoded: dict[str, Any] = msgspec.msgpack.decode(push(parameters))
    return decoded


def bad_messages(example: Make) -> dict[str, bytes]:
    """What must be refused, by a word that the reason has to hold."""
    good = push(example(version=9))
    huge = pack(
        {**plain(example(version=9)), "parameters": {"laws": [[[0.1], [0.1], 1.0]] * 10**6}}
    )
    rising = tuple(i / 100 for i in range(1, 65))
    lost = replace(example().table, rules=(Rule("lost", (), 9),))
    many = example(version=9, laws=(Law((0.1,), (0.1,), 1.0),) * 10**6)
    extended = pack({"type": "push", "wire": WIRE, "parameters": msgspec.msgpack.Ext(5, b"x")})
    return {
        "not a message": b"",
        "format: ": b"\xc1" * 100,
        "truncated": good[:-1],
        "this format": good[: len(good) // 2],
        "trailing": good + b"\x00",
        "wire format 1": encode(Push(1, example(version=9))),
        "trust nan": push(example(version=9, trust=math.nan)),
        "weight nan": push(example(version=9, default=Law((math.nan,), (0.1,), 1.0))),
        "rate -0.1": push(example(version=9, default=Law((0.1,), (-0.1,), 1.0))),
        "hazards that rise": push(example(version=9, default=Law((0.1,), (0.1,), 1.0, rising))),
        "1 hazards; need 64": push(example(version=9, default=Law((0.1,), (0.1,), 1.0, (0.1,)))),
        "leads to 9, which": push(example(version=9, table=lost)),
        "lifespan inf": push(example(version=9, default=Law((0.1,), (0.1,), math.inf))),
        "add up to": push(example(version=9, default=Law((0.6, 0.6), (0.1, 0.1), 1.0))),
        " laws for ": push(example(version=9, laws=(*example().laws, example().default))),
        f"bytes; the largest allowed is {MAX_MESSAGE}": huge,
        "the largest allowed": push(many),
        "Expected `object`": extended,
        "Expected `int`": pack({"type": "push", "wire": "1", "parameters": {}}),
        "missing required field": pack({"type": "push", "wire": WIRE}),
        "Invalid enum value": pack(
            {**plain(example()), "parameters": {**plain(example())["parameters"], "score": "lfu"}}
        ),
        "version 0": push(example(version=0)),
        "version 2 is not newer than 3": push(example(version=2)),
        "version 3 is not newer than 3": push(example(version=3, trust=0.5)),
    }


def test_what_is_broken_or_old_is_refused(example: Make) -> None:
    """Each bad push is refused with its reason and leaves the parameters before it in force."""
    for words, raw in bad_messages(example).items():
        intake = Intake()
        current = example(version=3)
        assert intake.consider(push(current), 0.0).accepted
        ack = intake.consider(raw, 10.0)
        assert (ack.wire, ack.accepted, ack.version) == (WIRE, False, 3)
        assert words in ack.reason and len(ack.reason) < 500
        orders = intake.in_force(TTL - 0.001)
        assert orders is not None and orders.parameters == current
        assert intake.in_force(TTL) is None  # a refusal is no sign of life
        assert (intake.accepted, intake.rejected) == (1, 1)


def test_a_refusal_leaves_an_empty_intake_empty(example: Make) -> None:
    """Without good parameters there are none, whatever else arrives."""
    intake = Intake()
    for raw in list(bad_messages(example).values())[:-2]:
        assert not intake.consider(raw, 0.0).accepted
    assert intake.in_force(0.0) is None and intake.newest is None and intake.version == 0
    assert intake.reason(0.0) == "no parameters received yet"


def test_the_newest_version_wins(example: Make) -> None:
    """Versions out of order: each newer one replaces the last, each older one is refused."""
    intake = Intake()
    taken = [intake.consider(push(example(version=v)), 0.0).accepted for v in (2, 5, 3, 4, 5, 9, 1)]
    assert taken == [True, True, False, False, True, True, False]
    assert intake.version == 9
    orders = intake.in_force(1.0)
    assert orders is not None and orders.parameters.version == 9
    assert (intake.accepted, intake.rejected) == (4, 3)


def test_the_same_set_again_is_a_sign_of_life(example: Make) -> None:
    """Sent again it holds for another time to live, and stays the very same object."""
    intake, raw = Intake(), push(example())
    intake.consider(raw, 0.0)
    first = intake.in_force(0.0)
    for now in (40.0, 80.0, 120.0):
        ack = intake.consider(raw, now)
        assert (ack.accepted, ack.version, ack.reason) == (True, 1, "")
        assert intake.in_force(now + TTL - 0.001) is first
    assert intake.in_force(120.0 + TTL) is None


def test_silence_ends_in_plain_lru(example: Make) -> None:
    """After the time to live nothing is in force, and the reason says since when."""
    intake = Intake()
    intake.consider(push(example(version=4)), 100.0)
    assert intake.reason(159.0) == "version 4 in force"
    assert intake.in_force(160.0) is None
    assert intake.reason(175.0) == "version 4 expired, nothing heard for 75 s"
    assert intake.version == 4
    # Expired or not, an older one stays old, and the same one brings it back.
    assert not intake.consider(push(example(version=3)), 200.0).accepted
    assert intake.consider(push(example(version=4)), 200.0).accepted
    assert intake.in_force(201.0) is not None


def test_trust_0_is_said_so(example: Make) -> None:
    """Parameters with a trust of 0 are in force and explained."""
    intake = Intake()
    intake.consider(push(example(trust=0.0)), 0.0)
    assert intake.in_force(1.0) is not None
    assert intake.reason(1.0) == "version 1 has trust 0"


@settings(max_examples=400)
@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    """Any bytes are answered, and noise is refused."""
    intake = Intake()
    ack = intake.consider(raw, 0.0)
    assert not ack.accepted and ack.reason
    assert intake.in_force(0.0) is None


@pytest.mark.parametrize("version", [1, 2**62 - 2])
@settings(max_examples=200)
@given(data=st.data())
def test_no_damage_makes_it_raise(example: Make, version: int, data: st.DataObject) -> None:
    """A damaged push is refused, or it is a valid set all the same."""
    intake = Intake()
    current = example(version=version)
    intake.consider(push(current), 0.0)
    raw = bytearray(push(example(version=version + 1)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    ack = intake.consider(bytes(raw), 1.0)
    orders = intake.in_force(2.0)
    if ack.accepted:
        assert orders is not None and orders.parameters.problem() is None
        assert orders.parameters.version == ack.version
        assert orders.parameters == current or ack.version > version
    else:
        assert ack.reason
        assert orders is not None and orders.parameters == current


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats()
        | st.text(max_size=5)
        | st.binary(max_size=5),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=12,
    ),
    st.sampled_from(ParameterSet.__struct_fields__),
)
def test_no_value_makes_it_raise(example: Make, value: Any, field: str) -> None:
    """A well-formed push with anything at all in one field is answered."""
    message = plain(example())
    message["parameters"][field] = value
    intake = Intake()
    ack = intake.consider(pack(message), 0.0)
    orders = intake.in_force(0.0)
    assert ack.accepted == (orders is not None)
    assert orders is None or orders.parameters.problem() is None
