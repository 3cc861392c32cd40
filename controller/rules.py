"""Category rules: from the operator's YAML to a decision table, mistakes named by line."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..policies.errors import WactlError
from ..policies.features import BUCKETS, FEATURES, POSITION, WORDS, digest
from ..policies.table import Condition, DecisionTable, Rule

COMPARISON = re.compile(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)")
RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\s*\.\.\s*(-?\d+(?:\.\d+)?)")
KEYS = {"category", "when", "split"}


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


def load_rules(path: Path) -> DecisionTable:
    """The decision table of a rule file. Raises `RulesError` with every mistake in it."""
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
    table = reader.table(root)
    if not reader.mistakes and (wrong := table.problem()):
        reader.mistake(root, wrong)
    if reader.mistakes:
        raise RulesError(reader.mistakes)
    return table


class _Reader:
    """Walks the YAML nodes, which still know their lines, and collects what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mistakes: list[Mistake] = []
        self.names: set[str] = set()

    def mistake(self, node: yaml.Node | None, text: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 1
        self.mistakes.append(Mistake(self.path, line, text))

    def table(self, root: yaml.Node | None) -> DecisionTable:
        entries = dict(self.pairs(root, "the file", {"rules"}))
        rules = entries.get("rules")
        if not isinstance(rules, yaml.SequenceNode):
            self.mistake(rules or root, "needs `rules:` with a list of rules")
            return DecisionTable(())
        return DecisionTable(tuple(self.rule(node) for node in rules.value))

    def rule(self, node: yaml.Node) -> Rule:
        entries = dict(self.pairs(node, "a rule", KEYS))
        name = entries.get("category")
        if not isinstance(name, yaml.ScalarNode) or not name.value:
            self.mistake(name or node, "a rule needs `category:` with a name")
        elif wrong := Rule(name.value, (), ()).problem():
            self.mistake(name, f"a rule {wrong}")
        elif name.value in self.names:
            self.mistake(name, f"there is a category {name.value!r} already")
        else:
            self.names.add(name.value)
        conditions = []
        if when := entries.get("when"):
            for feature, value in self.pairs(when, "`when`", set(FEATURES)):
                if condition := self.condition(feature, value):
                    conditions.append(condition)
        splits = self.splits(entries.get("split"))
        return Rule(str(name.value) if name is not None else "", tuple(conditions), splits)

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

    def splits(self, node: yaml.Node | None) -> tuple[int, ...]:
        if node is None:
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.mistake(node, "`split` needs a list of features")
            return ()
        found: list[int] = []
        names = ", ".join(FEATURES[feature] for feature in BUCKETS)
        for item in node.value:
            name = str(item.value)
            if name not in FEATURES or FEATURES.index(name) not in BUCKETS:
                self.mistake(item, f"cannot split by {name!r}; only by {names}")
            elif FEATURES.index(name) in found:
                self.mistake(item, f"splits by {name} twice")
            else:
                found.append(FEATURES.index(name))
        return tuple(found)

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
