"""`wactl bench replay`: what it prints, and that both LRUs do the same work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from wactl.simulations.bench import replay, yardstick
from wactl.simulations.bench.errors import BenchError
from wactl.simulations.readers import load_trace
from wactl.simulations.workload import generate, trace_of

CAPACITY = 40


def bench(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    code = f"{before}\nfrom wactl.__main__ import main\nmain()"
    command = [sys.executable, "-c", code, "bench", "replay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Five conversations that grow and begin anew, Mooncake format."""
    path = tmp_path / "mine.jsonl"
    rows = [
        {
            "timestamp": 1000 * turn,
            "input_length": 1,
            "output_length": 1,
            "hash_ids": [100 * (turn % 5) + i for i in range(turn % 17 + 1)],
        }
        for turn in range(300)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def misses_of(path: Path, capacity: int) -> int:
    """Those of the textbook's LRU over single accesses."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for block in load_trace(str(path)).blocks.tolist():
        misses += block not in cache
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return misses


def test_the_json(path: Path) -> None:
    """Seconds and accesses a second of each, nanoseconds an access beside libCacheSim."""
    done = bench(str(path), "--capacity", str(CAPACITY), "--repeats", "3", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == [
        *("trace", "requests", "accesses", "distinct", "capacity", "repeats"),
        *("paces", "libcachesim"),
    ]
    trace = load_trace(str(path))
    assert (found["trace"], found["requests"], found["repeats"]) == ("mine", 300, 3)
    assert (found["accesses"], found["distinct"]) == (len(trace.blocks), trace.distinct)
    assert [pace["what"] for pace in found["paces"]] == ["load", *replay.POLICIES]
    for pace in found["paces"]:
        assert pace["seconds"] > 0.0
        assert pace["accesses_per_second"] * pace["seconds"] == pytest.approx(found["accesses"])
    compared = found["libcachesim"]
    assert compared["misses"] == misses_of(path, CAPACITY)
    assert compared["ns_per_access"] > 0.0 and compared["libcachesim_ns_per_access"] > 0.0
    assert 0.0 < compared["ratio_low"] <= compared["ratio"] <= compared["ratio_high"]


def test_the_tables(path: Path) -> None:
    """A row for each, and the ratio."""
    done = bench(str(path), "--capacity", str(CAPACITY), "--repeats", "1")
    assert done.returncode == 0, done.stderr
    for text in ("mine, a cache of 40 blocks", "load", *replay.POLICIES, "libCacheSim's", "ratio"):
        assert text in done.stdout


def test_without_libcachesim_it_says_so(path: Path) -> None:
    """All the rest is measured."""
    hidden = "import sys; sys.modules['libcachesim'] = None"
    done = bench(str(path), "--repeats", "1", before=hidden)
    assert done.returncode == 0, done.stderr
    assert "mixture" in done.stdout and "ratio" not in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "not compared with libCacheSim, which is not installed: pip install libcachesim"
    )


def test_standard_input_is_refused() -> None:
    """It can be read but once."""
    done = bench("-")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        "wactl: bench replay reads the trace more than once: name a file instead of -\n"
    )


def test_the_made_up_workload_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that ships, as it is generated."""
    monkeypatch.setattr(replay, "MINUTES", 3.0)
    with replay.trace_file(None) as name:
        read = load_trace(name)
    assert not Path(name).exists()
    made = trace_of(generate(3.0, traffic=replay.TRAFFIC), "workload")
    assert read.name == made.name and read.block_tokens == made.block_tokens
    for column in ("offsets", "blocks", "input_tokens", "output_tokens"):
        assert np.array_equal(getattr(read, column), getattr(made, column))
    assert np.allclose(read.times, made.times)


def test_other_misses_are_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the two have not done the same."""
    trace = load_trace(str(path))
    misses, accesses = misses_of(path, CAPACITY), len(trace.blocks)
    assert yardstick.measure(trace, CAPACITY, 1).misses == misses
    monkeypatch.setattr(yardstick, "_theirs", lambda *_: (1.0, (misses + 1) / accesses))
    with pytest.raises(BenchError, match=f"misses {misses} of .* libcachesim {misses + 1}: "):
        yardstick.measure(trace, CAPACITY, 1)


def test_a_full_disk_is_one_sentence(path: Path) -> None:
    """The records may take hundreds of megabytes; Linux has a device that is always full."""
    with pytest.raises(BenchError, match=r"/dev/full: cannot be written: .*; set TMPDIR"):
        yardstick._write(load_trace(str(path)), Path("/dev/full"))
