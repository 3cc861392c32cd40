"""The units: accepted by systemd, tightly confined, and the engine independent of the sidecar."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

UNITS = ("vllm.service", "wactl.service")
SHARED = ("RuntimeDirectory", "RuntimeDirectoryMode", "RuntimeDirectoryPreserve", "User", "Group")


def test_systemd_accepts_them(deploy: Path, tool: Callable[..., Any], tmp_path: Path) -> None:
    """No complaint at all, with programs that are there in place of those in /opt/vllm."""
    for name in UNITS:
        text = (deploy / "systemd" / name).read_text()
        assert "ExecStart=/opt/vllm/bin/" in text
        (tmp_path / name).write_text(text.replace("/opt/vllm", sys.prefix))
    done = tool("systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in UNITS))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("name", "most"), [("wactl.service", 15), ("vllm.service", 40)])
def test_they_are_confined(
    deploy: Path, tool: Callable[..., Any], tmp_path: Path, name: str, most: int
) -> None:
    """systemd's own measure of exposure, in tenths, stays below a limit; 96 is no confinement."""
    unit = tmp_path / name  # by its full path: `security` looks up a bare name in the system
    unit.write_text((deploy / "systemd" / name).read_text())
    measure = ("systemd-analyze", "security", "--offline=true", "--no-pager")
    done = tool(*measure, f"--threshold={most}", unit)
    assert done.returncode == 0, done.stdout
    assert f"Overall exposure level for {name}" in done.stdout


def test_the_engine_needs_no_sidecar(unit: Callable[[str], Any]) -> None:
    """It wants the sidecar, and no order or stronger bond ties either to the other."""
    engine, sidecar = (unit(name)["Unit"] for name in UNITS)
    assert "wactl.service" in engine["Wants"][0].split()
    for section, other in ((engine, "wactl"), (sidecar, "vllm")):
        bound = {key for key, values in section.items() if f"{other}.service" in " ".join(values)}
        assert bound <= {"Wants"}, bound


def test_the_sidecar_always_returns(unit: Callable[[str], Any]) -> None:
    """However it ended and however often, systemd starts it again."""
    sidecar = unit("wactl.service")
    assert sidecar["Service"]["Restart"] == ["always"]
    assert sidecar["Unit"]["StartLimitIntervalSec"] == ["0"]


def test_the_folder_is_shared_and_outlives_both(unit: Callable[[str], Any]) -> None:
    """Whoever stops first must not take the other's sockets along."""
    engine, sidecar = (unit(name)["Service"] for name in UNITS)
    assert {key: engine[key] for key in SHARED} == {key: sidecar[key] for key in SHARED}
    assert engine["RuntimeDirectoryMode"] == ["0700"]
    assert engine["RuntimeDirectoryPreserve"] == ["yes"]
    place = f"WACTL_RUN_DIR=%t/{engine['RuntimeDirectory'][0]}"
    assert place in engine["Environment"] and place in sidecar["Environment"]


def test_the_user_is_made(
    deploy: Path, tool: Callable[..., Any], unit: Callable[[str], Any], tmp_path: Path
) -> None:
    """sysusers understands the file, and the user's home is the folder the engine may write to."""
    source = deploy / "systemd" / "vllm.sysusers"
    (tmp_path / "etc").mkdir()
    done = tool("systemd-sysusers", f"--root={tmp_path}", source)
    assert done.returncode == 0, done.stderr
    users = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
    (home,) = (user[5] for user in users if user[0] == "vllm")
    service = unit("vllm.service")["Service"]
    assert service["User"] == ["vllm"]
    assert home == f"/var/lib/{service['StateDirectory'][0]}"


def test_the_sidecar_keeps_out_of_the_engines_home(unit: Callable[[str], Any]) -> None:
    """They share a user, but not the token for the model hub; nor code compiled by the other."""
    service = unit("wactl.service")["Service"]
    assert service["InaccessiblePaths"] == ["-/var/lib/vllm"]
    assert f"NUMBA_CACHE_DIR=%C/{service['CacheDirectory'][0]}" in service["Environment"]
