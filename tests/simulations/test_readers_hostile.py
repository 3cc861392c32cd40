"""Readers: whatever a file holds, it is read or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wactl.simulations.readers import TraceError, load_trace

NUMBERS = st.one_of(
    st.integers(-3, 40), st.sampled_from([2**31, 2**53, 2**63, 2**64, 2**70]), st.floats()
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = (
    *("timestamp", "input_length", "output_length", "hash_ids", "hash_id_runs", "block_size"),
    *("type", "turn", "session_id", "chat_id", "parent_chat_id", "wactl_capture", "block_tokens"),
    *("t", "in", "out", "b", "session", "n", "gap", "dropped", "end", "sample", "capture"),
)
SOUND = st.fixed_dictionaries(
    {"timestamp": st.floats(0, 1e6), "hash_ids": st.lists(st.integers(0, 2**64 - 1), max_size=4)}
)
CAPTURED = st.fixed_dictionaries(
    {name: st.integers(0, 9) for name in ("t", "in", "out")} | {"b": st.lists(st.integers(0, 9))}
)
BROKEN = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
MIXED = st.tuples(SOUND | CAPTURED, BROKEN).map(lambda parts: parts[0] | parts[1])
HEADER = st.sampled_from(
    [
        {"wactl_capture": 1, "block_tokens": 16},
        {"wactl_capture": 1, "block_tokens": 16, "capture": "a", "sample": 4},
    ]
)
ROWS = st.lists(st.one_of(HEADER, SOUND, CAPTURED, MIXED, BROKEN, VALUES), max_size=6)
QUICK = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refused(path: Path, skip_bad: bool) -> None:
    try:
        trace = load_trace(str(path), skip_bad=skip_bad)
    except TraceError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)
        return
    assert trace.requests > 0
    assert trace.times[0] == 0
    assert (trace.times[1:] >= trace.times[:-1]).all()
    assert trace.offsets[-1] == len(trace.blocks)
    assert set(trace.blocks.tolist()) == set(range(trace.distinct))
    assert len(trace.input_tokens) == len(trace.output_tokens) == trace.requests
    assert trace.input_tokens.min() >= 0
    assert trace.accesses >= len(trace.blocks)


@pytest.mark.filterwarnings("error")
@given(rows=ROWS, skip_bad=st.booleans())
@QUICK
def test_lines_of_json(tmp_path: Path, rows: list[Any], skip_bad: bool) -> None:
    """Random records give a sound trace or a `TraceError`."""
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read_or_refused(path, skip_bad)


@given(
    head=st.sampled_from([b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"{", b"\xef\xbb\xbf{"]),
    rest=st.binary(max_size=100),
    skip_bad=st.booleans(),
)
@QUICK
def test_bytes(tmp_path: Path, head: bytes, rest: bytes, skip_bad: bool) -> None:
    """So do random bytes, even behind the beginning of a known format."""
    path = tmp_path / "t"
    path.write_bytes(head + rest)
    read_or_refused(path, skip_bad)
