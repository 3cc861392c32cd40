"""``wactl rules`` and the rule file of a running sidecar, as an operator meets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wactl.controller.daemon import Daemon
from wactl.controller.status import Request, ask, consult
from wactl.policies.errors import WactlError
from wactl.policies.features import FEATURES, TYPE, blank_features, digest

WACTL = Path(sys.executable).parent / "wactl"

ONE = "rules:\n  - category: chats\n    when: {type: chat}\n    refine: false\n"
TWO = "rules:\n  - category: papers\n    when: {type: document}\n"

Command = Callable[..., subprocess.CompletedProcess[str]]
Eventually = Callable[..., Any]


@pytest.fixture
def wactl(run_dir: Path) -> Command:
    """Runs the command to its end."""
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), "COLUMNS": "200"}

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = [WACTL, *map(str, arguments)]
        return subprocess.run(
            command, env=environment | more, capture_output=True, text=True, timeout=60
        )

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A rule file for chats."""
    file = tmp_path / "rules.yaml"
    file.write_text(ONE)
    return file


def names(run_dir: Path) -> list[str]:
    """The rules that the status of the only engine shows."""
    engines = ask(run_dir, Request()).engines
    return [one.name for one in engines[0].categories if one.rule] if engines else []


def pushed(engine: Any) -> list[str]:
    """The rules of the table that an engine has in force."""
    orders = engine.intake.in_force(engine.clock())
    return [rule.name for rule in orders.parameters.table.rules] if orders else []


def test_check_says_what_the_model_may_do(wactl: Command, path: Path) -> None:
    """A line for each rule, the one that is always there included, and how many there are."""
    done = wactl("rules", "check", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "chats: one category\nother: divided by the model\n2 rules, no mistakes\n"
    )


def test_check_names_a_rule_that_no_request_reaches(wactl: Command, path: Path) -> None:
    """With the line of the rule that is in its way; the command fails."""
    path.write_text(ONE + "  - {category: long chats, when: {type: chat, length: '> 9'}}\n")
    done = wactl("rules", "check", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"wactl: {path}:5: no request gets here: whatever fits, fits 'chats' in line 2 before\n"
    )


def test_without_a_sidecar_the_rule_is_explained(wactl: Command, path: Path, run_dir: Path) -> None:
    """Rule and line, and what it takes to hear more; in JSON no engine."""
    done = wactl("rules", "explain", path, "--request", "type=chat, turn=3")
    assert done.returncode == 0
    rule, missing = done.stdout.splitlines()
    assert rule == f"rule 'chats' of {path}, line 2"
    assert missing == (
        "what is believed of it only a sidecar can tell: "
        f"no sidecar uses {run_dir}; start one with `wactl run`"
    )
    done = wactl("rules", "explain", path, "--json")
    assert json.loads(done.stdout) == {"rule": "other", "line": 0, "engines": []}
    assert "rule 'other' of" in wactl("rules", "explain").stdout


def test_a_mistake_in_the_question_is_one_sentence(wactl: Command, path: Path) -> None:
    """The same for a feature that does not exist and for rules that cannot be read."""
    for arguments, said in (
        ((path, "--request", "age=3"), "wactl: --request: no feature 'age'; there are turn, gap"),
        ((path.with_name("none.yaml"),), f"wactl: {path.with_name('none.yaml')}:1: cannot be read"),
    ):
        done = wactl("rules", "explain", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(said) and done.stderr.count("\n") == 1


def test_a_sidecar_tells_category_and_law(
    wactl: Command,
    path: Path,
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """Of chats, which come back, and of documents, which do not; with no file named, by its own."""
    one = engine()
    daemon(rules=path)

    def believed(word: str) -> Any:
        features = blank_features(64)
        features[TYPE], features[FEATURES.index("turn")] = digest(word), 3.0
        found = consult(run_dir, Request(explain=tuple(features.tolist()))).explanations
        return found[0].new if found and found[0].new.evidence > 50 else None

    chats = eventually(lambda: believed("chat"), one.traffic)
    assert chats.name == "chats"
    assert chats.p > 0.8
    documents = eventually(lambda: believed("document"), one.traffic)
    assert documents.name.startswith("other")
    assert documents.p < 0.3
    done = wactl("rules", "explain", "--request", "type=chat, turn=3")
    assert done.returncode == 0, done.stderr
    rule, where, new, carried = done.stdout.splitlines()
    assert rule == f"rule 'chats' of {path}, line 2"
    assert where == "engine 0: the sidecar's rule 'chats'"
    for line, part in ((new, "new"), (carried, "carried")):
        assert line.startswith(f"  {part} blocks: category 'chats', ")
        assert " % reused after " in line and ", learned from " in line
    answer = json.loads(wactl("rules", "explain", "--request", "type=chat", "--json").stdout)
    assert (answer["rule"], answer["line"]) == ("chats", 2)
    assert answer["engines"][0]["carried"]["p"] > 0.8
    everything = json.loads(wactl("status", "--json").stdout)
    assert everything["rules"] == str(path)


def test_the_page_shows_what_it_prints(
    wactl: Command,
    path: Path,
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """The example of docs/rules.md, figures and what the model found aside."""
    page = (Path(__file__).parent.parent.parent / "docs" / "rules.md").read_text()
    rules, shown = (
        textwrap.dedent("".join(re.findall(rf"^    {first}.*\n(?:    .*\n)*", page, re.MULTILINE)))
        for first in ("rules:", r"\$ wactl rules explain")
    )
    path.write_text(rules)
    one = engine()
    daemon(rules=path)

    def told() -> str:
        done = wactl("rules", "explain", path, "--request", "type=chat, turn=3, gap=5")
        return done.stdout if done.stdout.count("learned from") == 2 else ""

    def shape(text: str) -> str:
        return re.sub(r"'chats[^']*'", "'chats'", re.sub(r"\d+(\.\d+)?", "N", text))

    printed = eventually(told, one.traffic)
    expected = shown.partition("\n")[2].replace("my-rules.yaml", str(path))
    assert shape(printed) == shape(expected)


def test_before_anything_was_learned_it_says_so(
    wactl: Command,
    path: Path,
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """An engine that has served nobody has a rule for a request, and no law."""
    engine()
    daemon(rules=path)
    eventually(lambda: names(run_dir))
    done = wactl("rules", "explain", "--request", "type=chat")
    assert "engine 0: the sidecar's rule 'chats'" in done.stdout
    assert done.stdout.count("nothing learned yet") == 2


@pytest.mark.parametrize("features", [(1.0,), (float("nan"),) * len(FEATURES)])
def test_a_vector_that_is_none_is_refused(
    run_dir: Path, daemon: Callable[..., Daemon], features: tuple[float, ...]
) -> None:
    """Whoever asks past the command gets a sentence, and the sidecar goes on."""
    daemon()
    with pytest.raises(WactlError, match="not a question this sidecar understands"):
        consult(run_dir, Request(explain=features))
    assert ask(run_dir, Request()).engines == ()


def test_an_edit_takes_effect_while_the_sidecar_runs(
    wactl: Command,
    path: Path,
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """Other rules reach the engine; a broken edit keeps them and says why, until it is mended."""
    one = engine()
    daemon(mode="enforce", rules=path)
    eventually(lambda: pushed(one) == ["chats", "other"], one.traffic)
    path.write_text(TWO)
    eventually(lambda: pushed(one) == ["papers", "other"], one.traffic)
    assert names(run_dir) == ["papers", "other"]
    assert ask(run_dir, Request()).rules_problem == ""
    path.write_text(TWO + "    refine: maybe\n")
    problem = eventually(lambda: ask(run_dir, Request()).rules_problem, one.traffic)
    assert problem == f"{path}:4: refine is true or false"
    shown = wactl("status", FORCE_COLOR="1").stdout
    line = next(line for line in shown.splitlines() if "not in use" in line)
    assert "\x1b[31m" in line and problem in line.replace("\x1b[0m", "")
    assert names(run_dir) == ["papers", "other"]
    path.write_text(ONE + TWO.removeprefix("rules:\n"))
    eventually(lambda: pushed(one) == ["chats", "papers", "other"], one.traffic)
    assert ask(run_dir, Request()).rules_problem == ""
    assert "not in use" not in wactl("status").stdout
    assert one.intake.rejected == 0
