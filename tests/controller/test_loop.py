"""The whole loop on real traffic: it takes what helps, and notices what does harm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from wactl.controller.contest import LRU, SHORT
from wactl.controller.gate import Gate, Phase
from wactl.controller.loop import Loop
from wactl.controller.rules import load_rules
from wactl.controller.settings import Settings
from wactl.policies.ages import AGES
from wactl.policies.intake import orders_of
from wactl.policies.parameters import MIN_HAZARD, Law, ParameterSet
from wactl.simulations.cache import SimulatedCache
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate
from wactl.simulations.readers import load_trace
from wactl.simulations.trace import Trace

CAPACITY = 1000
HARM = 600.0
"""Seconds after which the engine begins to lie."""


@pytest.fixture
def conversation(shared_trace: Callable[[str], Path]) -> Trace:
    """A production trace."""
    return load_trace(str(shared_trace("mooncake_conversation.jsonl.gz")))


def inverted(parameters: ParameterSet) -> ParameterSet:
    """What is reused soonest goes first."""

    def turned(law: Law) -> Law:
        worth = law.p / min(law.mean, 1e6)
        hazard = max(MIN_HAZARD, min(1e3, 1e-6 / max(worth, 1e-9)))
        return Law((0.5,), (0.1,), 1e6, (hazard,) * len(AGES))

    laws = tuple(turned(law) for law in parameters.laws)
    return msgspec.structs.replace(parameters, laws=laws, default=turned(parameters.default))


def drive(trace: Trace, until: float, lies: float = np.inf) -> tuple[Loop, list[Gate]]:
    """Serve the trace; from ``lies`` on the engine runs inverted scores, and says it does not."""
    settings = Settings()
    cache = SimulatedCache(trace, CAPACITY)
    loop = Loop(settings, load_rules(settings.rules), CAPACITY, cache.recorder.shift)
    gates, version = [loop.gate], 0
    for request in range(int(np.searchsorted(trace.times, until))):
        now = float(trace.times[request])
        admission, finish = cache.serve(request)
        loop.admit(admission)
        loop.finish(finish)
        if loop.step(now):
            version += 1
            if parameters := loop.parameters(version):
                lying = now >= lies and parameters.trust
                cache.obey(orders_of(inverted(parameters) if lying else parameters))
                loop.ran(loop.gate.running, now)
                loop.drained(cache.queue.cached().tolist())
        if loop.gate != gates[-1]:
            gates.append(loop.gate)
    return loop, gates


def test_it_takes_what_helps(conversation: Trace) -> None:
    """Soon after there are laws, and more is hit than under LRU."""
    loop, gates = drive(conversation, HARM)
    assert gates[0] == Gate()
    assert gates[1].phase is Phase.STEADY
    assert 30.0 <= gates[1].since < 60.0
    assert loop.gate.running in loop.candidates
    assert loop.saved_blocks > 0
    lru, engine = loop.contest.total_hits[[0, -1]]
    assert engine > 1.3 * lru


def test_an_engine_that_does_something_else_is_stood_down() -> None:
    """Its shadow sees nothing wrong; what the engine hits does, within two minutes."""
    traffic = generate("mixed", Plan(seconds=HARM + 200.0))
    _, gates = drive(traffic, HARM + 130.0, lies=HARM)
    assert [gate.phase for gate in gates if gate.since < HARM][-1] is Phase.STEADY
    fallen = next(gate for gate in gates if gate.since >= HARM and gate.phase is Phase.FALLBACK)
    assert fallen.running == LRU
    assert fallen.since <= HARM + 120.0
    assert "the engine is" in fallen.reason


def test_the_offset_of_an_engine_that_runs_lru(conversation: Trace) -> None:
    """Known after a minute of it: the shadow is that very cache, followed in full or not."""
    settings = Settings()
    cache = SimulatedCache(conversation, CAPACITY)
    loop = Loop(settings, load_rules(settings.rules), CAPACITY, cache.recorder.shift)
    for request in range(int(np.searchsorted(conversation.times, 300.0))):
        now = float(conversation.times[request])
        admission, finish = cache.serve(request)
        loop.admit(admission)
        loop.finish(finish)
        loop.ran(LRU, now)
        assert loop.contest.calibrated == (now >= conversation.times[0] + SHORT)
    assert abs(loop.contest.offset.points) < 0.01


def test_the_same_records_lead_to_the_same_decisions(conversation: Trace) -> None:
    """And to the same laws."""
    one, other = (drive(conversation, 300.0) for _ in range(2))
    assert one[1] == other[1]
    assert one[0].parameters(7) == other[0].parameters(7)


def test_without_trust_while_lru_runs(conversation: Trace) -> None:
    """So that the engine is told its categories all the same."""
    loop, _ = drive(conversation, 300.0)
    running = loop.parameters(2)
    loop.gate = replace(loop.gate, phase=Phase.FALLBACK, running=LRU)
    resting = loop.parameters(3)
    assert running is not None and resting is not None
    assert (running.trust, resting.trust) == (1.0, 0.0)
    assert running.table == resting.table
