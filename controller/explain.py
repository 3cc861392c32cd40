"""A request as an operator writes it, and the rule it falls under."""

from __future__ import annotations

import math

import numpy as np

from ..policies.errors import WactlError
from ..policies.features import FEATURES, POSITION, WORDS, blank_features, digest
from ..policies.table import DecisionTable, compile_table, rule_of
from ..policies.table import Rule as TableRule
from .rules import Rule, Rules


def parse_request(text: str) -> tuple[float, ...]:
    """The feature vector of ``turn=2, gap=10, type=chat``; what is left out is not known.

    Raises `WactlError` that names what is wrong.

    >>> parse_request("turn=2, gap=10")[:2]
    (2.0, 10.0)
    """
    features = blank_features(0)
    features[:3] = 1.0, -1.0, -1.0
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in FEATURES:
            raise WactlError(f"--request: no feature {name!r}; there are {', '.join(FEATURES)}")
        number = FEATURES.index(name)
        if number in WORDS:
            features[number] = digest(value)
        elif number == POSITION and value in ("new", "carried"):
            features[number] = value == "carried"
        else:
            features[number] = _number(name, value)
    return tuple(features.tolist())


def rule_for(rules: Rules, features: tuple[float, ...]) -> Rule:
    """The first rule that fits."""
    bare = tuple(TableRule(rule.name, rule.conditions, -1) for rule in rules)
    return rules[int(rule_of(compile_table(DecisionTable(0, 1, bare, ())), np.array(features)))]


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise WactlError(f"--request: {name} needs a number, not {value!r}")
    return number
