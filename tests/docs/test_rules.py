"""docs/rules.md has every key and feature there is, and what its commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from wactl.controller.cells import ENTRIES
from wactl.controller.daemon import DISCOVERY
from wactl.controller.learner import REGROW
from wactl.controller.numbering import NUMBERS
from wactl.controller.rules import ASKED, KEYS
from wactl.controller.words import PLACES
from wactl.policies.features import FEATURES, POSITION, WORDS
from wactl.policies.table import MAX_NAME, MAX_RULES

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "rules.md").read_text()
WACTL = Path(sys.executable).parent / "wactl"


def table(heading: str) -> dict[str, list[str]]:
    """The rows of a table by the name in their first column."""
    part = TEXT.partition(heading)[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", part, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in rows}


def block(first: str) -> str:
    """The indented block that begins with this line, up to the next that is not indented."""
    found = re.search(rf"^    {re.escape(first)}\n((?:    .*\n)*)", TEXT, re.MULTILINE)
    assert found, first
    return textwrap.dedent(f"    {first}\n{found[1]}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with the example of the page in it."""
    (tmp_path / "my-rules.yaml").write_text(block("rules:"))
    return tmp_path


def output(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What a command of the page does in that folder, where no sidecar is."""
    arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)]
    assert arguments[0] == "wactl"
    return subprocess.run(
        [WACTL, *arguments[1:]],
        cwd=folder,
        env={**os.environ, "WACTL_RUN_DIR": str(folder / "nobody")},
        capture_output=True,
        text=True,
    )


def test_every_key_and_feature_is_told() -> None:
    """Those of a rule, and what each feature can be asked for; no others."""
    assert set(table("| key |")) == KEYS
    features = table("| feature |")
    assert list(features) == [name for name in FEATURES if name in ASKED]
    for name, (_, condition) in features.items():
        number = FEATURES.index(name)
        kind = (
            "`new` or `carried`" if number == POSITION else "word" if number in WORDS else "number"
        )
        assert condition == kind


def test_the_bounds_are_those_of_the_code() -> None:
    """Every number of the page, in its sentence."""
    page = " ".join(TEXT.split())
    for said in (
        f"At most {MAX_RULES - 1} rules",
        f"1 to {MAX_NAME} printable characters",
        f"tells {PLACES} of each kind apart",
        f"at most {ENTRIES} combinations",
        f"at most {NUMBERS} category numbers",
    ):
        assert said in page
    assert REGROW == 4 and "every four refits" in page
    assert DISCOVERY == 0.5 and "twice a second" in page


def test_check_prints_what_is_shown(folder: Path) -> None:
    """To the letter; and the mistake is named as shown."""
    shown = block("$ wactl rules check my-rules.yaml")
    command, _, expected = shown.partition("\n")
    assert output(folder, command.removeprefix("$ ")).stdout == expected
    file = folder / "my-rules.yaml"
    file.write_text(
        file.read_text() + "  - {category: long chats, when: {type: chat, turn: '> 9'}}\n"
    )
    done = output(folder, "wactl rules check my-rules.yaml")
    (mistake,) = re.findall(r"^    (my-rules\.yaml:\d+: .*)$", TEXT, re.MULTILINE)
    assert done.stderr == f"wactl: {mistake}\n"


def test_explain_names_the_rule_that_is_shown(folder: Path) -> None:
    """Without a sidecar the first line; tests/controller/test_rules_command.py holds the rest."""
    shown = block('$ wactl rules explain my-rules.yaml --request "type=chat, turn=3, gap=5"')
    command, first, *_ = shown.splitlines()
    assert output(folder, command.removeprefix("$ ")).stdout.splitlines()[0] == first
