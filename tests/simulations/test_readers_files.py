"""Readers: packed files, pipes, and the sentence each broken file ends in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from wactl.simulations.readers import TraceError, load_trace

ROWS = [{"timestamp": n, "input_length": n, "hash_ids": [n * 7919 % 1009]} for n in range(2000)]
PLAIN = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PACKED = {"plain": PLAIN, "gzip": gzip.compress(PLAIN), "zstd": zstandard.compress(PLAIN)}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], str]:
    """Writes a file whose name says nothing of its format."""

    def write(contents: bytes) -> str:
        path = tmp_path / "trace"
        path.write_bytes(contents)
        return str(path)

    return write


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Puts bytes on standard input."""

    def put(contents: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(contents)))

    return put


@pytest.mark.parametrize("packing", PACKED)
def test_packed_files_and_pipes(
    file: Callable[[bytes], str], pipe: Callable[[bytes], None], packing: str
) -> None:
    """However it comes, the trace is the same, and its digest that of the unpacked bytes."""
    pipe(PACKED[packing])
    for path, name in ((file(PACKED[packing]), "trace"), ("-", "stdin")):
        trace = load_trace(path)
        assert (trace.name, trace.requests, trace.distinct) == (name, 2000, 1009)
        assert trace.digest == hashlib.sha256(PLAIN).hexdigest()


def test_names_lose_their_endings(tmp_path: Path) -> None:
    """A trace is called like its file, without the format and the packing."""
    for ending in (".jsonl", ".jsonl.gz", ".jsonl.zst"):
        path = tmp_path / f"chat.a{ending}"
        path.write_bytes(PLAIN)
        assert load_trace(str(path)).name == "chat.a"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_concatenated_packed_files(
    file: Callable[[bytes], str], pack: Callable[[bytes], bytes]
) -> None:
    """Several packed files in one read as one, wherever they were cut."""
    cut = len(PLAIN) // 2
    assert load_trace(file(pack(PLAIN[:cut]) + pack(PLAIN[cut:]))).requests == 2000


def test_progress(file: Callable[[bytes], str], pipe: Callable[[bytes], None]) -> None:
    """It ends at the size of the file, as packed; of a pipe nobody knows the size."""
    seen: list[tuple[int, int]] = []
    load_trace(file(PACKED["gzip"]), progress=lambda done, total: seen.append((done, total)))
    pipe(PLAIN)
    load_trace("-", progress=lambda done, total: seen.append((done, total)))
    size = len(PACKED["gzip"])
    assert seen == [(size, size), (len(PLAIN), 0)]


def test_a_limit(file: Callable[[bytes], str]) -> None:
    """Only the first requests are read, and only their bytes hashed."""
    trace = load_trace(file(PLAIN + b"broken"), limit=2)
    first = b"".join(PLAIN.splitlines(keepends=True)[:2])
    assert (trace.requests, trace.digest) == (2, hashlib.sha256(first).hexdigest())


def test_requests_out_of_order(
    file: Callable[[bytes], str], caplog: pytest.LogCaptureFixture
) -> None:
    """They are sorted, those of one time as in the file, with one warning that names it."""
    rows = [
        {"timestamp": time, "input_length": n, "hash_ids": [n] * n, "type": str(n), "turn": n}
        for n, time in enumerate((5000, 1000, 5000, 3000))
    ]
    path = file("".join(json.dumps(row) + "\n\n" for row in rows).encode())
    with caplog.at_level(logging.WARNING, "wactl"):
        trace = load_trace(path)
    assert trace.times.tolist() == [0.0, 2.0, 4.0, 4.0]
    assert trace.input_tokens.tolist() == [1, 3, 0, 2]
    assert trace.types == ["1", "3", "0", "2"]
    assert [len(trace.prompt(request)) for request in range(4)] == [1, 3, 0, 2]
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: requests are not in time order and were sorted"
    ]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"hash_ids": [1]}', "missing required field `timestamp`"),
        ('{"timestamp": 1}', "has neither hash_ids nor hash_id_runs"),
        ('{"timestamp": 1, "hash_ids": 5}', "Expected `array | null`, got `int`"),
        ('{"timestamp": 1, "hash_ids": [-1]}', "has a block id outside 0 to 2^64 - 1"),
        ('{"timestamp": 1, "hash_ids": [1.5]}', "Expected `int`, got `float`"),
        ('{"timestamp": 1, "hash_id_runs": [[0, 10000000]]}', "has more than 10000000 blocks"),
        (
            '{"timestamp": 1, "hash_id_runs": [[0, 18446744073709551615]]}',
            "has more than 10000000 blocks",
        ),
        ('{"timestamp": 1, "hash_id_runs": [[1, 9000000], [1, 9000000]]}', "has more than"),
        ('{"timestamp": 1, "hash_ids": [1], "input_length": -5}', "Expected `int` >= 0"),
        ('{"timestamp": 1, "hash_ids": [1], "output_length": 2147483648}', "Expected `int` <="),
        ('{"timestamp": NaN, "hash_ids": [1]}', "malformed"),
        ('{"timestamp": 1e400, "hash_ids": [1]}', "out of range"),
        ('{"timestamp": 1e300, "hash_ids": [1]}', "Expected `float` <="),
        ('{"timestamp": -1, "hash_ids": [1]}', "Expected `float` >= 0"),
        ('{"timestamp": 1, "hash_ids": [1], "block_size": 7}', "has block_size 7, others 512"),
    ],
)
def test_a_broken_line(file: Callable[[bytes], str], broken: str, reason: str) -> None:
    """It is named with file, number and reason; to skip it counts it and goes on."""
    good = b'{"timestamp": 0, "hash_ids": [1]}\n'
    path = file(good + broken.encode() + b"\n" + good)
    with pytest.raises(TraceError) as error:
        load_trace(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert reason in str(error.value)
    trace = load_trace(path, skip_bad=True)
    assert (trace.requests, trace.skipped) == (2, 1)


def test_a_broken_beginning(file: Callable[[bytes], str]) -> None:
    """Skipped, it does not decide what the file is."""
    good = b'{"timestamp": 1.5, "hash_ids": [1], "block_size": 16}\n'
    path = file(b'sh_ids": [1]}\n{"hash_ids": [1], "block_size": -3}\n' + good + good)
    trace = load_trace(path, skip_bad=True)
    assert (trace.requests, trace.skipped, trace.block_tokens) == (2, 2, 16)


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_damaged_packed_files(file: Callable[[bytes], str], packing: str) -> None:
    """Cut short or overwritten, a packed file says that it is damaged."""
    packed = PACKED[packing]
    middle = len(packed) // 2
    with pytest.raises(TraceError, match="cannot be read: the compressed data ends too early"):
        load_trace(file(packed[:middle]))
    with pytest.raises(TraceError):
        load_trace(file(packed[:middle] + b"\xff" * 40 + packed[middle + 40 :]))


@pytest.mark.parametrize("contents", [b"", b"\n \n", gzip.compress(b"")])
def test_a_file_without_requests(file: Callable[[bytes], str], contents: bytes) -> None:
    """It says so."""
    with pytest.raises(TraceError, match=r"trace: holds no requests$"):
        load_trace(file(contents))


@pytest.mark.parametrize("contents", [b"\x00\x01" * 99, bytes(range(255, 0, -1)), b"a,b\n1,2\n"])
def test_something_else(file: Callable[[bytes], str], contents: bytes) -> None:
    """A file of another format is called that."""
    path = file(contents)
    with pytest.raises(TraceError, match="trace:1: is not a Mooncake, Bailian or wactl record"):
        load_trace(path)
    with pytest.raises(TraceError, match=r"trace: holds no requests, only broken lines \("):
        load_trace(path, skip_bad=True)


def test_a_line_without_end(file: Callable[[bytes], str]) -> None:
    """It is given up at a bound, so that no file fills the memory."""
    with pytest.raises(TraceError, match="trace:1: is longer than 67108864 bytes"):
        load_trace(file(zstandard.compress(b"{" * (1 << 27))))


def test_no_file(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(TraceError, match=r"none\.jsonl: cannot be read: No such file"):
        load_trace(str(tmp_path / "none.jsonl"))
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        load_trace(str(tmp_path))
