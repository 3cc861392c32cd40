"""Files of a capture: private, never overwritten, readable whatever happens to the writer."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from wactl.controller.parts import BUFFER, CaptureError, Part, part_names


def contents(path: Path) -> bytes:
    """What a decoder makes of the file, whole or not."""
    raw = path.read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(raw) if raw else b""


def test_names_are_numbered_before_the_ending(tmp_path: Path) -> None:
    """The second file of a.b.jsonl.zst is a.b.2.jsonl.zst."""
    for name, second in (("a.b.jsonl.zst", "a.b.2.jsonl.zst"), ("a.jsonl", "a.2.jsonl")):
        found = list(itertools.islice(part_names(tmp_path / name), 2))
        assert found == [tmp_path / name, tmp_path / second]


@pytest.mark.parametrize("name", ["a", "a.zst", "a.jsonl.gz", "a.json"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    """What it must be called is said."""
    with pytest.raises(CaptureError, match=r"must be called \*\.jsonl\.zst or \*\.jsonl"):
        part_names(tmp_path / name)


@pytest.mark.parametrize("there", ["a.jsonl", "a.3.jsonl"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    """Neither the first file nor one that would come later; others do not matter."""
    for name in ("a.jsonl.zst", "a.x.jsonl", "ab.2.jsonl"):
        (tmp_path / name).touch()
    assert next(part_names(tmp_path / "a.jsonl")) == tmp_path / "a.jsonl"
    (tmp_path / there).touch()
    with pytest.raises(CaptureError, match=f"{there} exists already"):
        part_names(tmp_path / "a.jsonl")
    with pytest.raises(CaptureError, match="exists already; name another file"):
        Part(tmp_path / there)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The reason is the system's."""
    with pytest.raises(CaptureError, match="cannot be created: No such file or directory"):
        Part(tmp_path / "none" / "a.jsonl")


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
def test_a_file_is_for_its_user_alone(tmp_path: Path, ending: str) -> None:
    """Whatever the umask says."""
    part = Part(tmp_path / f"a{ending}")
    part.close()
    assert (tmp_path / f"a{ending}").stat().st_mode & 0o777 == 0o600


def test_flushed_lines_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    """After each flush a decoder gets every line so far, and the size is that on disk."""
    path = tmp_path / "a.jsonl.zst"
    part = Part(path)
    lines = b""
    for number in range(300):
        line = b'{"number": %d}\n' % number
        part.add(line)
        assert contents(path) == lines
        assert part.largest >= path.stat().st_size
        part.flush()
        lines += line
        assert contents(path) == lines
        assert part.size == path.stat().st_size
    part.close()
    assert zstandard.ZstdDecompressor().decompress(path.read_bytes(), len(lines)) == lines


def test_repeated_prompts_take_next_to_no_room(tmp_path: Path) -> None:
    """Also when a flush lies between them."""
    part = Part(tmp_path / "a.jsonl.zst")
    line = b",".join(b"%d" % (number * 7919**4 % 2**53) for number in range(2000)) + b"\n"
    for _ in range(50):
        part.add(line)
        part.flush()
    part.close()
    assert part.size < 2 * len(line)


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """Nobody has to flush for the memory's sake."""
    part = Part(tmp_path / "a.jsonl")
    for _ in range(40):
        part.add(b"x" * (BUFFER // 10))
        assert part.largest - part.size < BUFFER
    part.close()
    assert part.size == 40 * (BUFFER // 10)


FULL = """
import resource, sys
from pathlib import Path
from wactl.controller.parts import CaptureError, Part

resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
part = Part(Path(sys.argv[1]))
try:
    for number in range(100_000):
        part.add(b"%d\\n" % (number * 7919**4 % 2**53))
        if number % 100 == 99:
            part.flush()
except CaptureError as error:
    print(error)
"""


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
def test_a_full_disk_costs_only_what_did_not_fit(tmp_path: Path, ending: str) -> None:
    """A short write and then an error of the system: one sentence, whole lines on disk."""
    limit = 100_001
    path = tmp_path / f"a{ending}"
    code = FULL.format(limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    size = path.stat().st_size
    assert done.stdout == (
        f"{path}: cannot be written: File too large; "
        f"the {size} bytes written before are kept and can be replayed\n"
    )
    assert limit - 4000 < size < limit
    data = contents(path) if ending.endswith("zst") else path.read_bytes()
    numbers = [int(line) for line in data.splitlines()]
    assert data.endswith(b"\n")
    assert len(numbers) % 100 == 0
    assert numbers == [number * 7919**4 % 2**53 for number in range(len(numbers))]
