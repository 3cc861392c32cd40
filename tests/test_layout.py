"""The folders hold what the design says, and import only what they may."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OUTSIDE = {"tests", "docs", "build", "dist"}
LONGEST = 400

ENGINE_SIDE = {"msgspec", "zmq", "numpy", "numba"}


def modules(folder: str) -> list[Path]:
    """The Python files of one of the packages."""
    found = sorted((ROOT / folder).rglob("*.py"))
    assert found
    return found


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of whatever a module imports, at the top or inside functions."""
    package = ["wactl", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *filter(None, [node.module])])
            yield from ((node.lineno, f"{stem}.{alias.name}") for alias in node.names)


def strays(folder: str, allowed: set[str] | None, forbidden: set[str]) -> list[str]:
    """Imports of a package's modules that break its rules, as file, line and name."""
    found = []
    for path in modules(folder):
        for line, name in imports(path):
            top, *rest = name.split(".")
            part = rest[0] if top == "wactl" and rest else top
            foreign = top != "wactl" and top not in sys.stdlib_module_names
            if part in forbidden or (allowed is not None and foreign and top not in allowed):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    return found


def test_imports_are_understood() -> None:
    """Relative names resolve to absolute ones, so that the rules below see what is meant."""
    names = {name for _, name in imports(ROOT / "controller" / "cli" / "doctor.py")}
    assert {"typing.Annotated", "wactl.policies.vllm.compat.differences"} <= names
    names = {name for _, name in imports(ROOT / "policies" / "vllm" / "agent.py")}
    assert {"wactl.policies.channel.Channel", "wactl.policies.vllm.queue.WactlQueue"} <= names
    assert "vllm" in names


def test_every_package_is_in_the_distribution() -> None:
    """The list in pyproject.toml names each folder with an __init__.py, and no other."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {"wactl"}
    for init in ROOT.rglob("__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts and parts[0] not in OUTSIDE and not any(part.startswith(".") for part in parts):
            found.add(".".join(["wactl", *parts]))
    assert sorted(listed) == sorted(found)


def test_policies_import_only_what_an_engine_has() -> None:
    """The engine's side needs neither sidecar nor laboratory, and of others only four libraries."""
    inside = {"vllm"}
    found = strays("policies", ENGINE_SIDE | inside, {"controller", "simulations"})
    assert found == []


def test_only_the_plugin_imports_vllm() -> None:
    """In policies it is policies/vllm alone; the controller and the laboratory never do."""
    for folder in ("policies", "controller", "simulations"):
        for path in modules(folder):
            if ROOT / "policies" / "vllm" in path.parents:
                continue
            assert [
                f"{path}:{n}" for n, name in imports(path) if name.split(".")[0] == "vllm"
            ] == []


def test_the_controller_does_not_import_the_simulations() -> None:
    """The sidecar runs without the laboratory."""
    assert strays("controller", None, {"simulations"}) == []


@pytest.mark.parametrize("folder", ["policies", "controller", "simulations", "tests"])
def test_files_stay_readable(folder: str) -> None:
    """No file is longer than four hundred lines, and each says what it is for."""
    for path in modules(folder):
        text = path.read_text()
        assert text.count("\n") <= LONGEST, path
        assert ast.get_docstring(ast.parse(text)), path


def test_switched_off_the_plugin_imports_nothing() -> None:
    """Without WACTL=1, calling the entry point leaves the process's modules as they were."""
    code = (
        "import sys, wactl.policies.vllm as plugin\n"
        "before = set(sys.modules)\n"
        "plugin.register()\n"
        "print(sorted(set(sys.modules) - before), 'numpy' in sys.modules, 'vllm' in sys.modules)"
    )
    for value in (None, "", "0", "yes"):
        environment = {name: text for name, text in os.environ.items() if name != "WACTL"}
        if value is not None:
            environment["WACTL"] = value
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "[] False False\n"
