"""The four kinds come back as real ones do: after minutes, in seconds, by template, never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from wactl.simulations.baselines import lru
from wactl.simulations.generate.steady import MIX
from wactl.simulations.trace import Trace

Make = Callable[..., Trace]


def ideal(trace: Trace) -> float:
    """Hit ratio of a cache that never evicts."""
    return lru.run(trace, trace.distinct).prefix_hits(trace.offsets) / trace.accesses


@pytest.mark.parametrize("name", ["chat", "agents"])
def test_conversations_are_under_way_at_the_beginning(name: str, made: Make) -> None:
    """The first tenth has as many requests as later ones, and as late turns."""
    trace = made(name, rate=12.0)
    assert trace.turns is not None
    tenth = (trace.times // 360.0).astype(int)
    assert np.sum(tenth == 0) == pytest.approx(trace.requests / 10, rel=0.1)
    assert trace.turns[tenth == 0].mean() == pytest.approx(trace.turns.mean(), rel=0.1)


def test_chats_pause_for_minutes(made: Make, follows: Callable[[Trace], Any]) -> None:
    """As published, as far as an hour shows: longer pauses have not ended yet."""
    trace = made("chat", seconds=20000.0)
    pairs = follows(trace)
    early = pairs.gap[pairs.start < 10000.0]
    assert np.median(early) == pytest.approx(111.0, rel=0.1)
    assert np.quantile(early, 0.9) == pytest.approx(719.0, rel=0.15)
    assert trace.turns is not None
    opened = int(np.sum((trace.turns == 1) & (trace.times < 10000.0)))
    answered = int(np.sum(trace.turns[pairs.before][pairs.start < 10000.0] == 1))
    assert answered / opened == pytest.approx(0.5, abs=0.03)


def test_agents_pause_for_seconds_and_grow(made: Make, follows: Callable[[Trace], Any]) -> None:
    """Contexts of tens of blocks, nearly all of which were there a moment ago."""
    trace = made("agents")
    assert np.median(follows(trace).gap) == pytest.approx(8.0, rel=0.1)
    assert trace.accesses / trace.requests > 40
    assert ideal(trace) > 0.9


def test_calls_share_templates_only(made: Make, follows: Callable[[Trace], Any]) -> None:
    """No session goes on; four blocks of each prompt come back, half of all."""
    trace = made("api")
    assert not len(follows(trace).gap)
    assert ideal(trace) == pytest.approx(0.54, abs=0.03)
    heads = {block for request in range(trace.requests) for block in trace.prompt(request)[:4]}
    assert len(heads) == 40 * 4


def test_batch_is_unique_and_comes_in_jobs(made: Make) -> None:
    """No block twice; most prompts come a quarter of a second after one before."""
    trace = made("batch")
    assert trace.accesses == trace.distinct
    times = np.rint(1e6 * trace.times).astype(np.int64)
    assert np.mean(np.isin(times - 250_000, times)) > 0.95


def test_the_mix_has_its_shares(made: Make, parts: Callable[[Trace], Any]) -> None:
    """Of each kind as many requests as said."""
    named = parts(made("mixed", seconds=20000.0))
    for kind, share in MIX.items():
        assert np.mean(named == kind.name) == pytest.approx(share, abs=0.03)
    assert sum(MIX.values()) == pytest.approx(1.0)
