"""`wactl replay` as typed: tables, JSON, pictures, and one sentence for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KEYS = {
    *("trace", "policy", "capacity", "requests", "blocks", "hit_blocks", "hit_ratio"),
    *("evictions", "orphans", "seconds"),
}


def wactl(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    command = [sys.executable, "-m", "wactl", "replay", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=300)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A conversation of 50 turns among single requests, Mooncake format."""
    path = tmp_path / "small.jsonl"
    rows = []
    for turn in range(50):
        single = [1000 + 3 * turn + i for i in range(3)]
        rows.append({"timestamp": 2000 * turn, "hash_ids": list(range(turn + 2))})
        rows.append({"timestamp": 2000 * turn + 500, "hash_ids": single})
    lengths = {"input_length": 99, "output_length": 1}
    text = "".join(json.dumps({**row, **lengths}) + "\n" for row in rows)
    path.write_text(text)
    return path


def test_json_holds_every_cell(trace: Path) -> None:
    """A list of objects, sorted by trace, capacity and policy as asked."""
    done = wactl(str(trace), "--policy", "lru,adaptive", "--capacity", "20,50%", "--json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)
    assert [(c["capacity"], c["policy"]) for c in cells] == [
        *((20, "lru"), (20, "adaptive"), (100, "lru"), (100, "adaptive"))
    ]
    assert all(set(cell) >= KEYS and cell["trace"] == "small" for cell in cells)
    assert all(c["hit_ratio"] == c["hit_blocks"] / c["blocks"] for c in cells)


def test_the_table_and_a_picture(trace: Path, tmp_path: Path) -> None:
    """A row a policy; PNG and SVG by name."""
    for name, magic in (("out.png", b"\x89PNG"), ("out.svg", b"<?xml")):
        picture = tmp_path / name
        done = wactl(
            str(trace), "--policy", "lru,belady", "--capacity", "20,40", "--plot", str(picture)
        )
        assert done.returncode == 0, done.stderr
        assert b"belady" in done.stdout and b"small: 100 requests" in done.stdout
        assert picture.read_bytes().startswith(magic)


def test_standard_input_and_a_limit(trace: Path) -> None:
    """`-` reads what is piped in, `--limit` stops early."""
    arguments = ("-", "--policy", "lru", "--capacity", "20", "--limit", "10", "--json")
    done = wactl(*arguments, stdin=trace.read_bytes())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["requests"] == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "lur"], "no policy 'lur'"),
        (["--policy", ","], "at least one policy"),
        (["--capacity", "many"], "'many' is neither blocks"),
        (["--capacity", "0"], "less than one block"),
        (["--capacity", "20GiB"], "--bytes-per-token"),
        (["--capacity", ","], "at least one number"),
        (["--plot", "out.pdf"], ".png or .svg"),
    ],
)
def test_a_mistake_is_one_sentence(trace: Path, arguments: list[str], words: str) -> None:
    """What, where, how to put it right; exit code 1, no traceback, nothing on standard output."""
    done = wactl(str(trace), *arguments)
    assert done.returncode == 1 and done.stdout == b""
    message = done.stderr.decode()
    assert words in message and "Traceback" not in message
    assert len([line for line in message.splitlines() if line.strip()]) == 1


def test_a_broken_line_is_named_or_counted(trace: Path) -> None:
    """File and line; with --skip-bad it is left out and counted."""
    with trace.open("a") as file:
        file.write('{"timestamp": 1, "hash_ids": "no"}\n')
    done = wactl(str(trace), "--policy", "lru", "--capacity", "20", "--json")
    assert done.returncode == 1 and b"small.jsonl:101: " in done.stderr
    done = wactl(str(trace), "--policy", "lru", "--capacity", "20", "--json", "--skip-bad")
    assert done.returncode == 0 and b"1 broken lines left out" in done.stderr
    assert json.loads(done.stdout)[0]["requests"] == 100
