"""From a stream of records to laws, on the stream's own time and no other."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wactl
from wactl.controller import learner as module
from wactl.controller.family import Family
from wactl.controller.learner import Learner
from wactl.controller.rules import Hints, Rule, Rules
from wactl.controller.settings import Settings
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.features import GENERATED, POSITION, TURN, TYPE, blank_features, digest
from wactl.policies.messages import Admission, Finish
from wactl.policies.parameters import ParameterSet
from wactl.policies.recorder import Recorder
from wactl.policies.sample import keys_of
from wactl.policies.table import Condition, compile_table, rule_of

PAUSE = 5.0
TURNS = 12
AGENTS = Rule("agents", (Condition(TYPE, digest("agent"), digest("agent")),), refine=False)
REST = Rule("rest", refine=False)
BY_TYPE = (AGENTS, REST)

Hashes = Callable[[Sequence[object]], list[bytes]]
Record = Admission | Finish
Stream = Callable[[], Iterator[Record]]


@pytest.fixture
def stream(hashes: Hashes) -> Stream:
    """Ten minutes of agents that come back after five seconds or so, and one-off documents.

    An agent's turns call tools with few tokens, but for the last, which is a long answer.
    """

    def records() -> Iterator[Record]:
        rng = random.Random(7)
        due: list[tuple[float, str, int, int]] = []
        for number in range(100):
            time = rng.uniform(0, 500)
            for turn in range(1, TURNS + 1):
                due.append((time, f"agent {number}", turn, 500 if turn == TURNS else 20))
                time += rng.expovariate(1 / PAUSE)
        due += [(rng.uniform(0, 600), f"document {number}", 4, 100) for number in range(600)]
        recorder = Recorder(1000)
        for time, name, turn, generated in sorted(due):
            features = blank_features(64 * turn)
            features[TYPE] = digest(name.split()[0])
            keys = keys_of(hashes([(name, block) for block in range(4 * turn)]))
            yield recorder.admit(name, keys, 0, features, time)
            done = recorder.finish(name, generated, time + 1.0)
            assert done is not None
            yield done[1]

    return records


def take(learner: Learner, record: Record) -> None:
    if isinstance(record, Admission):
        learner.admit(record)
    else:
        learner.finish(record)


def learn(rules: Rules, records: Iterator[Record], **settings: Any) -> Learner:
    """A learner that has seen all of it, refitted as time passed."""
    learner = Learner(Settings(**settings), rules)
    now = 0.0
    for record in records:
        now = record.time
        learner.step(now)
        take(learner, record)
    learner.step(now + 30.0)
    return learner


def law_of(learner: Learner, name: str) -> Any:
    """The fit of a rule."""
    slot = next(slot for slot, rule in learner.categories.rules.items() if rule.name == name)
    assert learner.fits is not None
    return learner.fits.nodes[learner.categories.tree.roots[slot]]


@pytest.mark.parametrize("family", Family)
def test_agents_and_documents_get_laws_apart(stream: Stream, family: Family) -> None:
    """Told apart by type, agents are reused within seconds but for the last turn, documents not."""
    learner = learn(BY_TYPE, stream(), families=(family,))
    agents, documents = law_of(learner, "agents"), law_of(learner, "rest")
    assert agents.law.p == pytest.approx(sum(range(1, TURNS)) / sum(range(1, TURNS + 1)), rel=0.02)
    assert agents.law.mean == pytest.approx(PAUSE, rel=0.1)
    assert agents.law.lifespan < 150.0
    assert documents.law.p < 0.03
    assert documents.requests == pytest.approx(600, rel=0.1)


def test_without_rules_the_model_separates_them(stream: Stream) -> None:
    """It finds that agents come back, and that the long answer ends them, which no rule told."""
    learner = learn((Rule("other"),), stream())
    parameters = learner.parameters(1)
    assert parameters is not None
    found = {}
    for name, turn, generated in (("agent", 5, 20), ("agent", TURNS, 500), ("document", 1, 100)):
        features = blank_features(256)
        features[TYPE], features[TURN], features[GENERATED] = digest(name), turn, generated
        number = learner.categories.of(features)[0] - FIRST_CATEGORY
        found[name, turn] = parameters.laws[number].p
    assert found["agent", 5] > 0.9
    assert found["agent", TURNS] < 0.4
    assert found["document", 1] < 0.1


def test_the_same_stream_gives_the_same_parameters(stream: Stream) -> None:
    """Two learners that saw the same records push the same set, to the last bit."""
    first, second = (learn((Rule("other"),), stream()).parameters(3) for _ in range(2))
    assert isinstance(first, ParameterSet)
    assert first.problem() is None
    assert first == second
    assert len(first.laws) > 2


def test_laws_come_when_they_are_due(stream: Stream) -> None:
    """The first fit comes a refit interval after the first look, the next one another later."""
    learner = Learner(Settings(), BY_TYPE)
    assert not learner.step(1000.0)
    for record in stream():
        take(learner, record)
    assert not learner.step(1029.0)
    assert learner.parameters(1) is None
    assert learner.step(1030.0)
    assert learner.parameters(1) is not None
    assert not learner.step(1031.0)
    assert learner.step(1060.0)


class Engine:
    """Admits requests of eight blocks to one recorder, and finishes them."""

    def __init__(self, hashes: Hashes) -> None:
        self.recorder = Recorder(1000)
        self.hashes = hashes

    def admit(self, now: float, name: str = "a", hits: int = 0, **how: Any) -> Admission:
        keys = keys_of(self.hashes([(name[0], block) for block in range(8)]))
        features = blank_features(128)
        features[TYPE] = digest(name[0])
        return self.recorder.admit(name, keys, hits, features, now, **how)

    def finish(self, now: float, name: str = "a", generated: int = 20) -> Finish:
        done = self.recorder.finish(name, generated, now)
        assert done is not None
        return done[1]


@pytest.fixture
def engine(hashes: Hashes) -> Engine:
    return Engine(hashes)


def counted(learner: Learner, now: float) -> tuple[float, ...]:
    """Prompt blocks, hits, reuses, blocks that wait, and requests in the cells."""
    events, censored = learner.reuse.counts(now)
    sums = (events, censored, learner.cells.table["requests"])
    return learner.blocks, learner.hits, *(round(float(counts.sum())) for counts in sums)


def test_a_replay_after_preemption_is_neither_reuse_nor_miss(engine: Engine) -> None:
    """The second admission of a preempted request changes no count."""
    learner = Learner(Settings(), BY_TYPE)
    learner.admit(engine.admit(0.0))
    before = counted(learner, 1.0)
    assert before == (8, 0, 0, 8, 1)
    learner.admit(engine.admit(1.0, hits=3, replay=True))
    assert counted(learner, 1.0) == before


def test_a_request_that_does_not_read_the_cache_has_no_misses(engine: Engine) -> None:
    """It is counted as a request and as a reuse of its blocks, but not in the hit ratio."""
    learner = Learner(Settings(), BY_TYPE)
    learner.admit(engine.admit(0.0))
    learner.finish(engine.finish(0.5))
    learner.admit(engine.admit(1.0, unread=True))
    learner.finish(engine.finish(1.5))
    assert counted(learner, 1.0) == (8, 0, 8, 8, 2)
    for tally in (learner.tally, learner.by_rule):
        assert (tally.requests.sum(), tally.blocks.sum(), tally.hits.sum()) == (2, 8, 0)


def test_hits_are_booked_where_the_carried_blocks_are(engine: Engine) -> None:
    """A second request's hits and carried blocks belong to the rule for carried blocks."""
    carried = Rule("carried", (Condition(POSITION, 1.0, 1.0),), refine=False)
    learner = Learner(Settings(), (carried, REST))
    learner.step(0.0)
    learner.step(30.0)  # from now on there is a tree
    for time, hits in ((40.0, 0), (41.0, 7)):
        learner.admit(engine.admit(time, hits=hits))
        learner.finish(engine.finish(time + 0.5))
    slots = list(learner.categories.rules)
    numbers = [FIRST_CATEGORY + learner.categories.numbers(slot)[0] for slot in slots]
    for tally, at in ((learner.by_rule, slots), (learner.tally, numbers)):
        assert tally.requests[at].tolist() == [0, 2]
        assert tally.blocks[at].tolist() == [8, 8]
        assert tally.hits[at].tolist() == [7, 0]
        assert tally.requests.sum() == 2


def cells_of(learner: Learner) -> dict[tuple[int, int], float]:
    """Requests by the buckets of turn and output, where there are any."""
    table = learner.cells.table[learner.cells.table["requests"] > 0.0]
    return {(int(c["buckets"][2]), int(c["buckets"][5])): float(c["requests"]) for c in table}


def test_a_finish_moves_what_nobody_used_since(engine: Engine) -> None:
    """A request counts under its output once that is known; its blocks only if still its own."""
    learner = Learner(Settings(), BY_TYPE)
    learner.admit(engine.admit(0.0, "a1"))
    assert cells_of(learner) == {(0, 0): 1.0}
    learner.admit(engine.admit(1.0, "a2"))
    waiting = learner.reuse.ghosts[learner.reuse.ghosts["key"] != 0]["cell"].copy()
    learner.finish(engine.finish(2.0, "a1", 500))
    # The output of the first tells of its cell, but its blocks are the second's by now.
    assert cells_of(learner) == {(0, 7): 1.0, (1, 0): 1.0}
    assert np.array_equal(learner.reuse.ghosts[learner.reuse.ghosts["key"] != 0]["cell"], waiting)
    learner.finish(engine.finish(3.0, "a2", 3))
    assert cells_of(learner) == {(0, 7): 1.0, (1, 2): 1.0}
    assert not np.intersect1d(
        learner.reuse.ghosts[learner.reuse.ghosts["key"] != 0]["cell"], waiting
    ).size


def test_a_finish_of_nobody_known_changes_nothing(engine: Engine) -> None:
    """The admission may have been lost, or have come before the sidecar."""
    learner = Learner(Settings(), BY_TYPE)
    learner.admit(engine.admit(0.0))
    before = counted(learner, 1.0)
    assert learner.finish(Finish(1.0, 99, 5)) is None
    finish = engine.finish(1.0)
    assert learner.finish(finish) is not None
    assert learner.finish(finish) is None
    assert counted(learner, 1.0) == before
    assert learner.by_rule.requests.sum() == 1


def test_running_requests_are_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that never finish are forgotten, the oldest first; what they were stays counted."""
    monkeypatch.setattr(module, "RUNNING", 10)
    learner = Learner(Settings(), BY_TYPE)
    for number in range(30):
        learner.admit(engine.admit(float(number), f"a{number}"))
    assert learner.finish(engine.finish(40.0, "a19")) is None
    assert learner.finish(engine.finish(40.0, "a20")) is not None
    assert len(learner._running) == 9
    assert learner.cells.table["requests"].sum() == 30.0


def test_other_rules_keep_what_was_learned_of_those_that_stay(stream: Stream) -> None:
    """At the next look there are laws again; of the rule that stays the same, of a new one none."""
    learner = learn(BY_TYPE, stream())
    before = law_of(learner, "agents")
    requests = learner.by_rule.requests.sum()
    now = learner.fitted_at
    assert now is not None
    late = Rule("late", (Condition(TURN, 100.0, 200.0),), refine=False)
    learner.follow((late, AGENTS, REST))
    assert learner.parameters(2) is None
    assert learner.step(now + 0.1)
    parameters = learner.parameters(2)
    assert parameters is not None and parameters.problem() is None
    assert [rule.name for rule in parameters.table.rules] == ["late", "agents", "rest"]
    after = law_of(learner, "agents")
    assert after.law.p == pytest.approx(before.law.p, rel=0.02)
    assert after.requests == pytest.approx(before.requests, rel=0.02)
    assert law_of(learner, "late").requests == 0.0
    assert learner.by_rule.requests.sum() == requests


def test_blocks_under_a_rule_that_is_gone_keep_a_law(stream: Stream) -> None:
    """Its number stays in the table, with the law of its cells, until the engine has none left."""
    learner = learn(BY_TYPE, stream())
    (slot, *_) = learner.categories.rules
    (number,) = learner.categories.numbers(slot)
    now = learner.fitted_at
    assert now is not None
    learner.follow((REST,))
    learner.step(now + 0.1)
    parameters = learner.parameters(2)
    assert parameters is not None
    assert parameters.laws[number].p > 0.8
    learner.categories.drained(())
    assert not learner.categories.numbers(slot)
    features = blank_features(64)
    features[TYPE] = digest("agent")
    assert rule_of(compile_table(parameters.table), features) == 0


def test_an_operators_hints_hold(stream: Stream) -> None:
    """A mean is believed where nothing was seen; a lifespan also where it was."""
    nightly = Rule("nightly", (Condition(TURN, 100.0, 200.0),), hints=Hints(mean_seconds=40.0))
    agents = replace(AGENTS, hints=Hints(mean_seconds=40.0, lifespan_seconds=9.0))
    learner = learn((nightly, agents, REST), stream())
    assert law_of(learner, "nightly").law.mean == pytest.approx(40.0, rel=0.1)
    assert law_of(learner, "agents").law.mean == pytest.approx(PAUSE, rel=0.1)
    assert law_of(learner, "agents").law.lifespan == 9.0
    parameters = learner.parameters(1)
    assert parameters is not None
    (number,) = learner.categories.numbers(list(learner.categories.rules)[1])
    assert parameters.laws[number].lifespan == 9.0


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
