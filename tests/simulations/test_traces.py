"""Trace files: both formats, plain or compressed, and every broken file named in a sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from wactl.simulations.traces import Prompt, TraceError, read_trace

MOONCAKE = [
    {"timestamp": 3000, "input_length": 900, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 4500, "input_length": 1400, "output_length": 7, "hash_ids": [0, 1, 2]},
]
BAILIAN = [
    {"chat_id": 1, "timestamp": 3.0, "input_length": 30, "output_length": 5, "hash_ids": [7, 8]},
    {"chat_id": 2, "timestamp": 61.5, "input_length": 16, "output_length": 1, "hash_ids": [9]},
]


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def written(path: Path, contents: str | bytes) -> Path:
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return path


def test_mooncake_counts_milliseconds(tmp_path: Path) -> None:
    """Times are seconds since the first request, the rest as in the file."""
    path = written(tmp_path / "t.jsonl", lines(*MOONCAKE))
    assert read_trace(path) == [Prompt(0.0, (0, 1), 900, 5), Prompt(1.5, (0, 1, 2), 1400, 7)]


def test_bailian_counts_seconds(tmp_path: Path) -> None:
    """A file with chat ids has its times in seconds; blocks are numbered as they come."""
    path = written(tmp_path / "t.jsonl", lines(*BAILIAN))
    assert read_trace(path) == [Prompt(0.0, (0, 1), 30, 5), Prompt(58.5, (2,), 16, 1)]


@pytest.mark.parametrize("extra", [{"chat_id": "a"}, {"session_id": "s"}, {"block_size": 64}])
def test_what_tells_that_times_are_seconds(tmp_path: Path, extra: dict[str, Any]) -> None:
    """A chat id, a session id or a block size is in none of Mooncake's own files."""
    rows = [{"timestamp": time, "hash_ids": [1], **extra} for time in (0, 2)]
    assert read_trace(written(tmp_path / "t.jsonl", lines(*rows)))[1].time == 2.0


def test_runs_stand_for_all_their_blocks(tmp_path: Path) -> None:
    """Inclusive ranges are written out; one that ends before it begins holds nothing."""
    row = {"timestamp": 0, "hash_id_runs": [[3, 5], [9, 9], [8, 7]]}
    (prompt,) = read_trace(written(tmp_path / "t.jsonl", lines(row)))
    assert prompt.blocks == (0, 1, 2, 3)


def test_compressed_files_read_alike(tmp_path: Path) -> None:
    """A gzipped trace gives what the plain one gives."""
    plain = written(tmp_path / "t.jsonl", lines(*MOONCAKE))
    packed = written(tmp_path / "t.jsonl.gz", gzip.compress(plain.read_bytes()))
    assert read_trace(packed) == read_trace(plain)


def test_an_unsorted_file_is_sorted_and_a_limit_kept(tmp_path: Path) -> None:
    """Prompts come in time order, those of one time as in the file, empty lines ignored."""
    rows = [
        {"timestamp": t, "input_length": n, "hash_ids": [n]}
        for n, t in enumerate((5000, 1000, 5000, 3000))
    ]
    path = written(tmp_path / "t.jsonl", "\n" + lines(*rows).replace("\n", "\n\n"))
    prompts = read_trace(path)
    assert [prompt.input_length for prompt in prompts] == [1, 3, 0, 2]
    assert [prompt.time for prompt in prompts] == [0.0, 2.0, 4.0, 4.0]
    assert len(read_trace(path, 2)) == 2


@pytest.mark.parametrize(
    "broken",
    [
        "{",
        "[]",
        "null",
        '{"hash_ids": [1]}',
        '{"timestamp": "soon", "hash_ids": [1]}',
        '{"timestamp": 1, "hash_ids": ["a"]}',
        '{"timestamp": 1, "hash_ids": 5}',
        '{"timestamp": 1, "hash_id_runs": [[1, 2, 3]]}',
        '{"timestamp": 1, "hash_id_runs": [[0, 1000000000000]]}',
        '{"timestamp": 1, "extra": ' + "[" * 100_000,
        b'{"timestamp": 1, "chat_id": "\xff"}',
        b"\x00\x01",
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, broken: str | bytes) -> None:
    """The message begins with file and line, and is one sentence."""
    good = lines(MOONCAKE[0]).encode()
    bad = broken if isinstance(broken, bytes) else broken.encode()
    path = written(tmp_path / "t.jsonl", good + bad + b"\n" + good)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500
    assert len(read_trace(path, 1)) == 1


@pytest.mark.parametrize("contents", [b"", b"\n\n  \n"])
def test_a_file_without_requests(tmp_path: Path, contents: bytes) -> None:
    """It says so instead of replaying nothing."""
    path = written(tmp_path / "t.jsonl", contents)
    with pytest.raises(TraceError, match="holds no requests"):
        read_trace(path)


def damaged(packed: bytes) -> dict[str, bytes]:
    middle = len(packed) // 2
    return {
        "cut short": packed[:middle],
        "no gzip": b"plain text\n",
        "garbage inside": packed[:middle] + b"\xff" * 40 + packed[middle + 40 :],
        "a wrong checksum": packed[:-8] + b"\x00" * 8,
    }


@pytest.mark.parametrize("how", ["cut short", "no gzip", "garbage inside", "a wrong checksum"])
def test_a_damaged_archive(tmp_path: Path, how: str) -> None:
    """Truncated or corrupted, a compressed file ends in a sentence that names it."""
    rows = [{"timestamp": n, "hash_ids": [n * 7919 % 1009, n]} for n in range(2000)]
    packed = gzip.compress(lines(*rows).encode())
    path = written(tmp_path / "t.jsonl.gz", damaged(packed)[how])
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value).startswith(f"{path}")
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(TraceError, match=r"none\.jsonl: cannot be read: No such file"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)
