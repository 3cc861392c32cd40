"""Each missed block has one reason, and the reasons are right where they can be known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from wactl.controller.loop import Loop
from wactl.controller.rules import Rule
from wactl.controller.settings import Settings
from wactl.controller.shadow import REGRET
from wactl.controller.standing import gate_report
from wactl.controller.status import IDLE_AGES, Missed, Tenant
from wactl.controller.words import PLACES
from wactl.policies.features import LENGTH, TENANT, TURN, blank_features, digest
from wactl.policies.messages import Admission, Finish
from wactl.policies.table import Condition
from wactl.simulations.controlled import Controlled
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate

TOKENS = 16
LONG = Rule("long", (Condition(LENGTH, 10.0 * TOKENS, 1e9),))
RULES = (LONG, Rule("rest"))


class Stream:
    """Records of prompts whose blocks are named by numbers."""

    def __init__(self, blocks: int = 100) -> None:
        self.loop = Loop(Settings(), RULES, blocks, 0, block_tokens=TOKENS)
        self._number = -1

    def admit(self, blocks: Sequence[int], hits: int, now: float, **changed: Any) -> int:
        """A request for these blocks, ``beyond`` tokens longer than they are; its number."""
        features = blank_features(len(blocks) * TOKENS + changed.pop("beyond", 1))
        features[TURN] = 1.0
        features[TENANT] = digest(changed.pop("tenant", ""))
        self._number += 1
        fields: dict[str, Any] = {
            "time": now,
            "features": tuple(features.tolist()),
            "blocks": len(blocks),
            "hits": hits,
            "carried": hits,
            "replay": False,
            "unread": False,
            "keys": np.array(
                [(b + 1) * 0x9E3779B97F4A7C15 % 2**64 for b in blocks], "<u8"
            ).tobytes(),
            "positions": np.arange(len(blocks), dtype="<u8").tobytes(),
            "number": self._number,
        }
        self.loop.admit(Admission(**fields | changed))
        return int(fields["number"])

    def request(self, blocks: Sequence[int], hits: int, now: float, **changed: Any) -> None:
        """One that ends at once."""
        self.loop.finish(Finish(now, self.admit(blocks, hits, now, **changed), 10))

    @property
    def missed(self) -> Missed:
        """What is said of all."""
        return self.loop.learner.misses.of_all()


def idle(seconds: float, blocks: int) -> tuple[int, ...]:
    """So many blocks after so many seconds, as the status counts them."""
    spans = [0] * (len(IDLE_AGES) + 1)
    spans[sum(edge <= seconds for edge in IDLE_AGES)] = blocks
    return tuple(spans)


def test_each_reason_is_told_from_the_others() -> None:
    """Cold the first time, then evicted, unready while its first user runs, last at a brim."""
    stream = Stream()
    stream.request(range(4), 0, 0.0)
    assert stream.missed == Missed(cold=4, evicted_idle=idle(0.0, 0), short_tokens=1)
    stream.request(range(6), 1, 100.0)
    assert stream.missed == Missed(cold=6, evicted=3, evicted_idle=idle(100.0, 3), short_tokens=2)
    first = stream.admit(range(50, 53), 0, 110.0)
    stream.request(range(50, 53), 1, 111.0)
    stream.loop.finish(Finish(112.0, first, 10))
    assert (stream.missed.cold, stream.missed.unready, stream.missed.evicted) == (9, 2, 3)
    stream.request(range(50, 53), 2, 113.0, beyond=0)
    assert stream.missed.last == 1
    stream.request(range(50, 53), 1, 114.0, beyond=0)
    assert (stream.missed.last, stream.missed.evicted) == (1, 5)


@pytest.mark.parametrize("edge", range(len(IDLE_AGES)))
def test_an_age_on_an_edge_belongs_to_the_span_above(edge: int) -> None:
    """And what is a bit younger to the one below."""
    for seconds in (IDLE_AGES[edge], IDLE_AGES[edge] * 0.999):
        stream = Stream()
        stream.request([1], 0, 0.0)
        stream.request([1], 0, seconds)
        assert stream.missed.evicted_idle == idle(seconds, 1)


def test_what_is_no_miss_is_not_counted() -> None:
    """No admission after a preemption, none that does not read, none still running."""
    stream = Stream()
    number = stream.admit(range(4), 0, 0.0)
    stream.admit(range(4), 0, 1.0, replay=True, number=number)
    stream.request(range(10, 14), 0, 2.0, unread=True)
    assert stream.missed == Missed(evicted_idle=idle(0.0, 0))
    stream.loop.finish(Finish(3.0, number, 10))
    assert stream.missed.cold == 4


def test_short_prompts_are_counted_apart() -> None:
    """In tokens, and those that fill no block in requests as well."""
    stream = Stream()
    stream.request([], 0, 0.0, beyond=9)
    stream.request([1], 0, 0.0, beyond=5)
    assert (stream.missed.short_tokens, stream.missed.short_requests) == (14, 1)
    assert stream.missed.cold == 1


def test_rules_and_tenants_have_their_own() -> None:
    """The parts are those of the hit counts, and a tenant is a digest, never its name."""
    stream = Stream()
    stream.request(range(20), 0, 0.0, tenant="acme")
    stream.request(range(100, 104), 0, 1.0)
    learner = stream.loop.learner
    misses = learner.misses
    of = {rule.name: misses.of_rule(slot).cold for slot, rule in learner.categories.rules.items()}
    assert of == {"long": 20, "rest": 4}
    tenants = {one.name: (one.requests, one.missed.cold) for one in misses.tenants()}
    assert tenants == {f"{int(digest('acme')) & 0xFFFFFFFF:08x}": (1, 20), "none": (1, 4)}


def test_a_flood_of_tenants_is_one_of_others() -> None:
    """Fifteen are told apart, and those in use stay so."""
    stream = Stream()
    for number in range(500):
        stream.request([1000 + number], 0, float(number), tenant="regular")
        stream.request([5000 + number], 0, float(number), tenant=f"once {number}")
    tenants: tuple[Tenant, ...] = stream.loop.learner.misses.tenants()
    assert len(tenants) <= PLACES + 1
    named = {one.name: one for one in tenants}
    assert named[f"{int(digest('regular')) & 0xFFFFFFFF:08x}"].missed.cold == 500
    assert named["other"].requests > 400


@pytest.mark.parametrize(("capacity", "error"), [(1000, 0.0), (12_000, 0.05)])
def test_the_reasons_add_up_to_all_misses(capacity: int, error: float) -> None:
    """Of a simulated cache: exactly while all blocks are followed, nearly when a quarter is."""
    rate = 3.0 if capacity == 1000 else 30.0
    trace = generate("mixed", Plan(seconds=400.0, rate=rate))
    controlled = Controlled(trace, capacity, Settings())
    for request in range(trace.requests):
        controlled.serve(request)
    learner = controlled.loop.learner
    missed = learner.misses.of_all()
    found = missed.cold + missed.evicted + missed.unready + missed.last
    assert found == pytest.approx(learner.blocks - learner.hits, rel=error, abs=0)
    assert missed.cold > 0
    assert missed.evicted > 0
    seen: set[int] = set()
    cold = 0
    for request in range(trace.requests):
        prompt = trace.prompt(request).tolist()
        cold += sum(block not in seen for block in prompt)
        seen.update(prompt)
    assert missed.cold == pytest.approx(cold, rel=error, abs=0)


def test_an_order_knows_what_it_evicts_and_regrets() -> None:
    """Its shadow of three blocks evicts the oldest; one of them comes back soon, one late."""
    stream = Stream(blocks=3)
    for block in range(5):  # 0 goes at 30 s, 1 at 40 s, both idle for 30 s
        stream.request([block], 0, 10.0 * block)
    stream.request([0], 0, 50.0)  # regretted; 2 goes
    stream.request([1], 0, 40.0 + REGRET + 1.0)  # too late; 3 goes
    lru = gate_report(stream.loop, TOKENS, 700.0).contestant("lru")
    assert (lru.evicted, lru.regretted) == (4, 1)
    assert lru.evicted_idle == tuple(
        a + b for a, b in zip(idle(30.0, 3), idle(611.0, 1), strict=True)
    )


def test_a_lost_finish_does_not_hold_blocks_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten is free again in the shadows: a number that comes again, one too many."""
    monkeypatch.setattr("wactl.controller.learner.RUNNING", 2)
    stream = Stream()
    for number in range(5):
        stream.admit([number], 0, float(number))
    stream.admit([9], 0, 9.0, number=4)
    assert int(stream.loop.contest.users.sum()) == 2
