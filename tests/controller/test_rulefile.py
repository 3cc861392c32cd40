"""An edit of the rule file takes effect whole, or not at all and with the reason."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from wactl.controller.rulefile import RuleFile
from wactl.controller.rules import RulesError


def names(file: RuleFile) -> list[str]:
    return [rule.name for rule in file.rules]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one rule."""
    file = tmp_path / "rules.yaml"
    file.write_text("rules:\n- {category: one, when: {turn: 1}}\n")
    return file


def test_an_edit_is_seen_once(path: Path) -> None:
    """The first look after it finds other rules, the next one nothing new."""
    file = RuleFile(path)
    assert not file.look()
    path.write_text("rules:\n- {category: two, when: {turn: 1}}\n")
    assert file.look()
    assert (names(file), file.problem) == (["two", "other"], "")
    assert not file.look()


def test_a_file_that_is_put_in_its_place_is_an_edit(path: Path) -> None:
    """As editors and Kubernetes do; the time of the other file does not matter."""
    file = RuleFile(path)
    other = path.with_name("other.yaml")
    other.write_text("rules:\n- {category: two, when: {turn: 1}}\n")
    found = path.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.replace(path)
    assert file.look()
    assert names(file) == ["two", "other"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("rules:\n- {category: two, when: {age: 1}}\n", ":2: `when` has no 'age'"),
        ("rules: [", ":1: not YAML"),
        ("", ":1: the file needs keys and values"),
        (None, ":1: cannot be read: No such file"),
    ],
)
def test_a_broken_edit_changes_nothing_and_a_good_one_mends_it(
    path: Path, broken: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The old rules stay, the reason is there and in the log, until the file is good again."""
    file = RuleFile(path)
    if broken is None:
        path.unlink()
    else:
        path.write_text(broken)
    with caplog.at_level(logging.INFO, "wactl"):
        assert not file.look()
        assert not file.look()
    assert names(file) == ["one", "other"]
    assert file.problem.startswith(f"{path}{said}")
    assert [record.getMessage() for record in caplog.records] == [
        f"the rules stay as they were: {file.problem}"
    ]
    path.write_text("rules:\n- {category: three, when: {turn: 1}}\n")
    assert file.look()
    assert (names(file), file.problem) == (["three", "other"], "")


def test_an_edit_that_is_taken_back_mends_the_problem_but_changes_no_rule(path: Path) -> None:
    """Back to what is in use: nothing to follow, and nothing wrong any more."""
    file, good = RuleFile(path), path.read_text()
    path.write_text("nonsense")
    assert not file.look()
    assert file.problem
    path.write_text(good)
    assert not file.look()
    assert file.problem == ""


def test_a_sidecar_does_not_start_with_broken_rules(path: Path) -> None:
    """There are no old ones to go on with."""
    path.write_text("nonsense")
    with pytest.raises(RulesError):
        RuleFile(path)
