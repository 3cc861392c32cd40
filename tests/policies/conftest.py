"""Parameter sets, engine states and a naive reading of the rules, for all tests of policies."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY
from wactl.policies.features import GENERATED, POSITION, TURN
from wactl.policies.messages import EngineState
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.table import Condition, DecisionTable, Node, Rule

# A first call may compile a kernel, whatever deadline there is.
settings.register_profile("wactl", deadline=None)
settings.load_profile("wactl")


@pytest.fixture(scope="session")
def example() -> Callable[..., ParameterSet]:
    """Makes valid parameter sets, version 1 unless told so, with the fields given replaced."""
    rules = (Rule("first turns", (Condition(TURN, 1.0, 1.0),), 0), Rule("others", (), 1))
    nodes = (
        Node(Condition(POSITION, 0.5, 1.0), -1, -2),
        Node(Condition(GENERATED, 0.0, 64.0), 2, -3),
        Node(Condition(POSITION, 0.5, 1.0), -4, -5),
    )
    count = 5
    table = DecisionTable(1, count, rules, nodes)
    laws = tuple(Law((0.5, 0.4 * i / count), (0.1, 0.01), 600.0) for i in range(count))

    def make(**changed: Any) -> ParameterSet:
        fields: dict[str, Any] = {
            "version": 1,
            "ttl": 60.0,
            "trust": 0.75,
            "score": Score.HAZARD,
            "horizon": 60.0,
            "default": Law((0.4,), (0.05,), 3600.0),
            "laws": laws,
            "table": table,
        }
        return ParameterSet(**(fields | changed))

    return make


@pytest.fixture(scope="session")
def engine_state() -> EngineState:
    """What an engine that just started tells about itself."""
    return EngineState(
        rank=0,
        pid=1,
        version="0.32.0",
        block_tokens=16,
        blocks=1000,
        shift=0,
        active=0,
        newest=0,
        order="lru",
        reason="no parameters received yet",
        free=1000,
        cached=(0, 0, 0),
        evicted=0,
        orphans=0,
        admitted=0,
        dropped=0,
        accepted=0,
        rejected=0,
        errors=0,
        exempt_groups=0,
    )


@pytest.fixture(scope="session")
def naive_category() -> Callable[[DecisionTable, Sequence[float]], int]:
    """The category id of a feature vector, read off the table place by place in plain Python."""

    def holds(condition: Condition, features: Sequence[float]) -> bool:
        return condition.low <= features[condition.feature] <= condition.high

    def follow(table: DecisionTable, place: int, features: Sequence[float]) -> int:
        if place < 0:
            return FIRST_CATEGORY + abs(place) - 1
        node = table.nodes[place]
        inside = holds(node.condition, features)
        return follow(table, node.inside if inside else node.outside, features)

    def category(table: DecisionTable, features: Sequence[float]) -> int:
        for rule in table.rules:
            if all(holds(condition, features) for condition in rule.conditions):
                return follow(table, rule.root, features)
        return DEFAULT

    return category


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A private folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
