"""Who waits for the end of a request: in order, and within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.controller import waiting
from wactl.controller.waiting import Gap, Waiting
from wactl.policies.features import FEATURES
from wactl.policies.messages import WIRE, Admission, EngineState, Finish, Heartbeat, Records

STATE = EngineState(
    **{name: 0 for name in EngineState.__struct_fields__}
    | {"version": "0.32.0", "order": "lru", "reason": "", "cached": ()}
)


def admission(
    number: int, time: float = 0.0, key_bytes: int = 0, replay: bool = False
) -> Admission:
    features, keys = (0.0,) * len(FEATURES), bytes(key_bytes)
    return Admission(time, features, key_bytes // 8, 0, 0, replay, False, keys, keys, number)


def records(*admissions: Admission, finishes: tuple[Finish, ...] = ()) -> Records:
    return Records(WIRE, "e", 0, admissions, finishes)


def left(line: Waiting, *, everybody: bool = False) -> list[tuple[int, int | None]]:
    """Numbers and output tokens of those that leave; a gap's number is below 0."""
    return [
        (-place.what.lost if isinstance(place.what, Gap) else place.what.number, place.generated)
        for place in line.leave(everybody=everybody)
    ]


@given(st.permutations(range(8)), st.integers(0, 7))
def test_they_leave_in_the_order_they_came(ends: list[int], gap: int) -> None:
    """Whoever ends first; a gap keeps its place among them."""
    line = Waiting()
    came = [*range(gap), -9, *range(gap, 8)]
    for number in came:
        if number < 0:
            line.miss(Gap(9, 0))
        else:
            line.hear(records(admission(number)))
    seen: list[tuple[int, int | None]] = []
    for count, number in enumerate(ends):
        line.hear(records(finishes=(Finish(1.0, number, 10 * number),)))
        seen += left(line)
        ended = {*ends[: count + 1], -9}
        first = next((i for i, one in enumerate(came) if one not in ended), len(came))
        assert [one for one, _ in seen] == came[:first]
    assert seen == [(number, max(0, 10 * number)) for number in came]


def test_a_preempted_request_keeps_its_place() -> None:
    """It comes back under its number, and ends once."""
    line = Waiting()
    line.hear(records(admission(0), admission(1), admission(0, 5.0, replay=True)))
    line.hear(records(finishes=(Finish(6.0, 1, 11), Finish(7.0, 0, 10), Finish(8.0, 0, 99))))
    assert left(line) == [(0, 10), (1, 11)]


def test_no_request_waits_for_ever() -> None:
    """After ten minutes of the engine's clock it leaves as it is; its end comes too late then."""
    line = Waiting()
    line.hear(records(admission(0, 100.0), admission(1, 101.0)))
    line.hear(Heartbeat(WIRE, "e", 1, 700.0, STATE))
    assert left(line) == []
    line.hear(Heartbeat(WIRE, "e", 2, 700.5, STATE))
    line.hear(Heartbeat(WIRE, "e", 3, 3.0, STATE))
    assert left(line) == [(0, None)]
    line.hear(records(finishes=(Finish(701.0, 0, 5), Finish(701.0, 1, 6))))
    assert left(line) == [(1, 6)]


@pytest.mark.parametrize(("bound", "value", "room"), [("REQUESTS", 3, 3), ("BYTES", 100, 3)])
def test_no_more_wait_than_there_is_room(
    monkeypatch: pytest.MonkeyPatch, bound: str, value: int, room: int
) -> None:
    """The first gives way, in number as in bytes; who has ended behind it leaves with it."""
    monkeypatch.setattr(waiting, bound, value)
    line = Waiting()
    for number in range(room):
        line.hear(records(admission(number, 0.0, 16)))
        assert left(line) == []
    line.hear(records(admission(room, 0.0, 16), finishes=(Finish(1.0, 1, 7),)))
    assert left(line) == [(0, None), (1, 7)]
    assert left(line) == []
    assert left(line, everybody=True) == [(2, None), (3, None)]
    assert line._running == {} and line._bytes == 0
