"""Writing: what is read back is what was made, bytes repeat, and nothing is left of a failure."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import zstandard
from wactl.simulations.generate import writing
from wactl.simulations.generate.plan import GenerateError, Plan
from wactl.simulations.generate.presets import PRESETS
from wactl.simulations.generate.writing import write
from wactl.simulations.readers import load_trace
from wactl.simulations.trace import Trace

Make = Callable[..., Trace]
NAMES = [name for names in PRESETS.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_what_is_read_is_what_was_made(
    name: str, ending: str, made: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All columns, to the last bit, and without a warning."""
    plan = Plan(seconds=300.0, blocks=100)
    trace = made(name, seconds=300.0, blocks=100)
    path = tmp_path / f"{name}{ending}"
    write(trace, plan, str(path))
    again = load_trace(str(path))
    assert not caplog.records
    for field in fields(Trace):
        ours, theirs = getattr(trace, field.name), getattr(again, field.name)
        if field.name != "digest":  # of the bytes read; nothing was read here
            assert np.array_equal(ours, theirs), field.name


def test_names_choose_the_packing_and_bytes_repeat(made: Make, tmp_path: Path) -> None:
    """Also of packed files, whatever they are called; unpacked, all three are the same."""
    plan, trace = Plan(), made("mixed")
    for name in ("a", "b"):
        for ending in ("", ".gz", ".zst"):
            write(trace, plan, str(tmp_path / (name + ending)))
    for ending in ("", ".gz", ".zst"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    plain = (tmp_path / "a").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == plain
    packed = zstandard.ZstdDecompressor().decompressobj()
    assert packed.decompress((tmp_path / "a.zst").read_bytes()) == plain


def test_ids_are_dense_and_each_follows_one(made: Make, tmp_path: Path) -> None:
    """In the file itself: numbered as they first appear, chained; the header holds the plan."""
    plan, trace = Plan(), made("mixed")
    write(trace, plan, str(tmp_path / "a"))
    head, *rows = map(json.loads, (tmp_path / "a").read_text().splitlines())
    assert head == {
        **{"wactl_capture": 1, "block_tokens": 256, "preset": "mixed"},
        **{"seconds": 3600.0, "rate": 3.0, "blocks": 1000, "seed": 7},
    }
    before: dict[int, int] = {}
    for row in rows:
        assert set(row) == {"t", "in", "out", "b", "type", "turn", "session"}
        for parent, block in zip((-1, *row["b"]), row["b"], strict=False):
            assert before.setdefault(block, parent) == parent
    assert list(before) == list(range(trace.distinct))


def test_nothing_is_overwritten(made: Make, tmp_path: Path) -> None:
    """The file that is there stays as it is."""
    path = tmp_path / "a.zst"
    path.write_text("mine")
    with pytest.raises(GenerateError, match=r"a\.zst exists already; name another file"):
        write(made("flood"), Plan(), str(path))
    assert path.read_text() == "mine"
    with pytest.raises(GenerateError, match="a: cannot be created: No such file or directory"):
        write(made("flood"), Plan(), str(tmp_path / "none" / "a"))


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_of_a_file_that_cannot_be_finished_nothing_is_left(
    ending: str, made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of one that a full disk ends, nor of one that anything else does."""
    lines = writing._lines

    def ends(error: Exception) -> None:
        def some(trace: Trace, plan: Plan) -> Iterator[bytes]:
            yield from list(lines(trace, plan))[:5]
            raise error

        monkeypatch.setattr(writing, "_lines", some)

    path, trace = tmp_path / f"a{ending}", made("flood")
    ends(OSError(28, "No space left on device"))
    with pytest.raises(GenerateError, match="cannot be written: No space left on device"):
        write(trace, Plan(), str(path))
    ends(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        write(trace, Plan(), str(path))
    assert not list(tmp_path.iterdir())
