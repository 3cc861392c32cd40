"""The run directory belongs to one user, and each name in it to one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wactl.policies.rundir import (
    LONGEST_SOCKET,
    RunDirError,
    claim,
    control_endpoint,
    default_run_dir,
    engine_ranks,
    private_dir,
    records_endpoint,
)


def test_it_makes_a_folder_for_this_user_alone(run_dir: Path) -> None:
    """A missing folder is made with its parents, and an existing private one is taken."""
    path = run_dir / "a" / "b"
    assert private_dir(path) == path
    assert path.stat().st_mode & 0o777 == 0o700
    assert private_dir(path) == path


@pytest.mark.parametrize("mode", [0o770, 0o750, 0o740, 0o710, 0o707, 0o701, 0o777])
def test_a_folder_open_to_others_is_refused(run_dir: Path, mode: int) -> None:
    """Any right for group or others is one too many, and the text says how to take it away."""
    path = run_dir / "open"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(RunDirError, match=f"open to other users; run: chmod 700 '{path}'"):
        private_dir(path)
    assert path.stat().st_mode & 0o777 == mode


def test_links_and_files_are_refused(run_dir: Path) -> None:
    """A symbolic link, to a good folder or to nothing, and a plain file are no private folder."""
    good, link, dangling, file = (run_dir / name for name in ("good", "link", "dangling", "file"))
    good.mkdir(mode=0o700)
    link.symlink_to(good)
    dangling.symlink_to(run_dir / "nothing")
    file.write_text("")
    with pytest.raises(RunDirError, match="is not a folder of this user"):
        private_dir(link)
    for path in (dangling, file, file / "below"):
        with pytest.raises(RunDirError, match=rf"cannot use {path}.*WACTL_RUN_DIR"):
            private_dir(path)
    assert not (run_dir / "nothing").exists()


def test_a_path_too_long_for_a_socket_is_refused(run_dir: Path) -> None:
    """The longest path that passes has room for every socket's name, counted in bytes."""
    room = LONGEST_SOCKET - len("/engine-9999.records") - len(str(run_dir)) - 1
    longest = private_dir(run_dir / ("x" * room))
    for endpoint in (records_endpoint(longest, 9999), control_endpoint(longest, 9999)):
        assert len(endpoint.removeprefix("ipc://")) <= LONGEST_SOCKET
    for name in ("x" * (room + 1), "é" * (room // 2 + 1)):
        with pytest.raises(RunDirError, match=r"too long.*WACTL_RUN_DIR"):
            private_dir(run_dir / name)
        assert not (run_dir / name).exists()


def test_a_name_is_claimed_once(run_dir: Path) -> None:
    """While one holds a name nobody else gets it, in this process or another."""
    held = claim(run_dir, "engine-0")
    with pytest.raises(RunDirError, match=f"another engine already uses {run_dir}"):
        claim(run_dir, "engine-0")
    code = f"""
from pathlib import Path
from wactl.policies.rundir import claim
claim(Path({str(run_dir)!r}), "engine-1")
claim(Path({str(run_dir)!r}), "engine-0")
"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert other.returncode == 1
    assert "RunDirError: another engine already uses" in other.stderr
    # The other process is gone, and with it its claim.
    claim(run_dir, "engine-1").close()
    held.close()
    claim(run_dir, "engine-0").close()


def test_the_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's choice comes first, then the session's folder, then one in /tmp."""
    monkeypatch.setenv("WACTL_RUN_DIR", "/run/mine")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert default_run_dir() == Path("/run/mine")
    monkeypatch.delenv("WACTL_RUN_DIR")
    assert default_run_dir() == Path("/run/user/1/wactl")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_run_dir().parent == Path("/tmp")


def test_engines_are_found_by_their_sockets(run_dir: Path) -> None:
    """Ranks come in order; what only looks like a socket of an engine is left out."""
    assert engine_ranks(run_dir) == []
    for rank in (10, 0, 2):
        (run_dir / f"engine-{rank}.records").touch()
    for name in ("engine-3.control", "engine-x.records", "engine-.records", "engine--1.records"):
        (run_dir / name).touch()
    assert engine_ranks(run_dir) == [0, 2, 10]
