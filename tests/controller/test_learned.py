"""A loop that goes on from what another one learned is as good as the other one."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from wactl.controller.gate import Gate, Phase
from wactl.controller.learned import WAITING, Learned, Origin, Pushed, go_on, snapshot
from wactl.controller.learner import REGROW
from wactl.controller.loop import Loop
from wactl.controller.rules import Rules, load_rules
from wactl.controller.settings import Settings
from wactl.controller.state import Stamped, encode
from wactl.policies.intake import orders_of
from wactl.policies.parameters import Law
from wactl.simulations.cache import SimulatedCache
from wactl.simulations.readers import load_trace
from wactl.simulations.trace import Trace
from wactl.simulations.workload import generate, trace_of

CAPACITY = 1000
SETTINGS = Settings()
RULES = load_rules(SETTINGS.rules)


class Lab:
    """A simulated engine and its loop, which may be put in another one's place."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.cache = SimulatedCache(trace, CAPACITY)
        self.loop = self.new_loop(1)
        self.origin = Origin("engine", 32, self.cache.recorder.shift)
        self.pushed: Pushed | None = None
        self.version = 0
        self.now = 0.0

    def new_loop(self, lineage: int, rules: Rules = RULES) -> Loop:
        return Loop(SETTINGS, rules, CAPACITY, self.cache.recorder.shift, lineage)

    def play(self, first: int, last: int) -> None:
        """Serve these requests."""
        for request in range(first, last):
            self.now = float(self.trace.times[request])
            admission, finish = self.cache.serve(request)
            self.loop.admit(admission)
            self.loop.finish(finish)
            if self.loop.step(self.now):
                self._push()

    def learned(self) -> Learned:
        return snapshot(self.loop, self.origin, self.pushed, self.now).pack()

    def resumed(
        self, lineage: int, engine: str = "engine", away: float = 0.0, offset: float = 5.0
    ) -> Loop:
        """Another loop that goes on from this one after ``away`` seconds.

        Another engine's clock showed ``offset`` when this one ended.
        """
        loop = self.new_loop(lineage)
        origin = Origin(engine, 32, self.origin.shift)
        clock = away + (self.now if engine == "engine" else offset)
        go_on(loop, self.learned(), origin, self.version, clock, away)
        return loop

    def hit_ratio(self, first: int, last: int) -> float:
        offsets = self.trace.offsets[first : last + 1]
        hits = self.cache.played().prefix_hits(offsets)
        return hits / int(offsets[-1] - offsets[0])

    def _push(self) -> None:
        self.version += 1
        if parameters := self.loop.parameters(self.version):
            changes = self.loop.learner.categories.numbering.changes
            self.pushed = Pushed(self.version, changes, self.loop.gate.running)
            self.cache.obey(orders_of(parameters))
            self.loop.ran(self.loop.gate.running, self.now)
            self.loop.drained(self.cache.queue.cached().tolist())


@pytest.fixture
def lab() -> Lab:
    """Ten minutes of the workload that ships, stopped where the tree is grown anew next."""
    lab = Lab(trace_of(generate(minutes=20.0), "shipped"))
    request = 0
    while lab.now < 600.0 or lab.loop.learner._refits % REGROW:
        lab.play(request, request + 1)
        request += 1
    return lab


def numbers(laws: Iterable[Law]) -> NDArray[np.float64]:
    """All numbers of some laws in one row."""
    return np.array([(*law.weights, *law.rates, law.lifespan, *law.hazards) for law in laws])


def by_region(loop: Loop) -> NDArray[np.float64]:
    """The laws of all traffic and of each region of the tree."""
    fits = loop.learner.fits
    assert fits is not None
    return numbers(fit.law for fit in (fits.everything, *fits.nodes))


def test_the_first_step_has_the_laws_there_would_have_been(lab: Lab) -> None:
    """At once, to the last digits that four bytes hold, in the same numbers and lineage."""
    resumed = lab.resumed(lineage=2)
    later = lab.now + SETTINGS.refit_seconds
    assert resumed.step(later) and lab.loop.step(later)
    ours, theirs = resumed.parameters(7), lab.loop.parameters(7)
    assert ours is not None and theirs is not None
    assert len(ours.laws) > 10 and ours.trust == theirs.trust == 1.0
    assert ours.table == theirs.table
    assert numbers(ours.laws) == pytest.approx(numbers(theirs.laws), rel=1e-4)
    assert by_region(resumed) == pytest.approx(by_region(lab.loop), rel=1e-4)


def test_it_does_not_wait_for_a_refit(lab: Lab) -> None:
    """The first step refits, whenever it is; the second one does not."""
    resumed = lab.resumed(lineage=2)
    assert resumed.step(lab.now) and resumed.parameters(1) is not None
    assert not resumed.step(lab.now + 1.0)


def test_another_engine_begins_with_the_same_laws_under_another_lineage(lab: Lab) -> None:
    """A clock from zero makes nothing older or younger; no total and no block goes along."""
    resumed = lab.resumed(lineage=2, engine="another")
    lab.loop.learner.hurry()
    assert resumed.step(5.0) and lab.loop.step(lab.now)
    ours, theirs = resumed.parameters(1), lab.loop.parameters(1)
    assert ours is not None and theirs is not None
    assert (ours.table.lineage, theirs.table.lineage) == (2, 1)
    assert by_region(resumed) == pytest.approx(by_region(lab.loop), rel=1e-4)
    assert not resumed.learner.reuse.ghosts["key"].any()
    assert (resumed.learner.blocks, resumed.saved_blocks) == (0, 0)
    assert not resumed.learner.by_rule.requests.any()
    assert resumed.gate.running == lab.loop.gate.running != "lru"
    assert 5.0 - resumed.gate.since == pytest.approx(lab.now - lab.loop.gate.since)


def test_what_was_learned_hours_ago_counts_less(lab: Lab) -> None:
    """With the next refit, by the half life, as if the sidecar had been there."""
    resumed = lab.resumed(lineage=2, engine="another", away=SETTINGS.half_life_seconds)
    events = lab.loop.learner.cells.events.sum()
    elapsed = lab.now - (lab.loop.learner.fitted_at or 0.0)
    assert resumed.step(5.0 + SETTINGS.half_life_seconds)
    faded = 0.5 ** (1.0 + elapsed / SETTINGS.half_life_seconds)
    assert resumed.learner.cells.events.sum() == pytest.approx(faded * events, rel=1e-4)


def test_waits_end_where_nobody_looked(lab: Lab) -> None:
    """After long absence from the same engine its blocks are followed anew, its totals are not."""
    soon, late = lab.resumed(2, away=WAITING), lab.resumed(2, away=WAITING + 1.0)
    assert (soon.learner.reuse.ghosts == lab.loop.learner.reuse.ghosts).all()
    assert not late.learner.reuse.ghosts["key"].any()
    waiting = lab.loop.learner.reuse.counts(lab.now)[1].sum()
    assert late.learner.cells.censored.sum() == pytest.approx(waiting, rel=1e-4)
    assert late.learner.blocks == lab.loop.learner.blocks > 0
    assert late.contest.total_hits.tolist() == lab.loop.contest.total_hits.tolist()


def test_numbers_are_kept_only_if_nobody_pushed_since(lab: Lab) -> None:
    """The engine may have blocks of categories that the file knows nothing of."""
    loop = lab.new_loop(2)
    known = go_on(loop, lab.learned(), lab.origin, lab.version, lab.now, 0.0)
    assert known == lab.pushed and loop.learner.categories.lineage == 1
    loop = lab.new_loop(2)
    assert go_on(loop, lab.learned(), lab.origin, lab.version + 1, lab.now, 0.0) is None
    assert loop.learner.categories.lineage == 2
    assert loop.learner.categories.numbering.count == 0


def test_rules_that_changed_meanwhile_keep_what_is_theirs(lab: Lab) -> None:
    """A rule that stays has its slot and its counts, one that is new none of another's."""
    loop = lab.new_loop(2, RULES[1:])
    before = {rule.name: slot for slot, rule in lab.loop.learner.categories.rules.items()}
    go_on(loop, lab.learned(), lab.origin, lab.version, lab.now, 0.0)
    after = {rule.name: slot for slot, rule in loop.learner.categories.rules.items()}
    assert after == {rule.name: before[rule.name] for rule in RULES[1:]}
    assert loop.step(lab.now) and loop.parameters(1) is not None


def test_a_candidate_that_is_no_more_does_not_run(lab: Lab) -> None:
    """The gate begins anew where the settings have other families now."""
    kept = replace_gate(lab.learned(), Gate(Phase.STEADY, "mixture", 7.0, "was ahead"))
    loop = lab.new_loop(2)
    go_on(loop, kept, lab.origin, lab.version, lab.now, 0.0)
    assert loop.gate == Gate()


def replace_gate(kept: Learned, gate: Gate) -> Learned:
    """The same with another gate."""
    fields = {name: getattr(kept, name) for name in kept.__struct_fields__}
    return Learned(**{**fields, "gate": replace(gate)})


def test_a_restart_in_the_middle_of_a_production_trace(shared_trace: Callable[[str], Path]) -> None:
    """Hits of the half after it: near those of a loop that stayed, above those of one anew."""
    trace = load_trace(str(shared_trace("mooncake_conversation.jsonl.gz")))
    half = trace.requests // 2
    base = Lab(trace)
    base.play(0, half)
    ratios = {}
    for how in ("stays", "engine", "another", "anew"):
        lab = copy.deepcopy(base)
        if how == "anew":
            lab.loop = lab.new_loop(2)
        elif how != "stays":
            lab.loop = lab.resumed(2, how, offset=lab.now)
        lab.play(half, trace.requests)
        ratios[how] = lab.hit_ratio(half, trace.requests)
        print(f"\n{how}: hit ratio {ratios[how]:.4f}", end="")
    assert ratios["engine"] >= 0.98 * ratios["stays"]
    assert ratios["another"] >= 0.95 * ratios["stays"]
    assert min(ratios["engine"], ratios["another"]) > ratios["anew"]


def test_the_loop_is_held_up_for_moments_only() -> None:
    """Full tables are copied within some milliseconds; a cold machine may take longer once."""
    loop = Loop(SETTINGS, RULES, 64000, 4)
    rng = np.random.default_rng(7)
    cells, ghosts = loop.learner.cells, loop.learner.reuse.ghosts
    for table in (cells.table, ghosts):
        table["key"] = rng.integers(1, 2**63, len(table), np.uint64)
        table["last"] = rng.random(len(table))
    for counts in (cells.events, cells.censored):
        counts[:] = rng.random(counts.shape)
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        copied = snapshot(loop, Origin("engine", 16, 4), None, 1.0)
        taken.append(1000.0 * (time.perf_counter() - start))
    size = len(encode(Stamped(0.0, copied.pack()))) / 1e6
    median = sorted(taken)[10]
    print(
        f"\ncopied in {median:.1f} ms (median), {max(taken):.1f} ms at most; {size:.2f} MB", end=""
    )
    assert median < 30.0
    assert size < 10.0
