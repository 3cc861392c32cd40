"""What is published installs and works without this checkout, and puts one name on the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command that must succeed, run where this checkout is out of sight."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WACTL"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the files that git tracks or would."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps")
    run(*pip, "--wheel-dir", folder / "dist", folder / "source", cwd=folder)
    (built,) = (folder / "dist").iterdir()
    return built


def test_the_wheel_holds_one_package_and_its_files(wheel: Path) -> None:
    """Nothing but wactl is at the top, its settings are inside, and no test is."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        points = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"wactl"}
    assert len(tops) == 2
    settings = {"config/wactl.yaml", "config/rules.yaml", "policies/py.typed", "__main__.py"}
    page = {f"controller/page/{name}" for name in ("index.html", "style.css", "script.js")}
    for name in settings | page:
        assert f"wactl/{name}" in names
    parts = {part for name in names for part in name.split("/")}
    assert not {part for part in parts if part == "tests" or part.startswith(("test_", "conftest"))}
    assert any(name.endswith("LICENSE") for name in names)
    assert "[vllm.general_plugins]\nwactl = wactl.policies.vllm:register" in points


def test_it_works_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment with its dependencies alone, the command runs and finds its files."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    programs = tmp_path / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert "rules" in run(programs / "wactl", "--help", cwd=tmp_path)
    checked = run(programs / "wactl", "rules", "check", cwd=tmp_path)
    assert "no mistakes" in checked
    where = "import wactl; print(wactl.__file__)"
    assert str(tmp_path) in run(programs / "python", "-c", where, cwd=tmp_path)
    # The sidecar's own modules, without vLLM.
    loads = (
        "import sys, wactl.controller.daemon, wactl.simulations.workload; "
        "print('vllm' in sys.modules)"
    )
    assert run(programs / "python", "-c", loads, cwd=tmp_path) == "False\n"
