"""Every change the gate may make, on made-up evidence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wactl.controller.contest import ENGINE, LRU, SHORT, Lead
from wactl.controller.gate import (
    BEHIND,
    EVIDENCE,
    LONGEST_REST,
    REST,
    SAMPLING,
    Gate,
    Phase,
    decide,
    rest,
)

BOTH = ("one", "other")
EXACT = Lead(0.0, 0.0, 0.0)
NOISE = 0.004
"""Of every lead made up here."""


@dataclass(frozen=True)
class Told:
    """By how much each is ahead of LRU: over both windows, or over the short one."""

    ahead: dict[str, float] = field(default_factory=dict)
    lately: dict[str, float] = field(default_factory=dict)
    told: float = 1000.0
    sampled: bool = False
    offset: Lead = EXACT

    def lead(self, one: str, other: str, window: float) -> Lead:
        of = {**self.ahead, **self.lately} if window == SHORT else self.ahead
        return Lead(of.get(one, 0.0) - of.get(other, 0.0), NOISE, self.told)


RUNS = Gate(Phase.STEADY, "one", 100.0, "it is good", 0)
RESTS = Gate(Phase.FALLBACK, LRU, 100.0, "it was bad", 1)
LATER = 100.0 + REST


def look(gate: Gate, told: Told, now: float = LATER, *, obeyed: bool = True) -> Gate:
    return decide(gate, told, BOTH, now, obeyed=obeyed)


def test_lru_runs_until_nobody_is_behind() -> None:
    """Both were tried in shadow and lost."""
    behind = Told({"one": -0.01, "other": -0.001})
    assert look(Gate(), behind) == Gate()


def test_with_laws_the_best_that_is_not_behind_runs() -> None:
    """No evidence is asked for: there is nothing to lose yet."""
    told = Told({"one": 0.0, "other": 0.001}, told=0.0)
    found = look(Gate(), told, 30.0)
    assert (found.phase, found.running, found.since) == (Phase.STEADY, "other", 30.0)
    assert found.reason == "there are laws, and other is not behind LRU"


def test_who_lost_lately_does_not_begin() -> None:
    """Though it is ahead over the long window."""
    assert look(Gate(), Told({"one": 0.1}, {"one": -2 * NOISE, "other": -2 * NOISE})) == Gate()
    rested = Told({"one": 0.1}, {"one": -2 * NOISE})
    assert look(RESTS, rested, LATER) == RESTS


def test_what_runs_goes_on_when_nothing_is_clear() -> None:
    """Behind within noise, behind by next to nothing, another ahead within noise."""
    for told in (
        Told({"one": -0.9 * NOISE}),
        Told({"one": 0.0, "other": 2.9 * NOISE}),
        Told({"one": 0.1}, {"one": -1.9 * NOISE}),
        Told({"one": -0.1, ENGINE: -0.1}, told=EVIDENCE - 1),
    ):
        assert look(RUNS, told) == RUNS


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (Told({"one": -1.1 * NOISE}), 600),
        (Told({"one": 0.1}, {"one": -2.1 * NOISE}), 60),
    ],
    ids=["long", "short"],
)
def test_it_falls_when_its_shadow_is_behind(told: Told, seconds: int) -> None:
    """Over either window."""
    found = look(RUNS, told)
    assert (found.phase, found.running, found.falls) == (Phase.FALLBACK, LRU, 1)
    assert found.since == LATER
    assert f"one stood down: over {seconds} s its shadow is " in found.reason


def test_next_to_nothing_is_no_fall_even_beyond_noise() -> None:
    """Noise may be very small where hits are few."""

    class Sure(Told):
        def lead(self, one: str, other: str, window: float) -> Lead:
            return Lead(super().lead(one, other, window).points, 0.0, 1000.0)

    assert look(RUNS, Sure({"one": -0.9 * BEHIND, "other": -1.0})) == RUNS
    assert look(RUNS, Sure({"one": -1.1 * BEHIND})).phase is Phase.FALLBACK


def test_it_falls_by_what_the_engine_hits() -> None:
    """Its shadow sees nothing wrong; but only if the engine has run it for long enough."""
    told = Told({"one": 0.1, ENGINE: -3.1 * NOISE})
    found = look(RUNS, told)
    assert found.phase is Phase.FALLBACK
    assert "the engine is 1.2 points behind LRU" in found.reason
    assert look(RUNS, told, obeyed=False) == RUNS


def test_what_it_misses_under_lru_as_well_is_not_held_against_it() -> None:
    """The offset comes off, and adds its own noise."""
    behind = Told({"one": 0.1, ENGINE: -3.1 * NOISE}, offset=Lead(0.2 * NOISE, 0.0, 1000.0))
    assert look(RUNS, behind) == RUNS
    ahead = Told({"one": 0.1, ENGINE: -2.9 * NOISE}, offset=Lead(-0.2 * NOISE, 0.0, 1000.0))
    assert "the engine is 1.2 points behind LRU" in look(RUNS, ahead).reason
    unsure = Told({"one": 0.1, ENGINE: -4 * NOISE}, offset=Lead(0.0, NOISE, 1000.0))
    assert look(RUNS, unsure) == RUNS


def test_of_a_sample_the_engine_may_differ_by_more() -> None:
    """Over the long window only, and by what sampling may do."""
    within = Told({"one": 0.1, ENGINE: -SAMPLING}, {ENGINE: -0.5}, sampled=True)
    assert look(RUNS, within) == RUNS
    beyond = Told({"one": 0.1, ENGINE: -SAMPLING - 1.1 * BEHIND}, sampled=True)
    found = look(RUNS, beyond)
    assert found.phase is Phase.FALLBACK
    assert "over 600 s the engine" in found.reason
    assert look(RUNS, beyond, obeyed=False) == RUNS


def test_a_better_one_takes_over() -> None:
    """Beyond noise."""
    found = look(RUNS, Told({"one": 0.05, "other": 0.05 + 3.1 * NOISE}))
    assert (found.phase, found.running) == (Phase.STEADY, "other")
    assert found.reason == "other is 1.2 points ahead of one"


def test_after_a_fall_the_best_that_looks_better_runs_again() -> None:
    """Not before LRU has had its time, and not on little evidence."""
    told = Told({"one": 2.1 * NOISE, "other": 2.5 * NOISE})
    assert look(RESTS, told, LATER - 1.0) == RESTS
    assert look(RESTS, Told(told.ahead, told=EVIDENCE - 1)) == RESTS
    assert look(RESTS, Told({"one": 1.9 * NOISE})) == RESTS
    found = look(RESTS, told)
    assert (found.phase, found.running, found.falls) == (Phase.STEADY, "other", 1)


def test_lru_stays_twice_as_long_after_each_fall() -> None:
    """Up to an hour."""
    assert [rest(falls) for falls in (1, 2, 3)] == [REST, 2 * REST, 4 * REST]
    assert rest(50) == rest(5000) == LONGEST_REST


def test_falls_are_forgiven() -> None:
    """When it has run for an hour."""
    gate = Gate(Phase.STEADY, "one", 0.0, "it is good", 5)
    assert look(gate, Told(), LONGEST_REST) == gate
    assert look(gate, Told(), LONGEST_REST + 1.0) == Gate(Phase.STEADY, "one", 0.0, gate.reason, 0)


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The machine may be busy."""

Look = tuple[dict[str, float], dict[str, float], bool, bool, float]
leads = st.dictionaries(st.sampled_from((*BOTH, ENGINE)), st.floats(-0.2, 0.2))
looks = st.lists(
    st.tuples(leads, leads, st.booleans(), st.booleans(), st.floats(0.0, 200.0)), max_size=60
)


@UNHURRIED
@given(looks)
def test_whatever_is_told(told: list[Look]) -> None:
    """The same evidence leads to the same state, and LRU always gets its rest."""
    histories = []
    for _ in range(2):
        now, gates = 0.0, [Gate()]
        for ahead, lately, sampled, obeyed, pause in told:
            now += 5.0 + pause
            evidence = Told(ahead, lately, 1000.0, sampled)
            gates.append(decide(gates[-1], evidence, BOTH, now, obeyed=obeyed))
        histories.append(gates)
    assert histories[0] == histories[1]
    for before, after in itertools.pairwise(histories[0]):
        assert (after.running == LRU) == (after.phase is not Phase.STEADY)
        if after.phase is Phase.FALLBACK and before.phase is not Phase.FALLBACK:
            assert after.falls == before.falls + 1
        if before.phase is Phase.FALLBACK and after.phase is not Phase.FALLBACK:
            assert after.since - before.since >= rest(before.falls)
        assert after.phase is not Phase.WARMING or before.phase is Phase.WARMING
