"""What outlives the process: whole, private, and never in the way."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from wactl.controller.learned import Kept, Learned, Origin, snapshot
from wactl.controller.loop import Loop
from wactl.controller.rules import REST, Rule
from wactl.controller.settings import Mode, Settings
from wactl.controller.state import (
    LARGEST,
    LAYOUT,
    MAGIC,
    Stamped,
    State,
    StateError,
    decode,
    encode,
    replace_file,
    state_folder,
)

WHERE = "ipc:///run/wactl/engine-0.records"
FILE = "engine-0.state"


@pytest.fixture
def learned() -> Learned:
    """What a loop has after some requests and with a few counts made up."""
    loop = Loop(Settings(), (Rule(REST),), 1000, 0)
    rng = np.random.default_rng(7)
    cells = loop.learner.cells
    cells.table["key"][::3] = rng.integers(1, 2**63, len(cells.table["key"][::3]), np.uint64)
    cells.events[::3] = rng.random(cells.events[::3].shape)
    return snapshot(loop, Origin("engine", 16, 0), None, 7.0).pack()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def full(folder: Path, learned: Learned) -> Path:
    """A folder with a file for an engine, written at second 1000 of the wall clock."""
    state = State(folder)
    assert state.save({WHERE: Kept(lambda: learned, at=50.0)}, now=60.0, wall=1010.0)
    state.close()
    assert state.problem == ""
    return folder


def test_what_is_saved_is_loaded(full: Path, learned: Learned) -> None:
    """As old as the wall clock says; a process has a clock of its own."""
    state = State(full)
    kept = state.load(WHERE, now=5.0, wall=1100.0)
    state.close()
    assert kept is not None
    assert kept.pack() == learned
    assert kept.at == 5.0 - 100.0


def test_a_wall_clock_put_back_makes_nothing_younger_than_now(full: Path) -> None:
    """Written in what is now the future, it is taken for new."""
    state = State(full)
    kept = state.load(WHERE, now=5.0, wall=-1e9)
    state.close()
    assert kept is not None
    assert kept.at == 5.0


def test_nobody_else_can_read_it(full: Path) -> None:
    """The folder is 0700 and its files 0600, whatever the umask; nothing else is left there."""
    assert full.stat().st_mode & 0o777 == 0o700
    assert (full / FILE).stat().st_mode & 0o777 == 0o600
    assert {path.name for path in full.iterdir()} == {FILE, "sidecar.lock"}


def half(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def flipped(raw: bytes) -> bytes:
    return raw[:-1000] + bytes([raw[-1000] ^ 1]) + raw[-999:]


def of_another_layout(raw: bytes) -> bytes:
    return raw.replace(LAYOUT, b"\x00\x01\x02\x03", 1)


def older(raw: bytes) -> bytes:
    return raw.replace(MAGIC, b"wactl state 0\n", 1)


def other_contents(raw: bytes) -> bytes:
    return encode(msgspec.structs.replace(decode(raw), wall="noon"))  # type: ignore[arg-type]  # on purpose


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda raw: b"", "is not a file of wactl's state"),
    "foreign": (lambda raw: b"PK\x03\x04" + raw, "is not a file of wactl's state"),
    "older": (older, "counts otherwise"),
    "another layout": (of_another_layout, "counts otherwise"),
    "half written": (half, "damaged or only half written"),
    "only its head": (lambda raw: raw[:20], "damaged or only half written"),
    "a flipped bit": (flipped, "damaged or only half written"),
    "other contents": (other_contents, "does not hold what it should"),
    "huge": (lambda raw: raw + bytes(LARGEST), "more than wactl ever writes"),
}


@pytest.mark.parametrize(("spoil", "words"), BROKEN.values(), ids=BROKEN)
def test_a_file_of_no_use_is_set_aside_with_one_sentence(
    spoil: Callable[[bytes], bytes], words: str, full: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is there for whoever wants to look, and the next save works."""
    raw = spoil((full / FILE).read_bytes())
    (full / FILE).write_bytes(raw)
    state = State(full)
    with caplog.at_level(logging.WARNING, "wactl"):
        assert state.load(WHERE, 0.0, 0.0) is None
    state.close()
    assert len(caplog.messages) == 1
    assert words in caplog.messages[0] and str(full / FILE) in caplog.messages[0]
    assert caplog.messages[0].endswith(f"it is now {FILE}.broken, and learning starts anew")
    assert not (full / FILE).exists()
    assert (full / f"{FILE}.broken").read_bytes() == raw


def test_a_pipe_or_a_link_in_its_place_is_not_waited_for(full: Path) -> None:
    """Neither holds the sidecar up nor is followed."""
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (full / FILE).unlink(missing_ok=True)
        make(full / FILE)
        state = State(full)
        assert state.load(WHERE, 0.0, 0.0) is None
        state.close()


def test_a_disk_that_is_full_leaves_what_was_there(
    full: Path, learned: Learned, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, not at each save; when there is room again that is said too, and it is kept."""
    before = (full / FILE).read_bytes()
    state = State(full)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        with caplog.at_level(logging.WARNING, "wactl"):
            for _ in range(3):
                state.save({WHERE: Kept(lambda: learned, 0.0)}, 0.0, 0.0)
                state.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (
        caplog.messages
        == [state.problem]
        == [f"not kept: cannot write into {full}: File too large"]
    )
    assert (full / FILE).read_bytes() == before
    assert {path.name for path in full.iterdir()} == {FILE, "sidecar.lock"}
    state.save({WHERE: Kept(lambda: learned, 0.0)}, 0.0, 5.0)
    state.close()
    assert state.problem == ""
    assert decode((full / FILE).read_bytes()).wall == 5.0


def test_a_slow_disk_holds_nobody_up(folder: Path, learned: Learned) -> None:
    """While a write is under way the next one is left out."""
    state, go, begun = State(folder), threading.Event(), threading.Event()

    def slow() -> Learned:
        begun.set()
        go.wait()
        return learned

    assert state.save({WHERE: Kept(slow, 0.0)}, 0.0, 1.0)
    begun.wait()
    assert not state.save({WHERE: Kept(lambda: learned, 0.0)}, 0.0, 2.0)
    go.set()
    state.close()
    assert decode((folder / FILE).read_bytes()).wall == 1.0


@pytest.mark.parametrize("moment", range(3))
def test_a_kill_while_writing_leaves_the_old_or_the_new(full: Path, moment: int) -> None:
    """A process that does nothing but save is killed at a random moment; what is there is whole."""
    code = (
        "import sys; from pathlib import Path; from wactl.controller.state import replace_file\n"
        "path = Path(sys.argv[1]); raw = path.read_bytes(); print(flush=True)\n"
        "while True: replace_file(path, raw)"
    )
    with subprocess.Popen([sys.executable, "-c", code, full / FILE], stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(0.01 * (moment + 1) * (1 + moment / 7))
        process.kill()
    decode((full / FILE).read_bytes())
    replace_file(full / FILE, b"anew")  # what the killed one left half written is in nobody's way
    assert {path.name for path in full.iterdir()} == {FILE, "sidecar.lock"}


def test_two_sidecars_do_not_share_a_folder(full: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second one runs too, says so, and neither reads nor writes."""
    first, second = State(full), State(full)
    assert second.problem == (
        f"nothing is kept: another sidecar keeps its own in {full}; set state_dir"
    )
    assert second.load(WHERE, 0.0, 0.0) is None
    second.remember(Mode.ENFORCE, Mode.SHADOW)
    second.close()
    assert first.mode(Mode.SHADOW) is None
    assert first.load(WHERE, 0.0, 0.0) is not None
    first.close()


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    """The sidecar runs without."""
    (tmp_path / "file").write_text("")
    state = State(tmp_path / "file" / "kept")
    assert state.problem.startswith("nothing is kept: cannot use ")
    assert state.problem.endswith("Not a directory; set state_dir")
    state.remember(Mode.ENFORCE, Mode.SHADOW)
    assert state.mode(Mode.SHADOW) is None
    state.close()


def test_the_mode_asked_for_holds_until_the_settings_say_something_else(folder: Path) -> None:
    """The last word counts: an edit of the settings is one."""
    state = State(folder)
    assert state.mode(Mode.SHADOW) is None
    state.remember(Mode.ENFORCE, settings=Mode.SHADOW)
    assert state.mode(Mode.SHADOW) is Mode.ENFORCE
    assert state.mode(Mode.OBSERVE) is None
    state.close()


@pytest.mark.parametrize("text", ["", "enforce", '{"mode": "yolo", "settings": "shadow"}', "\xff"])
def test_a_mode_of_no_use_is_set_aside(
    folder: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In one sentence, and the settings count."""
    folder.mkdir()
    (folder / "mode").write_text(text, encoding="latin-1")
    state = State(folder)
    with caplog.at_level(logging.WARNING, "wactl"):
        assert state.mode(Mode.SHADOW) is None
    state.close()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("mode.broken, and the mode is that of the settings")
    assert (folder / "mode.broken").exists()


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The settings' folder, systemd's, or the user's with one for each run folder."""
    run_dir = Path("/run/user/7/wactl")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/wactl:/var/lib/more")
    assert state_folder(Path("/x"), run_dir) == Path("/x")
    assert state_folder(None, run_dir) == Path("/var/lib/wactl")
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert state_folder(None, run_dir) == Path("/s/wactl/run-user-7-wactl")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert state_folder(None, run_dir) == Path("/home/me/.local/state/wactl/run-user-7-wactl")


def test_engines_over_a_network_have_a_file_by_their_address(
    folder: Path, learned: Learned
) -> None:
    """So the order of the list in the settings may change."""
    state = State(folder)
    state.save({"tcp://10.0.0.5:5700": Kept(lambda: learned, 0.0)}, 0.0, 0.0)
    state.close()
    assert (folder / "tcp-10.0.0.5-5700.state").exists()


def test_nonsense_is_no_state() -> None:
    """Whatever the bytes, there is one kind of error."""
    rng = np.random.default_rng(7)
    for size in (0, 1, 17, 50, 4000):
        for head in (b"", MAGIC, MAGIC + LAYOUT):
            with pytest.raises(StateError):
                decode(head + rng.bytes(size))


def test_all_that_is_learned_survives_the_file(learned: Learned) -> None:
    """Floats without a number and minus infinity included."""
    assert decode(encode(Stamped(1.5, learned))) == Stamped(1.5, learned)
