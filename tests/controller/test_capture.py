"""The core of a capture, on a clock of its own: files, limits, gaps, restarts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from wactl.controller.capture import Capture, Limits
from wactl.controller.parts import CaptureError
from wactl.policies.features import FEATURES
from wactl.policies.messages import WIRE, Admission, EngineState, Finish, Heartbeat, Records

STATE = EngineState(
    **{name: 0 for name in EngineState.__struct_fields__}
    | {"version": "0.32.0", "order": "lru", "reason": "", "cached": ()}
    | {"block_tokens": 16, "blocks": 1001}
)
KEYS = np.random.default_rng(1).integers(1, 2**63, 100_000, dtype=np.uint64)


def admission(time: float, blocks: int = 3, **changed: Any) -> Admission:
    keys = KEYS[:blocks].tobytes()
    places = np.arange(blocks, dtype=np.uint64).tobytes()
    fields = {"carried": 0, "hits": blocks // 2, "replay": False, "unread": False}
    fields["number"] = 0
    features = (1.0,) * len(FEATURES)
    return Admission(
        time=time,
        features=features,
        blocks=blocks,
        keys=keys,
        positions=places,
        **(fields | changed),
    )


class Engine:
    """Numbers its messages as a channel does."""

    def __init__(self, name: str = "e1", **state: Any) -> None:
        self.name = name
        self.numbers = itertools.count()
        self.requests = itertools.count()
        self.state = msgspec.structs.replace(STATE, **state)

    def beat(self, **state: Any) -> Heartbeat:
        self.state = msgspec.structs.replace(self.state, **state)
        return Heartbeat(WIRE, self.name, next(self.numbers), 0.0, self.state)

    def admit(self, *admissions: Admission) -> Records:
        """They finish at once, with ten times as many tokens as they have blocks."""
        found = [
            one if one.replay else msgspec.structs.replace(one, number=next(self.requests))
            for one in admissions
        ]
        ends = (Finish(one.time, one.number, 10 * one.blocks) for one in found if not one.replay)
        return self.records(*found, finishes=tuple(ends))

    def records(self, *admissions: Admission, finishes: tuple[Finish, ...] = ()) -> Records:
        return Records(WIRE, self.name, next(self.numbers), admissions, finishes)


def rows(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    if path.name.endswith(".zst"):
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    return [json.loads(line) for line in raw.splitlines()]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Callable[..., Capture]]:
    """Makes captures that are asked for at time 0; those that go on are ended after the test."""
    made: list[Capture] = []

    def make(name: str = "out.jsonl", **limits: Any) -> Capture:
        made.append(Capture(tmp_path / name, Limits(**limits), 0.0))
        return made[-1]

    yield make
    for one in made:
        one.end("interrupted")


@pytest.fixture
def begun(new: Callable[..., Capture]) -> Callable[..., tuple[Capture, Engine]]:
    """Makes captures that have heard the first heartbeat of their engine."""

    def start(name: str = "out.jsonl", **limits: Any) -> tuple[Capture, Engine]:
        capture, engine = new(name, **limits), Engine()
        capture.take(engine.beat(), 0.0)
        return capture, engine

    return start


def test_a_file_begins_and_ends_with_what_it_is(begun: Any, tmp_path: Path) -> None:
    """The header is the engine's, and the last line counts the requests."""
    capture, engine = begun()
    capture.take(engine.admit(admission(5.0), admission(5.5, unread=True)), 1.0)
    capture.end("interrupted")
    head, one, two, end = rows(tmp_path / "out.jsonl")
    assert {key: head[key] for key in ("wactl_capture", "block_tokens", "sample", "blocks")} == {
        **{"wactl_capture": 1, "block_tokens": 16, "sample": 1, "blocks": 1001}
    }
    assert len(head["capture"]) == 16
    assert (one["t"], two["t"], one["b"]) == (0.0, 0.5, two["b"])
    assert (one["out"], two["out"]) == (30, 30)
    assert end == {"end": "interrupted", "requests": 2}
    summary = capture.summary()
    assert summary.unfinished == 0
    # A prompt that does not read the cache neither hits nor misses.
    assert (summary.requests, summary.blocks, summary.hits) == (2, 3, 1)


def test_records_before_the_first_heartbeat_are_left_out(new: Any, tmp_path: Path) -> None:
    """Without one nobody knows the size of a block; nothing is written, not even a file."""
    capture, engine = new(), Engine()
    capture.take(engine.admit(admission(1.0)), 0.1)
    assert list(tmp_path.iterdir()) == []
    capture.take(engine.beat(), 0.2)
    capture.take(engine.admit(admission(2.0)), 0.3)
    assert capture.summary().requests == 1
    assert capture.summary().lost_messages == 0


def test_an_engine_that_says_nothing(new: Any) -> None:
    """After ten seconds that is an error, before it is not; once heard it may be silent."""
    capture, engine = new(), Engine()
    capture.step(10.0)
    with pytest.raises(CaptureError, match="has said nothing for 10 s; is its process alive"):
        capture.step(10.5)
    capture.take(engine.beat(), 10.5)
    capture.step(500.0)
    assert not capture.ended


def test_a_request_is_written_when_those_before_it_have_ended(begun: Any, tmp_path: Path) -> None:
    """With its output tokens, in the order of admissions; those that still run come at the end."""
    capture, engine = begun()
    path = tmp_path / "out.jsonl"
    asked = [admission(float(n), n + 1, number=n) for n in range(4)]

    def written() -> list[tuple[int, int]]:
        capture.step(capture.summary().seconds + 1.0)
        return [(row["n"], row["out"]) for row in rows(path) if "b" in row]

    capture.take(engine.records(*asked[:3]), 0.0)
    assert written() == []
    capture.take(engine.records(asked[3], finishes=(Finish(4.0, 1, 11), Finish(4.0, 7, 9))), 0.0)
    assert written() == []
    capture.take(engine.records(finishes=(Finish(5.0, 0, 5),)), 0.0)
    assert written() == [(1, 5), (2, 11)]
    assert capture.summary().requests == 2
    capture.end("interrupted")
    assert [(row["n"], row["out"]) for row in rows(path) if "b" in row] == [
        *((1, 5), (2, 11), (3, 0), (4, 0))
    ]
    assert (capture.summary().requests, capture.summary().unfinished) == (4, 2)


def test_who_waits_when_the_engine_restarts_is_written_down(begun: Any, tmp_path: Path) -> None:
    """In the file of its own engine, and no request of the next one is taken for it."""
    capture, engine = begun()
    capture.take(engine.records(admission(1.0, number=0)), 0.0)
    other = Engine("e2")
    capture.take(other.beat(), 1.0)
    capture.take(other.records(admission(1.0, number=0), finishes=(Finish(2.0, 0, 8),)), 1.0)
    capture.end("interrupted")
    first, second = rows(tmp_path / "out.jsonl"), rows(tmp_path / "out.2.jsonl")
    assert [row["out"] for row in (first[1], second[1])] == [0, 8]
    assert (first[-1]["end"], len(first), len(second)) == ("restarted", 3, 3)


def test_who_waits_may_not_fit_any_more(begun: Any, tmp_path: Path) -> None:
    """At the end, interrupted or restarted, the size holds as ever."""
    for number, last in enumerate((Engine("e2").beat(), None)):
        capture, engine = begun(f"{number}.jsonl", size=10_000)
        waiting = (admission(float(n), 100, number=n) for n in range(50))
        capture.take(engine.records(*waiting), 0.0)
        if last is None:
            capture.end("interrupted")
        else:
            capture.take(last, 1.0)
        assert capture.ended == "megabytes"
        found = rows(tmp_path / f"{number}.jsonl")
        assert found[-1] == {"end": "megabytes", "requests": len(found) - 2}
        assert 0 < capture.summary().requests == len(found) - 2 < 50


def test_gaps_are_noted_where_they_are(begun: Any, tmp_path: Path) -> None:
    """Messages lost on the way by their numbers, records the engine dropped by its count."""
    capture, engine = begun()
    capture.take(engine.beat(dropped=4), 0.0)
    capture.take(engine.admit(admission(1.0)), 0.0)
    engine.admit(), engine.admit()
    capture.take(engine.admit(admission(3.0)), 0.0)
    capture.take(engine.beat(dropped=6), 0.0)
    capture.end("interrupted")
    _, dropped, one, lost, two, more, _ = rows(tmp_path / "out.jsonl")
    assert (dropped["gap"], dropped["dropped"]) == (0, 4)
    assert lost == {"gap": 2, "dropped": 0, "t": one["t"]}
    assert more == {"gap": 0, "dropped": 2, "t": two["t"]}
    assert (capture.summary().lost_messages, capture.summary().dropped_records) == (2, 6)


def test_what_was_dropped_before_is_not_missing(new: Any) -> None:
    """An engine that has run for long has its past, which is none of the capture's."""
    capture, engine = new(), Engine(dropped=1000)
    engine.numbers = itertools.count(5000)
    capture.take(engine.beat(), 0.0)
    capture.take(engine.beat(), 0.5)
    assert (capture.summary().lost_messages, capture.summary().dropped_records) == (0, 0)


def test_a_preempted_request_is_one(begun: Any, tmp_path: Path) -> None:
    """It hits what it left behind itself, which is no reuse; it is counted, not written."""
    capture, engine = begun()
    capture.take(engine.admit(admission(1.0), admission(2.0, replay=True)), 0.0)
    capture.end("interrupted")
    assert len(rows(tmp_path / "out.jsonl")) == 3
    assert (capture.summary().requests, capture.summary().preempted) == (1, 1)


def test_a_restarted_engine_gets_a_file_of_its_own(begun: Any, tmp_path: Path) -> None:
    """Its cache is empty and its numbers begin anew: other ids, no gap, time that goes on."""
    capture, engine = begun()
    capture.take(engine.admit(admission(50.0), admission(52.5)), 0.0)
    other = Engine("e2", blocks=5000, shift=1)
    capture.take(other.beat(), 1.0)
    capture.take(other.admit(admission(1.0), admission(2.0)), 1.0)
    capture.end("interrupted")
    first, second = rows(tmp_path / "out.jsonl"), rows(tmp_path / "out.2.jsonl")
    assert first[-1] == {"end": "restarted", "requests": 2}
    assert [row["t"] for row in second[1:-1]] == [2.5, 3.5]
    assert (second[0]["sample"], second[0]["blocks"], second[0]["engine"]) == (2, 5000, 2)
    assert second[0]["capture"] == first[0]["capture"]
    assert not set(first[1]["b"]) & set(second[1]["b"])
    assert (capture.summary().engines, capture.summary().lost_messages) == (2, 0)


def test_lines_are_on_disk_within_a_second(begun: Any, tmp_path: Path) -> None:
    """A step flushes what has waited a second, and not more often."""
    capture, engine = begun()
    path = tmp_path / "out.jsonl"
    capture.take(engine.admit(admission(1.0)), 0.1)
    capture.step(0.9)
    assert len(rows(path)) == 1
    capture.step(1.0)
    assert len(rows(path)) == 2
    capture.take(engine.admit(admission(2.0)), 1.1)
    capture.step(1.9)
    assert len(rows(path)) == 2
    capture.step(2.1)
    assert len(rows(path)) == 3


def test_time_is_up(new: Any, tmp_path: Path) -> None:
    """It counts from the first heartbeat; nothing is taken in after the end."""
    capture, engine = new(seconds=5.0), Engine()
    capture.step(4.0)
    capture.take(engine.beat(), 4.0)
    capture.step(8.9)
    assert capture.ended == ""
    capture.step(9.0)
    assert (capture.ended, capture.summary().seconds) == ("seconds", 5.0)
    capture.take(engine.admit(admission(1.0)), 9.0)
    assert rows(tmp_path / "out.jsonl")[-1] == {"end": "seconds", "requests": 0}


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.zst"])
@given(blocks=st.lists(st.integers(0, 400), min_size=60, max_size=60), size=st.integers(9, 60))
def test_it_ends_before_it_is_too_big(
    tmp_path_factory: pytest.TempPathFactory, name: str, blocks: list[int], size: int
) -> None:
    """The size on disk is never passed, and what fits is there with a last line."""
    path = tmp_path_factory.mktemp("capture") / name
    capture, engine = Capture(path, Limits(size=1000 * size), 0.0), Engine()
    capture.take(engine.beat(), 0.0)
    for number, count in enumerate(blocks):
        capture.take(engine.admit(admission(float(number), count)), 0.0)
        capture.step(float(number))
    full = capture.ended
    capture.end("interrupted")
    found = rows(path)
    assert path.stat().st_size <= 1000 * size
    assert [len(row["b"]) for row in found[1:-1]] == blocks[: len(found) - 2]
    assert found[-1] == {"end": full or "interrupted", "requests": len(found) - 2}
    assert full == ("" if len(found) - 2 == len(blocks) else "megabytes")
    if full and name.endswith("jsonl"):  # the next one would not have fitted
        assert path.stat().st_size + 17 * blocks[len(found) - 2] + 1200 > 1000 * size


def test_the_oldest_file_gives_way(begun: Any, tmp_path: Path) -> None:
    """With several files it goes on, never above its size, and keeps the newest requests."""
    capture, engine = begun("out.jsonl.zst", size=40_000, files=4)
    for number in range(300):
        keys = np.random.default_rng(number).integers(1, 2**63, 100, dtype=np.uint64).tobytes()
        one = msgspec.structs.replace(admission(float(number), 100), keys=keys)
        capture.take(engine.admit(one), 0.0)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 40_000
    capture.end("interrupted")
    summary = capture.summary()
    names = [Path(file.path).name for file in summary.files]
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 4
    assert names[-1] == f"out.{summary.removed + 4}.jsonl.zst"
    found = [rows(tmp_path / name) for name in names]
    assert [part[-1]["end"] for part in found] == ["rotated"] * 3 + ["interrupted"]
    times = [row["t"] for part in found for row in part[1:-1]]
    assert times == [float(number) for number in range(300)][-len(times) :]
    assert 25 < len(times) < 45
    assert summary.requests == 300
    assert [file.requests for file in summary.files] == [len(part) - 2 for part in found]


def test_the_summary_tells_the_size_on_disk(begun: Any, tmp_path: Path) -> None:
    """Of each file, to the byte."""
    capture, engine = begun("out.jsonl.zst")
    capture.take(engine.admit(admission(1.0, 500)), 0.0)
    capture.end("interrupted")
    (file,) = capture.summary().files
    assert file.bytes == Path(file.path).stat().st_size > 500
