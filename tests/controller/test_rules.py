"""Rule files: what is read from a good one, and what is said of a bad one, by line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from wactl.controller.rules import ASKED, KEYS, REST, Hints, Rule, RulesError, load_rules
from wactl.controller.settings import CONFIG
from wactl.policies.features import FEATURES, GAP, LENGTH, POSITION, TENANT, TYPE, digest
from wactl.policies.table import MAX_RULES, Condition

GOOD = """
rules:
  - category: agents
    when: {type: agent, length: ">= 2048", gap: 2..15}
    refine: false
    mean_seconds: 30
    lifespan_seconds: 120.5
  - category: "carried, urgent"
    when:
      position: carried
      priority: "< 0"
      tenant: 17
  - category: rest
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
    """Words, comparisons, ranges and hints arrive, rules in their order and with their lines."""
    (tmp_path / "rules.yaml").write_text(GOOD)
    agents, urgent, rest = load_rules(tmp_path / "rules.yaml")
    assert (agents.name, agents.line, agents.refine) == ("agents", 3, False)
    assert set(agents.conditions) == {
        Condition(TYPE, digest("agent"), digest("agent")),
        Condition(LENGTH, 2048.0, INF),
        Condition(GAP, 2.0, 15.0),
    }
    assert agents.hints == Hints(30.0, 120.5)
    assert Condition(POSITION, 1.0, 1.0) in urgent.conditions
    assert Condition(TENANT, digest("17"), digest("17")) in urgent.conditions
    assert rest == Rule("rest", (), True, Hints(), 13)


def test_the_last_rule_fits_everything(tmp_path: Path) -> None:
    """A file whose last rule does not gets one that does, and so does a file without rules."""
    path = tmp_path / "rules.yaml"
    path.write_text("rules:\n- {category: a, when: {turn: 1}}\n")
    assert [rule.name for rule in load_rules(path)] == ["a", REST]
    path.write_text("rules: []\n")
    assert load_rules(path) == (Rule(REST),)
    path.write_text("rules:\n- {category: other, refine: false}\n")
    assert load_rules(path) == (Rule("other", refine=False, line=2),)


@pytest.mark.parametrize("feature", sorted(ASKED))
def test_every_feature_can_be_asked_for(tmp_path: Path, feature: str) -> None:
    """A condition on any feature of a request is understood."""
    path = tmp_path / "rules.yaml"
    value = "carried" if feature == "position" else "1"
    path.write_text(f"rules: [{{category: a, when: {{{feature}: {value}}}}}]")
    (condition,) = load_rules(path)[0].conditions
    assert FEATURES[condition.feature] == feature


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
    (condition,) = load_rules(tmp_path / "r.yaml")[0].conditions
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
        pytest.param(rule("when: {template: a}"), 3, "`when` has no 'template'", id="template"),
        pytest.param(rule("when: {gap: '=> 2'}"), 3, "no number, comparison", id="comparison"),
        pytest.param(rule("when: {gap: .nan}"), 3, "no number, comparison", id="not a number"),
        pytest.param(rule("when: {gap: [1, 2]}"), 3, "gap needs one value", id="list of values"),
        pytest.param(rule("when: {gap: 15..2}"), 3, "the range 15..2 is empty", id="empty range"),
        pytest.param(rule("when: {position: old}"), 3, "new or carried, not 'old'", id="position"),
        pytest.param(rule("when: gap"), 3, "`when` needs keys and values", id="when no mapping"),
        pytest.param(rule("when: {gap: 1, gap: 2}"), 3, "has 'gap' twice", id="feature twice"),
        pytest.param(rule("category: b"), 3, "a rule has 'category' twice", id="key twice"),
        pytest.param(rule("refine: 0"), 3, "refine is true or false", id="refine a number"),
        pytest.param(rule("refine: [true]"), 3, "refine is true or false", id="refine a list"),
        pytest.param(rule("mean_seconds: 0"), 3, "above 0, at most 1e+07", id="mean of nothing"),
        pytest.param(
            rule("mean_seconds: soon"), 3, "mean_seconds needs a number", id="mean a word"
        ),
        pytest.param(rule("mean_seconds: {a: 1}"), 3, "needs a number of seconds", id="mean a map"),
        pytest.param(rule("lifespan_seconds: 1e99"), 3, "above 0, at most", id="endless lifespan"),
        pytest.param(rule("lifespan_seconds: 10000001"), 3, "at most 1e+07", id="long lifespan"),
        pytest.param(rule("lifespan_seconds: -1"), 3, "above 0", id="negative lifespan"),
        pytest.param(rule("- {refine: true}"), 3, "not YAML", id="not YAML"),
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
            "rules:\n" + "".join(f"- {{category: c{i}, when: {{turn: {i}}}}}\n" for i in range(64)),
            2,
            f"64 rules; at most {MAX_RULES - 1} can be used",
            id="too many rules",
        ),
        pytest.param(
            "rules:\n- {category: other, when: {turn: 1}}",
            2,
            "'other' is what no rule claims",
            id="conditions for the rest",
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
        "    refine: maybe\n"
        "  - splits: [gap]\n"
        "    category: c\n"
    )
    assert [text.partition(":")[0] for text in found] == ["3", "3", "5", "6"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{}", "{turn: 1}"),
        ("{turn: '>= 2'}", "{turn: 3..5, type: a}"),
        ("{turn: '>= 2', type: a}", "{turn: '>= 2', type: a, gap: 1}"),
        ("{position: carried}", "{position: carried}"),
    ],
)
def test_a_rule_that_no_request_reaches_is_named_with_what_is_in_the_way(
    mistakes: Callable[[str | bytes], list[str]], first: str, second: str
) -> None:
    """Whatever fits it fits a rule before it, which may stand some way up."""
    (found,) = mistakes(
        "rules:\n"
        f"  - {{category: wide, when: {first}}}\n"
        "  - {category: between, when: {turn: 1, gap: 9}}\n"
        f"  - {{category: narrow, when: {second}}}\n"
        if first != "{}"
        else f"rules:\n  - category: wide\n\n  - {{category: narrow, when: {second}}}\n"
    )
    assert found == "4: no request gets here: whatever fits, fits 'wide' in line 2 before"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{turn: 1}", "{}"),
        ("{turn: 1..3}", "{turn: 2..4}"),
        ("{type: a}", "{type: b}"),
        ("{turn: 1, gap: 2}", "{turn: 1}"),
        ("{gap: '> 2'}", "{gap: '>= 2'}"),
    ],
)
def test_rules_that_only_overlap_are_in_order(tmp_path: Path, first: str, second: str) -> None:
    """As long as some request reaches the second one, there is nothing to say."""
    path = tmp_path / "rules.yaml"
    path.write_text(
        f"rules:\n- {{category: a, when: {first}}}\n- {{category: b, when: {second}}}\n"
    )
    assert [rule.name for rule in load_rules(path)][:2] == ["a", "b"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder are named with the reason."""
    with pytest.raises(RulesError, match=r"none\.yaml:1: cannot be read: No such file"):
        load_rules(tmp_path / "none.yaml")
    with pytest.raises(RulesError, match=r":1: cannot be read: Is a directory"):
        load_rules(tmp_path)


def test_the_shipped_rules_leave_all_to_the_model() -> None:
    """The default file loads; it has no rule but the one that every file ends with."""
    assert load_rules(CONFIG / "rules.yaml") == (Rule(REST),)


def test_the_shipped_file_shows_a_rule_that_works(tmp_path: Path) -> None:
    """The example in its comments, uncommented, is a good rule with every key there is."""
    text = (CONFIG / "rules.yaml").read_text()
    lines = re.findall(r"^#   (.*)$", text, re.MULTILINE)
    example = lines[lines.index("rules:") :][:6]
    (tmp_path / "rules.yaml").write_text("\n".join(example))
    batch, _ = load_rules(tmp_path / "rules.yaml")
    assert (batch.name, batch.refine, batch.hints) == ("nightly batch", False, Hints(30.0, 120.0))
    assert set(re.findall(r"^[- ]+(\w+):", "\n".join(example), re.MULTILINE)) == KEYS
    told = " ".join(text.split())
    assert [name for name in FEATURES if not re.search(rf"\b{name}\b", told)] == ["template"]
