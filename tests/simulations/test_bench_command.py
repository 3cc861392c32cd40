"""`wactl bench` as typed: tables, JSON, and one sentence for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "wactl", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Seven conversations that begin anew and again, Mooncake format."""
    path = tmp_path / "mine.jsonl"
    rows = []
    for turn in range(1700):
        hash_ids = [100 * (turn % 7) + i for i in range(turn % 11)] + [10_000 + turn]
        lengths = {"input_length": 16 * len(hash_ids), "output_length": 40}
        rows.append({"timestamp": 1000 * turn, "hash_ids": hash_ids, **lengths})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_evictors_json(trace: Path) -> None:
    """Cells by cache size and categories, requests, memory, and the warm-up."""
    options = ("--blocks", "64", "--categories", "0,2", "--repeats", "2", "--trace", str(trace))
    done = bench("evictor", *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"warm_up_seconds", "cells", "requests", "memory"}
    assert [(c["blocks"], c["categories"]) for c in found["cells"]] == [(64, 0), (64, 2)]
    for cell in found["cells"]:
        assert cell["trace"] == "mine" and cell["repeats"] == 2
        assert cell["ratio_low"] <= cell["ratio"] <= cell["ratio_high"]
        assert set(cell["ours"]) == set(cell["stock"]) >= {"us_per_evicted", "p999_us", "worst_us"}
    assert [r["prompt_tokens"] for r in found["requests"]] == [4096, 4096, 131_072]
    assert [m["cache_blocks"] for m in found["memory"]] == [64]


def test_a_trace_that_ends_too_early_is_refused(trace: Path) -> None:
    """One sentence says which and what to do."""
    done = bench("evictor", "--blocks", "100000", "--categories", "0", "--trace", str(trace))
    assert done.returncode == 1 and done.stdout == ""
    assert "mine is too short for a cache of 100000 blocks" in done.stderr
    assert "name smaller caches with --blocks" in done.stderr


@pytest.mark.engine
def test_the_engines_json() -> None:
    """Two real engines took turns, answered alike, and wactl's parameters were in force."""
    done = bench("engine", "--rounds", "4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    steps, off = found["steps"], found["off"]
    assert steps["rounds"] == 4 and steps["steps"] >= 4 * 32 and steps["evicted"] > 0
    assert steps["ratio_low"] <= steps["ratio"] <= steps["ratio_high"]
    assert off["import_ms"] > 0.0 and off["modules"] <= 5


def test_the_controllers_table() -> None:
    """Loop and process."""
    done = bench("controller", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    for text in ("fed as fast as it takes it", "100 admissions/s", "100000", "4096", "resident"):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--blocks", "many"), "--blocks 'many': needs whole numbers from 2, like 1000,10000"),
        (("--blocks", "1"), "--blocks '1': needs whole numbers from 2"),
        (("--categories", "-1"), "--categories '-1': needs whole numbers from 0"),
        (("--blocks", "300", "--categories", "65"), "65 categories; there can be from 1 to 64"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    """Nothing on the output, no traceback."""
    done = bench("evictor", *arguments)
    assert done.returncode == 1 and done.stdout == ""
    assert sentence in done.stderr and "Traceback" not in done.stderr
