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
from wactl.policies.features import BUCKETS, POSITION, TURN
from wactl.policies.messages import EngineState
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.table import Condition, DecisionTable, Rule

# A first call may compile a kernel, whatever deadline there is.
settings.register_profile("wactl", deadline=None)
settings.load_profile("wactl")


@pytest.fixture(scope="session")
def example() -> Callable[..., ParameterSet]:
    """Makes valid parameter sets, version 1 unless told so, with the fields given replaced."""
    first = Rule("first turns", (Condition(TURN, 1.0, 1.0),), (POSITION,))
    table = DecisionTable((first, Rule("others", (), (TURN, POSITION))))
    count = table.categories
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
    """The category id of a feature vector, read off the table rule by rule in plain Python."""

    def category(table: DecisionTable, features: Sequence[float]) -> int:
        base = FIRST_CATEGORY
        for rule in table.rules:
            if all(c.low <= features[c.feature] <= c.high for c in rule.conditions):
                part = 0
                for feature in rule.splits:
                    edges, names = BUCKETS[feature]
                    part = part * len(names) + sum(features[feature] >= edge for edge in edges)
                return base + part
            base += rule.parts
        return DEFAULT

    return category


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A private folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
