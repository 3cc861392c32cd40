"""What docs/promise.md is made of, and that it holds on made-up traffic."""

from __future__ import annotations

import numpy as np
import pytest
from wactl.controller.contest import LRU
from wactl.controller.gate import Gate, Phase
from wactl.simulations.baselines import lru
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate
from wactl.simulations.promise import (
    ADAPTIVE,
    LEAST,
    Outcome,
    cells,
    play,
    sizes,
    windows,
    worst,
)
from wactl.simulations.trace import Trace

CAPACITY = 1000


@pytest.fixture(scope="module")
def ticks() -> Trace:
    """Ten blocks a request, a request a second, for an hour."""
    count = 3600
    none = np.zeros(count, np.int32)
    blocks = np.arange(10 * count, dtype=np.int32)
    offsets = np.arange(0, 10 * count + 1, 10)
    return Trace("ticks", np.arange(count) * 1.0, offsets, blocks, len(blocks), none, none)


def outcome(policy: str, hits: np.ndarray, *gates: Gate) -> Outcome:
    return Outcome("ticks", policy, CAPACITY, hits, gates)


def test_the_worst_window_and_how_long_it_took(ticks: Trace) -> None:
    """It loses all hits from 1000 s to 1100 s; LRU's order is back after 90 s."""
    all_hit = np.full(ticks.requests, 5)
    lost = all_hit.copy()
    lost[1000:1100] = 0
    runs = Gate(Phase.STEADY, "one", 30.0, "", 0)
    falls = Gate(Phase.FALLBACK, LRU, 1090.0, "", 1)
    found = worst(ticks, outcome(ADAPTIVE, lost, Gate(), runs, falls), outcome(LRU, all_hit))
    assert found.points == pytest.approx(-100 * 5 / (600 * 10))
    assert 600.0 <= found.start <= 1000.0
    assert found.back == pytest.approx(90.0, abs=1.0)
    never = worst(ticks, outcome(ADAPTIVE, lost, Gate(), runs), outcome(LRU, all_hit))
    assert never.back is None
    at_once = worst(ticks, outcome(ADAPTIVE, lost, Gate()), outcome(LRU, all_hit))
    assert at_once.back == 0.0


def test_what_is_lost_while_it_warms_up_does_not_count(ticks: Trace) -> None:
    """The first ten minutes."""
    all_hit = np.full(ticks.requests, 5)
    lost = all_hit.copy()
    lost[:600] = 0
    assert worst(ticks, outcome(ADAPTIVE, lost, Gate()), outcome(LRU, all_hit)).points == 0.0


def test_cells_that_break_the_promise_are_counted(ticks: Trace) -> None:
    """One of two sizes is behind LRU, and behind the best family."""
    found = []
    for capacity, whole in ((10, 4), (20, 6)):
        for policy, hits in ((LRU, 5), ("exponential", 5), ("mixture", 6), ("life-table", 1)):
            found.append(Outcome("ticks", policy, capacity, np.full(3600, hits), ()))
        found.append(Outcome("ticks", ADAPTIVE, capacity, np.full(3600, whole), ()))
    text = "\n".join(cells([(ticks, found)]))
    said = " ".join(text.split())
    assert "at least LRU − 0.001 in 1 of 2 cells" in said
    assert "at least 0.98 of the best single family in 1 of 2." in said
    assert "| 10 | 0.5000 | 0.5000 | 0.6000 | 0.1000 | 0.4000 | -0.1000 | 0.667 |" in text
    assert "| 20 | 0.5000 | 0.5000 | 0.6000 | 0.1000 | 0.6000 | +0.1000 | 1.000 |" in text


def test_sizes_go_from_a_hundredth_to_all(ticks: Trace) -> None:
    """Of the distinct blocks."""
    assert sizes(ticks)[0] == 360
    assert sizes(ticks)[-1] == 36000
    assert len(sizes(ticks)) == 12


def test_hits_are_counted_request_by_request() -> None:
    """As many as a replay counts in all."""
    trace = generate("mixed", Plan(seconds=300.0))
    hits = play(trace, LRU, CAPACITY).hits
    assert hits.sum() == lru.run(trace, CAPACITY).prefix_hits(trace.offsets)
    assert (hits <= np.diff(trace.offsets)).all()


@pytest.mark.parametrize("name", ["flip", "lifespan", "flood"])
def test_traffic_built_to_fool_it(name: str) -> None:
    """No window of ten minutes is half a point behind LRU."""
    trace = generate(name, Plan(seconds=1900.0))
    both = [play(trace, policy, CAPACITY) for policy in (LRU, ADAPTIVE)]
    assert worst(trace, both[1], both[0]).points >= LEAST
    assert "points behind LRU in 1 of 1 presets" in windows([(trace, both)])[0]
