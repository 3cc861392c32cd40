"""Readers: every format, and the one numbering of blocks that all of them end in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.simulations.readers import TraceError, load_trace
from wactl.simulations.readers.numbering import number
from wactl.simulations.trace import Trace

RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def written(folder: Path, *rows: object) -> str:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def prompts(trace: Trace) -> list[list[int]]:
    return [trace.prompt(request).tolist() for request in range(trace.requests)]


def test_mooncake(tmp_path: Path) -> None:
    """Milliseconds become seconds from 0, blocks have 512 tokens, and nothing is declared."""
    trace = load_trace(
        written(
            tmp_path,
            {"timestamp": 1000, "input_length": 900, "output_length": 5, "hash_ids": [7, 3]},
            {"timestamp": 2500, "input_length": 1400, "output_length": 6, "hash_ids": [7, 3, 5]},
        )
    )
    assert (trace.name, trace.block_tokens, trace.distinct, trace.skipped) == ("t", 512, 3, 0)
    assert trace.times.tolist() == [0.0, 1.5]
    assert prompts(trace) == [[0, 1], [0, 1, 2]]
    assert trace.input_tokens.tolist() == [900, 1400]
    assert trace.output_tokens.tolist() == [5, 6]
    assert trace.types is trace.turns is trace.sessions is None


def bailian(chat: int, parent: int, time: float, ids: list[int]) -> dict[str, Any]:
    return {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": time,
        "input_length": 16 * len(ids),
        "output_length": 9,
        "type": "text",
        "turn": 1 if parent == -1 else 2,
        "hash_ids": ids,
    }


def test_bailian(tmp_path: Path) -> None:
    """Seconds, blocks of 16, types, turns, and the first chat of a conversation as session."""
    rows = bailian(159, -1, 1.0, [4]), bailian(55, 159, 3.0, [4, 6]), bailian(56, 55, 4.0, [4])
    trace = load_trace(written(tmp_path, *rows))
    assert trace.block_tokens == 16
    assert trace.times.tolist() == [0.0, 2.0, 3.0]
    assert trace.types == ["text"] * 3
    assert trace.turns is not None
    assert trace.turns.tolist() == [1, 2, 2]
    assert trace.sessions == ["159"] * 3


def test_bailian_ids_become_specific_to_their_prefix(tmp_path: Path) -> None:
    """One id after two prefixes is two blocks, after the same prefix one."""
    asked = [1, 9], [2, 9], [9], [1, 9, 9], [2, 9]
    rows = [bailian(n, -1, n, ids) for n, ids in enumerate(asked)]
    trace = load_trace(written(tmp_path, *rows))
    assert prompts(trace) == [[0, 1], [2, 3], [4], [0, 1, 5], [2, 3]]
    assert trace.parents().tolist() == [-1, 0, -1, 2, -1, 1]


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=30))
def test_a_number_is_a_prefix(asked: list[list[int]]) -> None:
    """Numbers are dense, and equal exactly where all ids so far are equal."""
    blocks = np.array([block for ids in asked for block in ids], np.uint64)
    offsets = np.cumsum([0, *map(len, asked)])
    numbers, distinct = number(blocks, offsets)
    prefixes = [tuple(ids[: end + 1]) for ids in asked for end in range(len(ids))]
    seen = dict(zip(prefixes, numbers.tolist(), strict=True))
    assert numbers.tolist() == [seen[prefix] for prefix in prefixes]
    assert sorted(seen.values()) == list(range(distinct))


def test_many_numbers() -> None:
    """The table grows and forgets nothing."""
    ids = np.random.default_rng(1).permutation(300_000).astype(np.uint64) * np.uint64(2**44)
    numbers, distinct = number(np.tile(ids, 2), np.arange(0, 600_001, 3))
    assert distinct == 300_000
    assert numbers.tolist() == list(range(300_000)) * 2


def test_runs_equal_the_ids_they_stand_for(tmp_path: Path) -> None:
    """Run-length and expanded records read alike, up to the greatest id there is."""
    top = 2**64 - 1
    asked = [[[1, 3], [top - 1, top]], [[1, 2], [5, 5]], [], [[1, 3], [9, 8], [7, 7]]]
    common = {"session_id": "a", "block_size": 64, "type": "x", "turn": 3}
    runs = [{"timestamp": n, "hash_id_runs": row, **common} for n, row in enumerate(asked)]
    ids = [
        {"timestamp": n, "hash_ids": [i for a, b in row for i in range(a, b + 1)], **common}
        for n, row in enumerate(asked)
    ]
    short, long = load_trace(written(tmp_path, *runs)), load_trace(written(tmp_path, *ids))
    assert prompts(short) == prompts(long) == [[0, 1, 2, 3, 4], [0, 1, 5], [], [0, 1, 2, 6]]
    assert short.times.tolist() == long.times.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (short.block_tokens, short.types, short.sessions) == (64, ["x"] * 4, ["a"] * 4)


def test_capture(tmp_path: Path) -> None:
    """The header gives the block size; what a line leaves out is empty."""
    header = {"wactl_capture": 1, "block_tokens": 32, "model": "m"}
    full = {"t": 5.5, "in": 60, "out": 2, "b": [8, 9], "type": "chat", "turn": 2, "session": "s"}
    trace = load_trace(written(tmp_path, header, {"t": 5.0, "in": 9, "out": 1, "b": [8]}, full))
    assert (trace.block_tokens, trace.times.tolist()) == (32, [0.0, 0.5])
    assert prompts(trace) == [[0], [0, 1]]
    assert (trace.types, trace.sessions) == (["", "chat"], ["", "s"])
    assert trace.turns is not None
    assert trace.turns.tolist() == [0, 2]


def test_a_capture_of_another_version(tmp_path: Path) -> None:
    """A header that this reader does not know is refused."""
    with pytest.raises(TraceError, match=r"t\.jsonl:1: is a capture of version 2, not 1"):
        load_trace(written(tmp_path, {"wactl_capture": 2, "block_tokens": 16}))


@pytest.mark.parametrize("never", [-1, 2**63 - 1])
def test_oracle_general(tmp_path: Path, never: int) -> None:
    """Each record is a request of one block, whether the id was seen before or not."""
    rows = [(10, 2**64 - 1, 4, 3), (10, 5, 4, never), (13, 2**64 - 1, 4, never)]
    path = tmp_path / "w.oracleGeneral"
    path.write_bytes(np.array(rows, RECORD).tobytes())
    trace = load_trace(str(path))
    assert (prompts(trace), trace.times.tolist()) == ([[0], [1], [0]], [0.0, 0.0, 3.0])
    assert trace.input_tokens.tolist() == trace.output_tokens.tolist() == [0, 0, 0]
    assert load_trace(str(path), limit=2).requests == 2


def test_a_record_cut_short(tmp_path: Path) -> None:
    """A binary trace that ends inside a record is broken there."""
    path = tmp_path / "w.oracleGeneral"
    path.write_bytes(np.array([(1, 2, 3, 4)], RECORD).tobytes() + b"\x01\x02")
    with pytest.raises(TraceError, match="oracleGeneral: record 2 is cut short"):
        load_trace(str(path))
    trace = load_trace(str(path), skip_bad=True)
    assert (trace.requests, trace.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("name", "requests", "accesses", "distinct", "block"),
    [
        ("mooncake_conversation", 12_031, 288_500, 182_790, 512),
        ("mooncake_synthetic", 3_993, 121_877, 43_924, 512),
        ("agentic_dev_2h", 9_738, 16_899_154, 698_515, 64),
        ("lmcache_agent", 1_805, 358_278, 75_187, 16),
        ("exgentic_agents", 226, 332_507, 13_717, 16),
    ],
)
def test_shared_traces(
    shared_trace: Callable[[str], Path],
    name: str,
    requests: int,
    accesses: int,
    distinct: int,
    block: int,
) -> None:
    """They hold what their README says."""
    trace = load_trace(str(shared_trace(f"{name}.jsonl.gz")))
    assert trace.name == name
    assert (trace.requests, len(trace.blocks), trace.distinct) == (requests, accesses, distinct)
    assert trace.block_tokens == block
    assert trace.times[0] == 0
    assert np.all(np.diff(trace.times) >= 0)
    assert len(np.unique(trace.blocks)) == distinct
