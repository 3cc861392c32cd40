"""Readers: what `wactl capture` writes besides requests, and files it could not finish."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from wactl.simulations.readers import TraceError, load_trace
from wactl.simulations.trace import Trace

HEAD = {"wactl_capture": 1, "block_tokens": 16, "sample": 1, "capture": "c1", "engine": 1}
END = {"end": "interrupted", "requests": 2}
CUT = "was cut short, or is still being captured; its complete lines are used"

Read = Callable[..., Trace]


def row(time: float, *blocks: int, **more: Any) -> dict[str, Any]:
    return {"t": time, "in": 99, "out": 0, "n": len(blocks), "h": 0, "b": blocks, **more}


def packed(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads bytes as a file."""

    def load(contents: bytes, **options: Any) -> Trace:
        path = tmp_path / "t.jsonl"
        path.write_bytes(contents)
        return load_trace(str(path), **options)

    return load


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The warnings so far, without the name of the file."""
    caplog.set_level(logging.WARNING, "wactl")
    return lambda: [record.getMessage().partition("t.jsonl: ")[2] for record in caplog.records]


def test_a_whole_file_says_nothing(read: Read, said: Callable[[], list[str]]) -> None:
    """Requests only, notes are none; the words of clients that replays do not use are no matter."""
    rows = HEAD, row(0.0, 1, 2, tenant="x"), row(1.5, 1, unread=True), END
    trace = read(packed(*rows))
    assert (trace.requests, trace.block_tokens, trace.sample, trace.unseen) == (2, 16, 1, 0)
    assert said() == []


def test_gaps_are_added_up(read: Read, said: Callable[[], list[str]]) -> None:
    """One warning, whose numbers are those of all gaps."""
    gaps = {"gap": 3, "dropped": 0, "t": 0.0}, {"gap": 2, "dropped": 700, "t": 0.0}
    assert read(packed(HEAD, gaps[0], row(0.0, 1), gaps[1], row(1.0, 2), END)).requests == 2
    assert said() == [
        "lacks 5 messages of the stream and 700 records that were lost while it was captured"
    ]


@pytest.mark.parametrize("tail", [b"", b'{"t":3.0,"in":5,"b":[1', b'{"end"', b"\xff"])
def test_a_torn_end_is_left_out(read: Read, said: Callable[[], list[str]], tail: bytes) -> None:
    """Of a killed capture the complete lines count, and that it was killed is said."""
    trace = read(packed(HEAD, row(0.0, 1), row(1.0, 1)) + tail)
    assert (trace.requests, trace.skipped) == (2, 0)
    assert said() == [CUT]


def test_a_packed_file_may_end_anywhere(read: Read, said: Callable[[], list[str]]) -> None:
    """Behind each flush its lines are there, whatever follows of the next; none is half."""
    packer = zstandard.ZstdCompressor().compressobj()
    raw, flushed = b"", []
    for part in (packed(HEAD), *(packed(row(float(n), n, n + 1)) for n in range(20))):
        raw += packer.compress(part) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        flushed.append(len(raw))
    for size in range(flushed[2], flushed[-1] + 1):
        whole = sum(end <= size for end in flushed) - 1
        assert whole <= read(raw[:size]).requests <= whole + 1
    assert set(said()) == {CUT}


def test_a_broken_line_in_the_middle_is_one(read: Read) -> None:
    """Also in a capture without an end: what is torn has no line break."""
    for broken in (b'{"t":3.0,"in"\n', b'{"t":3.0,"in":1,"out":0}\n', b'{"gap":-1}\n', b"{}\n"):
        with pytest.raises(TraceError, match=r"t\.jsonl:3: "):
            read(packed(HEAD, row(0.0, 1)) + broken + packed(row(1.0, 1)))


def test_a_trace_of_another_origin_must_be_whole(read: Read) -> None:
    """Without a capture's name nothing tells a torn line from a broken one; nor after the end."""
    head = {"wactl_capture": 1, "block_tokens": 16}
    with pytest.raises(TraceError, match=r"t\.jsonl:3: "):
        read(packed(head, row(0.0, 1)) + b'{"t":3.0')
    with pytest.raises(TraceError, match=r"t\.jsonl:4: "):
        read(packed(HEAD, row(0.0, 1), END) + b'{"t":3.0')
    half = zstandard.compress(packed(head, *(row(0.0, n * 7919 % 1009) for n in range(5000))))
    with pytest.raises(TraceError, match="ends too early"):
        read(half[: len(half) // 2])


def test_files_of_one_capture_may_be_joined(read: Read, said: Callable[[], list[str]]) -> None:
    """Header and all; the last one's end is the end."""
    first, second = packed(HEAD, row(0.0, 1, 2), END), packed(HEAD, row(5.0, 1, 2, 3), END)
    trace = read(first + second)
    assert [trace.prompt(n).tolist() for n in range(2)] == [[0, 1], [0, 1, 2]]
    assert said() == []
    read(first + second[: -len(packed(END))])
    assert said() == [CUT]


@pytest.mark.parametrize("change", [{"capture": "c2"}, {"sample": 2}, {"block_tokens": 32}])
def test_others_may_not(read: Read, change: dict[str, Any]) -> None:
    """Of another capture, or of an engine that samples otherwise."""
    with pytest.raises(TraceError, match=r"t\.jsonl:4: begins another capture; replay that"):
        read(packed(HEAD, row(0.0, 1), END, {**HEAD, **change}, row(0.0, 1), END))


def test_a_sample_counts_what_it_lacks(read: Read) -> None:
    """As each line says; where none does, as the rate makes likely."""
    head = {**HEAD, "sample": 4}
    trace = read(packed(head, row(0.0, 1, 2, n=9), row(1.0, n=3), END))
    assert (trace.sample, trace.unseen, trace.accesses) == (4, 10, 12)
    unsaid = {"t": 0.0, "in": 9, "out": 0, "b": [1, 2]}
    assert read(packed(head, unsaid, END)).accesses == 8
    with pytest.raises(TraceError, match="has 2 blocks of 1"):
        read(packed(head, row(0.0, 1, 2, n=1), END))


def test_a_limit_is_no_cut(read: Read, said: Callable[[], list[str]]) -> None:
    """Whoever asks for the first requests only is not told of an end that was not looked for."""
    trace = read(packed({**HEAD, "sample": 2}, row(0.0, 1, n=2), row(1.0, 1)), limit=1)
    assert (trace.requests, trace.sample, trace.accesses) == (1, 2, 2)
    assert said() == []
