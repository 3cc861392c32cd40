"""The Dockerfile: clean, built of what it is given, and importing only what vLLM brings."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def context(deploy: Path, tmp_path: Path) -> Path:
    """The folder that Docker builds from: what the .dockerignore leaves of the tracked files."""
    ignore = (deploy / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    kept = [rule.replace("!", ":(glob)", 1) for rule in rules if rule.startswith("!")]
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
    names = subprocess.check_output([*listing, *kept], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and "__pycache__" not in name:
            (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / "context" / name)
    return tmp_path / "context"


def test_hadolint_finds_nothing(deploy: Path, tool: Callable[..., Any]) -> None:
    """Nothing, down to matters of style."""
    done = tool("hadolint", "--failure-threshold", "style", deploy / "Dockerfile")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_context_makes_the_whole_wheel(context: Path, tmp_path: Path) -> None:
    """With what Docker sees, pip builds a wheel of every module and no deployment file."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, tmp_path / "wheel", "."], cwd=context, check=True)
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = {name.removeprefix("wactl/") for name in archive.namelist()}
    folders = ("config", "controller", "policies", "simulations")
    wanted = {str(path.relative_to(ROOT)) for top in folders for path in (ROOT / top).rglob("*.py")}
    wanted -= {"config/grafana/dashboard.py"}  # like the file it writes, for a checkout
    assert wanted <= names
    assert {"config/wactl.yaml", "config/rules.yaml", "__main__.py"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any("deploy" in name or "grafana" in name for name in names)


def test_the_engine_image_needs_only_what_vllm_brings(deploy: Path) -> None:
    """The import that ends its build needs four libraries and none of the sidecar's others."""
    lines = (deploy / "Dockerfile").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RUN python3 -c "))
    absent = ("pydantic", "prometheus_client", "river", "scipy", "typer", "vllm", "yaml")
    hidden = f"import sys; sys.modules.update(dict.fromkeys({absent}))"  # None: cannot be imported
    code = f"{hidden}; {shlex.split(line)[3]}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert {"msgspec", "zmq", "numpy", "numba"} <= set(loaded)


def test_all_containers_run_as_the_images_user(deploy: Path, documents: Any) -> None:
    """One user, not root, by number, so that Kubernetes can tell."""
    lines = (deploy / "Dockerfile").read_text().splitlines()
    users = [line.removeprefix("USER ") for line in lines if line.startswith("USER ")]
    users += [service["user"] for service in documents("compose.yaml")[0]["services"].values()]
    pod = documents("kubernetes.yaml")[1]["spec"]["template"]["spec"]["securityContext"]
    assert users == [f"{pod['runAsUser']}:{pod['runAsGroup']}"] * 4
    assert pod["runAsUser"] > 0
