"""docs/deploy.md names files and commands that exist, and figures that are printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from wactl.__main__ import app

ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture
def text() -> str:
    """The document."""
    return (ROOT / "docs" / "deploy.md").read_text()


def test_its_files_exist(text: str) -> None:
    """Every path of the checkout that a command or a sentence names."""
    paths = set(re.findall(r"\b(?:config/|docs/)[\w./-]*\w", text))
    assert len(paths) >= 8
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_file_is_in_it(text: str, deploy: Path) -> None:
    """Nothing lies in the folder that the document does not mention."""
    names = {path.name for path in deploy.rglob("*") if path.is_file()}
    assert sorted(name for name in names - {"Dockerfile.dockerignore"} if name not in text) == []


def test_its_commands_exist(text: str) -> None:
    """What follows `wactl` in code is a command of it."""
    spans = re.findall(r"`[^`\n]+`|^ {4}.+$", text, re.MULTILINE)
    words = set(re.findall(r"(?:[`\s])wactl ([a-z]+)\b", "\n".join(spans)))
    commands: Any = typer.main.get_command(app)
    assert {"doctor", "mode", "run", "status"} <= words
    assert sorted(words - set(commands.commands)) == []


@pytest.mark.parametrize("name", ["wactl.service", "vllm.service"])
def test_the_exposure_is_as_printed(
    text: str, deploy: Path, tool: Callable[..., Any], name: str
) -> None:
    """The figures are those of the command that it names."""
    unit = deploy / "systemd" / name
    done = tool("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    (level,) = re.findall(r"Overall exposure level for \S+: (\d+\.\d)", done.stdout)
    figures = re.findall(r"exposure of (\d\.\d) \((\d\.\d)\)", text)
    assert figures[0][name == "vllm.service"] == level
