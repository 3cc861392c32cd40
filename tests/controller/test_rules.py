"""Rule files: what is read from a good one, and what is said of a bad one, by line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from wactl.controller.rules import RulesError, load_rules
from wactl.controller.settings import CONFIG
from wactl.policies.features import GAP, LENGTH, POSITION, TENANT, TURN, TYPE, digest
from wactl.policies.table import Condition, DecisionTable, Rule

GOOD = """
rules:
  - category: agents
    when: {type: agent, length: ">= 2048", gap: 2..15}
    split: [turn]
  - category: "carried, urgent"
    when:
      position: carried
      priority: "< 0"
      tenant: 17
  - category: rest
    split: [gap, position]
"""

INF = float("inf")


@pytest.fixture
def mistakes(tmp_path: Path) -> Callable[[str | bytes], list[str]]:
    """What is said about a rule file with these contents, one text a mistake."""

    def read(contents: str | bytes) -> list[str]:
        path = tmp_path / "rules.yaml"
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        with pytest.raises(RulesError) as error:
            load_rules(path)
        lines = str(error.value).splitlines()
        assert len(lines) == len(error.value.mistakes)
        for line in lines:
            assert re.match(rf"{re.escape(str(path))}:\d+: \S", line), line
        return [line.removeprefix(f"{path}:") for line in lines]

    return read


def test_a_good_file(tmp_path: Path) -> None:
    """Words, comparisons, ranges and splits arrive in the table, rules in their order."""
    (tmp_path / "rules.yaml").write_text(GOOD)
    table = load_rules(tmp_path / "rules.yaml")
    agents, urgent, rest = table.rules
    assert agents.name == "agents"
    assert set(agents.conditions) == {
        Condition(TYPE, digest("agent"), digest("agent")),
        Condition(LENGTH, 2048.0, INF),
        Condition(GAP, 2.0, 15.0),
    }
    assert agents.splits == (TURN,)
    assert Condition(POSITION, 1.0, 1.0) in urgent.conditions
    assert Condition(TENANT, digest("17"), digest("17")) in urgent.conditions
    assert rest == Rule("rest", (), (GAP, POSITION))
    assert table.categories == 4 + 1 + 8 * 2


@pytest.mark.parametrize(
    ("text", "low", "high", "inside", "outside"),
    [
        ("3", 3.0, 3.0, 3.0, 3.1),
        ("-1", -1.0, -1.0, -1.0, 0.0),
        ("'>= 2'", 2.0, INF, 2.0, 1.999),
        ("'<= 2.5'", -INF, 2.5, 2.5, 2.501),
        ("'> 2'", 2.0, INF, 2.001, 2.0),
        ("'<2'", -INF, 2.0, 1.999, 2.0),
        ("2..15", 2.0, 15.0, 15.0, 15.1),
        ("-1 .. 0.5", -1.0, 0.5, 0.0, 0.6),
    ],
)
def test_the_values_that_fit_a_condition(
    tmp_path: Path, text: str, low: float, high: float, inside: float, outside: float
) -> None:
    """A condition holds from its low to its high end; a strict comparison leaves that end out."""
    (tmp_path / "r.yaml").write_text(f"rules: [{{category: a, when: {{gap: {text}}}}}]")
    (condition,) = load_rules(tmp_path / "r.yaml").rules[0].conditions
    assert (condition.low, condition.high) == (pytest.approx(low), pytest.approx(high))
    assert condition.low <= inside <= condition.high
    assert not condition.low <= outside <= condition.high


def rule(line: str) -> str:
    """A file whose only rule has one more line, which is line 3."""
    return f"rules:\n  - category: a\n    {line}\n"


@pytest.mark.parametrize(
    ("contents", "line", "text"),
    [
        pytest.param(rule("spilt: [gap]"), 3, "a rule has no 'spilt'", id="unknown key"),
        pytest.param(
            "rule: []\nrules: []", 1, "the file has no 'rule'", id="unknown top-level key"
        ),
        pytest.param(rule("when: {age: 1}"), 3, "`when` has no 'age'", id="unknown feature"),
        pytest.param(rule("when: {gap: '=> 2'}"), 3, "no number, comparison", id="comparison"),
        pytest.param(rule("when: {gap: .nan}"), 3, "no number, comparison", id="not a number"),
        pytest.param(rule("when: {gap: [1, 2]}"), 3, "gap needs one value", id="list of values"),
        pytest.param(rule("when: {gap: 15..2}"), 3, "the range 15..2 is empty", id="empty range"),
        pytest.param(rule("when: {position: old}"), 3, "new or carried, not 'old'", id="position"),
        pytest.param(rule("when: gap"), 3, "`when` needs keys and values", id="when no mapping"),
        pytest.param(rule("when: {gap: 1, gap: 2}"), 3, "has 'gap' twice", id="feature twice"),
        pytest.param(rule("category: b"), 3, "a rule has 'category' twice", id="key twice"),
        pytest.param(rule("split: [session]"), 3, "cannot split by 'session'", id="split by word"),
        pytest.param(rule("split: [age]"), 3, "cannot split by 'age'", id="split by nothing"),
        pytest.param(rule("split: [gap, gap]"), 3, "splits by gap twice", id="split twice"),
        pytest.param(rule("split: gap"), 3, "`split` needs a list", id="split no list"),
        pytest.param(rule("split: [[gap]]"), 3, "cannot split by", id="split by a list"),
        pytest.param(rule("- {split: []}"), 3, "not YAML", id="not YAML"),
        pytest.param("rules:\n  - {}", 2, "needs `category:` with a name", id="no name"),
        pytest.param("rules:\n- category: [a]", 2, "needs `category:`", id="name is a list"),
        pytest.param("rules:\n- category: ''", 2, "needs `category:`", id="empty name"),
        pytest.param(f"rules:\n- category: {'a' * 65}", 2, "1 to 64 characters", id="long name"),
        pytest.param('rules:\n- category: "a\\nb"', 2, "printable name", id="name of two lines"),
        pytest.param("rules:\n- category: a\n- category: a", 3, "'a' already", id="name twice"),
        pytest.param("rules:\n  a: 1", 2, "with a list of rules", id="rules no list"),
        pytest.param("rules:", 1, "with a list of rules", id="no rules"),
        pytest.param("rules: [\n  a: {", 2, "not YAML", id="unfinished"),
        pytest.param("rules: []\n---\nrules: []", 2, "not YAML", id="two documents"),
        pytest.param(b"\x89PNG\r\n\x1a\n\xff\xfe", 1, "is not UTF-8 text", id="binary"),
        pytest.param("rules: \x00", 1, "not YAML: cannot be parsed", id="zero bytes"),
        pytest.param("[" * 5000, 1, "is nested too deeply", id="nesting"),
        pytest.param(
            rule("split: [turn, gap, previous_gap, length]"),
            1,
            "1280 categories, more than 509; split by fewer features",
            id="too many categories",
        ),
        pytest.param(
            "rules:\n" + "".join(f"- category: c{i}\n" for i in range(65)),
            1,
            "65 rules, more than 64",
            id="too many rules",
        ),
    ],
)
def test_each_mistake_is_named_by_its_line(
    mistakes: Callable[[str | bytes], list[str]], contents: str | bytes, line: int, text: str
) -> None:
    """A file with one mistake gives one message, with the line it is in."""
    (found,) = mistakes(contents)
    assert found.startswith(f"{line}: ")
    assert text in found


@pytest.mark.parametrize("contents", ["", "# nothing\n", "- category: a\n", "rules\n"])
def test_a_file_without_rules_says_what_it_needs(
    mistakes: Callable[[str | bytes], list[str]], contents: str
) -> None:
    """An empty file, and one that is no mapping, are told to hold `rules:`."""
    assert any("needs `rules:` with a list of rules" in text for text in mistakes(contents))


def test_all_mistakes_are_reported_at_once(
    mistakes: Callable[[str | bytes], list[str]],
) -> None:
    """Four mistakes in three rules give four messages in the order of the file."""
    found = mistakes(
        "rules:\n"
        "  - category: a\n"
        "    when: {gap: soon, turn: 3..1}\n"
        "  - category: b\n"
        "    split: [tenant]\n"
        "  - splits: [gap]\n"
        "    category: c\n"
    )
    assert [text.partition(":")[0] for text in found] == ["3", "3", "5", "6"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(RulesError, match=r"none\.yaml:1: cannot be read: No such file"):
        load_rules(tmp_path / "none.yaml")
    with pytest.raises(RulesError, match=r":1: cannot be read: Is a directory"):
        load_rules(tmp_path)


def test_the_shipped_rules_are_good_and_fit_every_request() -> None:
    """The default file loads, and its last rule leaves no request without a category."""
    table = load_rules(CONFIG / "rules.yaml")
    assert table.problem() is None
    assert isinstance(table, DecisionTable)
    assert table.rules[-1].conditions == ()
