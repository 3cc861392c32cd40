"""Drift: what changes does so at its time and by as much as it says; the rest does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp
from wactl.simulations.trace import Trace

Make = Callable[..., Trace]


def test_switch_changes_all_traffic_twice(made: Make) -> None:
    """Agents in the middle third, at once and without exception; chats around it."""
    trace = made("switch")
    assert trace.types is not None
    agents = np.array(trace.types) == "agent"
    # The trace's clock starts with its first request, a moment after the plan's.
    assert np.all(agents[(trace.times > 1201) & (trace.times < 2399)])
    assert not np.any(agents[(trace.times < 1199) | (trace.times > 2401)])
    assert np.sum(agents) > 3000 and np.sum(~agents) > 6000


def test_slower_doubles_every_pause(made: Make, follows: Callable[[Trace], Any]) -> None:
    """Of agents and chats alike; seen through windows that cut as much off either."""
    trace = made("slower", rate=12.0)
    pairs, types = follows(trace), np.array(trace.types)
    for kind in ("chat", "agent"):
        mine = types[pairs.before] == kind

        def pauses(start: float, cut: float, mine: Any = mine) -> Any:
            inside = (pairs.start >= start) & (pairs.start < start + 600.0) & (pairs.gap < cut)
            return pairs.gap[mine & inside]

        first, second, third = pauses(0.0, 550.0), pauses(600.0, 550.0), pauses(1801.0, 1100.0)
        assert ks_2samp(first, second).pvalue > 0.01
        assert ks_2samp(2.0 * first, third).pvalue > 0.01
        assert ks_2samp(first, third).pvalue < 1e-9


def test_a_new_template_comes_at_half_time(made: Make, parts: Callable[[Trace], Any]) -> None:
    """From then on with half of the requests, all of which begin with the same 32 blocks."""
    trace = made("template")
    new = parts(trace) == "newcomer"
    assert not np.any(new[trace.times < 1799])
    assert np.mean(new[trace.times > 1801]) == pytest.approx(0.5, abs=0.05)
    heads = {tuple(trace.prompt(request)[:32].tolist()) for request in np.flatnonzero(new)}
    assert len(heads) == 1 and len(heads.pop()) == 32
    # Nobody had it before.
    first = trace.prompt(int(np.flatnonzero(new)[0]))[0]
    assert np.flatnonzero(trace.blocks == first)[0] >= trace.offsets[np.flatnonzero(new)[0]]


def test_a_burst_is_unique_and_short(made: Make, parts: Callable[[Trace], Any]) -> None:
    """A twentieth of the time, four of five requests, no block of which is seen twice."""
    trace = made("burst")
    burst = parts(trace) == "unique"
    assert trace.times[burst].min() == pytest.approx(1800.0, abs=1.5)
    assert trace.times[burst].max() == pytest.approx(1980.0, abs=1.5)
    inside = (trace.times > 1801) & (trace.times < 1979)
    assert np.mean(burst[inside]) == pytest.approx(0.8, abs=0.05)
    counts = np.bincount(trace.blocks)
    for request in np.flatnonzero(burst):
        assert np.all(counts[trace.prompt(request)] == 1)


def test_the_mix_around_a_burst_is_the_mix(made: Make, parts: Callable[[Trace], Any]) -> None:
    """The same requests as without it, to the microsecond."""
    alone, with_burst = made("mixed"), made("burst")
    rest = parts(with_burst) != "unique"
    assert np.array_equal(alone.times, with_burst.times[rest])
    assert np.array_equal(alone.input_tokens, with_burst.input_tokens[rest])
