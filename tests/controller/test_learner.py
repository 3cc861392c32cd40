"""From a stream of records to laws, on the stream's own time and no other."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wactl
from wactl.controller.family import Family
from wactl.controller.learner import Learner
from wactl.controller.rules import load_rules
from wactl.controller.settings import CONFIG, Settings
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.features import TYPE, digest
from wactl.policies.messages import Admission
from wactl.policies.parameters import ParameterSet
from wactl.policies.recorder import Recorder, blank_features
from wactl.policies.sample import keys_of
from wactl.policies.table import Condition, DecisionTable, Rule

PAUSE = 5.0
TURNS = 12
BY_TYPE = DecisionTable(
    (
        Rule("agents", (Condition(TYPE, digest("agent"), digest("agent")),), ()),
        Rule("rest", (), ()),
    )
)

Hashes = Callable[[Sequence[object]], list[bytes]]


@pytest.fixture
def stream(hashes: Hashes) -> Callable[[], Iterator[Admission]]:
    """Ten minutes of agents that come back after five seconds or so, and one-off documents."""

    def records() -> Iterator[Admission]:
        rng = random.Random(7)
        due: list[tuple[float, str, int]] = []
        for number in range(100):
            time = rng.uniform(0, 500)
            for turn in range(1, TURNS + 1):
                due.append((time, f"agent {number}", turn))
                time += rng.expovariate(1 / PAUSE)
        due += [(rng.uniform(0, 600), f"document {number}", 4) for number in range(600)]
        recorder = Recorder(1000)
        for time, name, turn in sorted(due):
            features = blank_features(64 * turn)
            features[TYPE] = digest(name.split()[0])
            blocks = hashes([(name, block) for block in range(4 * turn)])
            yield recorder.admit(f"{name}-{turn}", keys_of(blocks), 0, features, time)

    return records


def learn(
    table: DecisionTable,
    records: Iterator[Admission],
    family: Family = Family.MIXTURE,
) -> Learner:
    """A learner that has seen all of it, refitted as time passed."""
    learner = Learner(Settings(family=family), table)
    now = 0.0
    for admission in records:
        now = admission.time
        learner.step(now)
        learner.observe(admission)
    learner.step(now + 30.0)
    return learner


@pytest.mark.parametrize(("family", "lifespan"), [("exponential", 120.0), ("mixture", 150.0)])
def test_agents_and_documents_get_laws_apart(
    stream: Callable[[], Iterator[Admission]], family: str, lifespan: float
) -> None:
    """Told apart by type, agents are reused within seconds but for the last turn, documents not.

    A mixture's lifespan is known to a bin of ages only, 25 % wide.
    """
    learner = learn(BY_TYPE, stream(), Family(family))
    assert learner.fits is not None
    agents, documents = learner.fits.rules
    assert agents.law.p == pytest.approx(sum(range(1, TURNS)) / sum(range(1, TURNS + 1)), rel=0.01)
    assert agents.law.mean == pytest.approx(PAUSE, rel=0.1)
    assert agents.law.lifespan < lifespan
    assert documents.law.p < 0.03
    assert documents.evidence == pytest.approx(600 * 16, rel=0.1)


def test_the_shipped_rules_separate_them_without_being_told(
    stream: Callable[[], Iterator[Admission]],
) -> None:
    """Later turns, which only agents have, are found likelier to be reused than first ones."""
    learner = learn(load_rules(CONFIG / "rules.yaml"), stream())
    assert learner.fits is not None
    opening, follow_up = learner.fits.rules
    assert opening.law.p < 0.3
    assert follow_up.law.p > 0.8
    assert follow_up.law.mean == pytest.approx(PAUSE, rel=0.1)


def test_the_same_stream_gives_the_same_parameters(
    stream: Callable[[], Iterator[Admission]],
) -> None:
    """Two learners that saw the same records push the same set, to the last bit."""
    table = load_rules(CONFIG / "rules.yaml")
    first, second = (learn(table, stream()).parameters(3) for _ in range(2))
    assert isinstance(first, ParameterSet)
    assert first.problem() is None
    assert first == second


def test_laws_come_when_they_are_due(stream: Callable[[], Iterator[Admission]]) -> None:
    """The first fit comes a refit interval after the first look, the next one another later."""
    learner = Learner(Settings(), BY_TYPE)
    records = stream()
    assert not learner.step(1000.0)
    for admission in records:
        learner.observe(admission)
    assert not learner.step(1029.0)
    assert learner.parameters(1) is None
    assert learner.step(1030.0)
    assert learner.parameters(1) is not None
    assert not learner.step(1031.0)
    assert learner.step(1060.0)


@pytest.fixture
def record(hashes: Hashes) -> Callable[..., Admission]:
    """Admits requests of eight blocks to one recorder, which names them ``a``."""
    recorder = Recorder(1000)

    def admit(now: float, hits: int = 0, **how: Any) -> Admission:
        return recorder.admit("a", keys_of(hashes(range(8))), hits, blank_features(128), now, **how)

    return admit


def counted(learner: Learner, now: float) -> tuple[float, ...]:
    """Requests, prompt blocks, hits, reuses, and blocks that wait."""
    events, censored = learner.reuse.histograms(now)
    tally = learner.tally
    sums = (tally.requests, tally.blocks, tally.hits, events, censored)
    return tuple(round(float(counts.sum())) for counts in sums)


def test_a_replay_after_preemption_is_neither_reuse_nor_miss(
    record: Callable[..., Admission],
) -> None:
    """The second admission of a preempted request changes no count."""
    learner = Learner(Settings(), BY_TYPE)
    learner.observe(record(0.0))
    before = counted(learner, 1.0)
    assert before == (1, 8, 0, 0, 8)
    learner.observe(record(1.0, hits=3, replay=True))
    assert counted(learner, 1.0) == before


def test_a_request_that_does_not_read_the_cache_has_no_misses(
    record: Callable[..., Admission],
) -> None:
    """It is counted as a request and as a reuse of its blocks, but not in the hit ratio."""
    learner = Learner(Settings(), BY_TYPE)
    learner.observe(record(0.0))
    learner.observe(record(1.0, unread=True))
    assert counted(learner, 1.0) == (2, 8, 0, 8, 8)


def test_hits_are_booked_where_the_carried_blocks_are(record: Callable[..., Admission]) -> None:
    """A second request's hits and carried blocks belong to the carried part of its category."""
    table = load_rules(CONFIG / "rules.yaml")
    learner = Learner(Settings(), table)
    learner.observe(record(0.0))
    learner.observe(record(1.0, hits=7))
    names = [table.name(int(c) - FIRST_CATEGORY) for c in np.flatnonzero(learner.tally.blocks)]
    assert names == ["opening, unseen, new", "follow-up, turn 2, <2s, carried"]
    assert learner.tally.hits.sum() == 7
    assert np.all(learner.tally.hits <= learner.tally.blocks)


def clock_reads(path: Path) -> list[str]:
    """Where a module takes the time from the machine."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        found += [f"{path}:{node.lineno}" for name in names if name in ("time", "datetime")]
    return found


def test_no_module_of_the_loop_reads_a_clock() -> None:
    """Only the sidecar's shell, its commands and the plugin in vLLM may ask what time it is."""
    root = Path(wactl.__file__).parent
    modules = [*(root / "controller").glob("*.py"), *(root / "policies").glob("*.py")]
    assert len(modules) > 20
    shell = root / "controller" / "daemon.py"
    assert clock_reads(shell)
    assert [read for module in modules if module != shell for read in clock_reads(module)] == []
