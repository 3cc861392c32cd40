"""Category rules: read from the operator's YAML, mistakes named by line."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..policies.errors import WactlError
from ..policies.features import FEATURES, POSITION, TEMPLATE, WORDS, digest
from ..policies.parameters import MAX_SECONDS
from ..policies.table import MAX_RULES, Condition
from ..policies.table import Rule as TableRule

COMPARISON = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)")
KEYS = {"category", "when", "refine", "mean_seconds", "lifespan_seconds"}

ASKED = set(FEATURES) - {FEATURES[TEMPLATE]}
"""What a rule may ask for; a template has no name that an operator could write."""

HINTS = ("mean_seconds", "lifespan_seconds")

REST = "other"
"""Name of the rule for requests that no other claims; it is there whether written or not."""


@dataclass(frozen=True)
class Hints:
    """What the operator expects of a category; None where nothing."""

    mean_seconds: float | None = None
    """Mean time to reuse, believed until enough was seen."""
    lifespan_seconds: float | None = None
    """Age past which its blocks are as good as dead, whatever is learned."""


@dataclass(frozen=True)
class Rule:
    """Who belongs to a category, and what to do with them; ``line`` is where it was written."""

    name: str
    conditions: tuple[Condition, ...] = ()
    refine: bool = True
    """Whether the model may divide it."""
    hints: Hints = Hints()
    line: int = 0

    def covers(self, other: Rule) -> bool:
        """Whether every request that fits ``other`` fits this one."""
        spans = {c.feature: c for c in other.conditions}
        return all(
            c.feature in spans and c.low <= spans[c.feature].low and spans[c.feature].high <= c.high
            for c in self.conditions
        )


Rules = tuple[Rule, ...]
"""In order, the first that fits decides; the last one fits everything."""


@dataclass(frozen=True)
class Mistake:
    """One thing wrong with a rule file."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class RulesError(WactlError):
    """The rules cannot be used; ``mistakes`` are all that was found."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = mistakes


def load_rules(path: Path) -> Rules:
    """The rules of a file. Raises `RulesError` with every mistake in it."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise RulesError([Mistake(path, 1, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise RulesError([Mistake(path, 1, "is not UTF-8 text")]) from None
    except RecursionError:
        raise RulesError([Mistake(path, 1, "is nested too deeply")]) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = f"not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}"
        raise RulesError([Mistake(path, mark.line + 1 if mark else 1, text)]) from None
    reader = _Reader(path)
    rules = reader.rules(root)
    if reader.mistakes:
        raise RulesError(reader.mistakes)
    return rules if rules and not rules[-1].conditions else (*rules, Rule(REST))


class _Reader:
    """Walks the YAML nodes, which still know their lines, and collects what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mistakes: list[Mistake] = []
        self.names: set[str] = set()

    def mistake(self, node: yaml.Node | None, text: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 1
        self.mistakes.append(Mistake(self.path, line, text))

    def rules(self, root: yaml.Node | None) -> Rules:
        entries = dict(self.pairs(root, "the file", {"rules"}))
        rules = entries.get("rules")
        if not isinstance(rules, yaml.SequenceNode):
            self.mistake(rules or root, "needs `rules:` with a list of rules")
            return ()
        if len(rules.value) >= MAX_RULES:
            self.mistake(rules, f"{len(rules.value)} rules; at most {MAX_RULES - 1} can be used")
            return ()
        found: list[Rule] = []
        for node in rules.value:
            before = len(self.mistakes)
            rule = self.rule(node)
            if len(self.mistakes) > before:  # nobody knows what it was to cover
                continue
            if cover := next((former for former in found if former.covers(rule)), None):
                name = f"{cover.name!r} in line {cover.line}"
                self.mistake(node, f"no request gets here: whatever fits, fits {name} before")
            found.append(rule)
        return tuple(found)

    def rule(self, node: yaml.Node) -> Rule:
        entries = dict(self.pairs(node, "a rule", KEYS))
        name = entries.get("category")
        if not isinstance(name, yaml.ScalarNode) or not name.value:
            self.mistake(name or node, "a rule needs `category:` with a name")
        elif wrong := TableRule(name.value, (), -1).problem():
            self.mistake(name, f"a rule {wrong}")
        elif name.value in self.names:
            self.mistake(name, f"there is a category {name.value!r} already")
        else:
            self.names.add(name.value)
        conditions = []
        if when := entries.get("when"):
            for feature, value in self.pairs(when, "`when`", ASKED):
                if condition := self.condition(feature, value):
                    conditions.append(condition)
        if conditions and isinstance(name, yaml.ScalarNode) and name.value == REST:
            self.mistake(name, f"{REST!r} is what no rule claims; it can have no conditions")
        return Rule(
            str(name.value) if name is not None else "",
            tuple(conditions),
            self.yes_or_no("refine", entries.get("refine")),
            Hints(*(self.seconds(key, entries.get(key)) for key in HINTS)),
            node.start_mark.line + 1,
        )

    def yes_or_no(self, key: str, node: yaml.Node | None) -> bool:
        if node is None:
            return True
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("true", "false"):
            self.mistake(node, f"{key} is true or false")
            return True
        return bool(node.value == "true")

    def seconds(self, key: str, node: yaml.Node | None) -> float | None:
        if node is None:
            return None
        text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        value = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0
        if not 0.0 < value <= MAX_SECONDS:
            self.mistake(node, f"{key} needs a number of seconds above 0, at most {MAX_SECONDS:g}")
            return None
        return value

    def condition(self, feature: str, node: yaml.Node) -> Condition | None:
        number = FEATURES.index(feature)
        if not isinstance(node, yaml.ScalarNode):
            self.mistake(node, f"{feature} needs one value")
            return None
        text = str(node.value).strip()
        if number in WORDS:
            return Condition(number, digest(text), digest(text))
        if number == POSITION:
            if text not in ("new", "carried"):
                self.mistake(node, f"position is new or carried, not {text!r}")
                return None
            return Condition(number, float(text == "carried"), float(text == "carried"))
        interval = parse_interval(text)
        if interval is None:
            self.mistake(node, f"{feature}: {text!r} is no number, comparison or range like 2..15")
            return None
        if interval[0] > interval[1]:
            self.mistake(node, f"{feature}: the range {text} is empty")
            return None
        return Condition(number, *interval)

    def pairs(self, node: yaml.Node | None, what: str, known: set[str]) -> list[tuple[str, Any]]:
        if not isinstance(node, yaml.MappingNode):
            self.mistake(node, f"{what} needs keys and values")
            return []
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in known:
                self.mistake(key, f"{what} has no {name!r}; known: {', '.join(sorted(known))}")
            elif name in found:
                self.mistake(key, f"{what} has {name!r} twice")
            else:
                found[name] = value
        return list(found.items())


def parse_interval(text: str) -> tuple[float, float] | None:
    """The closed interval that a condition's text stands for, or None.

    >>> parse_interval("3"), parse_interval(">= 2"), parse_interval("2..15")
    ((3.0, 3.0), (2.0, inf), (2.0, 15.0))
    """
    if match := RANGE.fullmatch(text):
        return float(match[1]), float(match[2])
    if match := COMPARISON.fullmatch(text):
        value = float(match[2])
        match match[1]:
            case "<=":
                return -math.inf, value
            case "<":
                return -math.inf, math.nextafter(value, -math.inf)
            case ">=":
                return value, math.inf
            case _:
                return math.nextafter(value, math.inf), math.inf
    try:
        value = float(text)
    except ValueError:
        return None
    return (value, value) if math.isfinite(value) else None
