"""Adversaries: each has the property that is to fool a learner, and LRU does what theory says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp
from wactl.simulations.baselines import belady, lru
from wactl.simulations.played import Played
from wactl.simulations.trace import Trace

Make = Callable[..., Trace]


def hit_ratio(trace: Trace, run: Callable[[Trace, int], Played], blocks: int) -> float:
    """Of a policy, hits behind whole prefixes only."""
    return run(trace, blocks).prefix_hits(trace.offsets) / trace.accesses


def test_flip_swaps_who_returns(
    made: Make, follows: Callable[[Trace], Any], parts: Callable[[Trace], Any]
) -> None:
    """Nine of ten openings of one are followed in even ten minutes, none of the other."""
    trace = made("flip")
    pairs, named = follows(trace), parts(trace)
    followed = np.zeros(trace.requests, bool)
    followed[pairs.before] = True
    assert trace.turns is not None
    for era in range(5):
        start = 600.0 * era
        inside = (trace.times > start + 2) & (trace.times < start + 560) & (trace.turns == 1)
        shares = [np.mean(followed[inside & (named == who)]) for who in ("flip-one", "flip-other")]
        returns, never = shares if era % 2 == 0 else reversed(shares)
        assert returns == pytest.approx(0.9, abs=0.06)
        assert never == 0.0
    assert np.median(pairs.gap) == pytest.approx(0.5 * 1000 / 16 / 3, rel=0.05)


def test_late_pauses_end_behind_the_lifespan(
    made: Make, follows: Callable[[Trace], Any], parts: Callable[[Trace], Any]
) -> None:
    """Of an exponential with the mean of all pauses: less than 1 in 1000 is to come by then."""
    trace = made("lifespan")
    pairs, named = follows(trace), parts(trace)
    gaps = pairs.gap[named[pairs.before] == "returner"]
    late = gaps > 2.0 * np.median(gaps)
    assert np.mean(late) == pytest.approx(0.05, abs=0.01)
    assert np.ptp(gaps[~late]) < 1e-5 and np.ptp(gaps[late]) < 1e-5
    alive = 0.95 * np.exp(-gaps[late][0] / np.mean(gaps))
    assert alive / (alive + 0.05) < 1e-3


def test_lru_keeps_what_comes_late(
    made: Make, follows: Callable[[Trace], Any], parts: Callable[[Trace], Any]
) -> None:
    """Whatever the cache it is made for: LRU hits returners' prompts as good as always."""
    for blocks in (1000, 4000):
        trace = made("lifespan", blocks=blocks)
        pairs, named = follows(trace), parts(trace)
        late = (pairs.gap > 2.0 * np.median(pairs.gap)) & (named[pairs.before] == "returner")
        hits = lru.run(trace, blocks).hits
        kept = [
            np.all(hits[trace.offsets[after] : trace.offsets[after] + len(trace.prompt(before))])
            for before, after in zip(pairs.before[late], pairs.after[late], strict=True)
        ]
        assert np.mean(kept) > 0.95


@pytest.mark.parametrize("blocks", [8, 50, 1000, 1003])
def test_a_scan_hits_nothing_under_lru(made: Make, blocks: int) -> None:
    """In a cache of the size it is made for; the clairvoyant keeps most, a larger cache all."""
    trace = made("scan", blocks=blocks)
    assert blocks < trace.distinct <= max(1.2 * blocks, blocks + 24)
    assert hit_ratio(trace, lru.run, blocks) == 0.0
    rounds = trace.accesses / trace.distinct
    assert hit_ratio(trace, lru.run, trace.distinct) == pytest.approx(1.0 - 1.0 / rounds)
    if blocks >= 1000:
        assert hit_ratio(trace, belady.run, blocks) > 0.8


def test_a_flood_hits_nothing(made: Make) -> None:
    """Under anybody, in any cache."""
    trace = made("flood")
    for run in (lru.run, belady.run):
        assert hit_ratio(trace, run, 1000) == 0.0
    assert hit_ratio(trace, lru.run, trace.accesses) == 0.0


def test_imitators_look_like_chats_that_begin(
    made: Make, follows: Callable[[Trace], Any], parts: Callable[[Trace], Any]
) -> None:
    """Length, answer, turn, type, template and its gap are drawn alike; none goes on."""
    trace = made("imitation")
    named = parts(trace)
    assert trace.turns is not None and trace.types is not None
    fake = named == "imitator"
    real = (named == "chat") & (trace.turns == 1)
    assert np.mean(fake) == pytest.approx(0.5, abs=0.04)
    assert set(trace.types) == {"chat"} and set(trace.turns[fake]) == {1}
    assert not np.any(fake[follows(trace).before])
    gap = since_template(trace)
    for column in (trace.input_tokens, trace.output_tokens, gap):
        assert ks_2samp(column[fake], column[real]).pvalue > 0.01
    # The test can tell: what chats say later is longer.
    later = (named == "chat") & (trace.turns > 1)
    assert ks_2samp(trace.input_tokens[fake], trace.input_tokens[later]).pvalue < 1e-9


def since_template(trace: Trace) -> Any:
    """Seconds since the first block of each prompt was last used."""
    last: dict[int, float] = {}
    gaps = np.full(trace.requests, -1.0)
    for request, now in enumerate(trace.times.tolist()):
        first = int(trace.prompt(request)[0])
        gaps[request] = now - last.get(first, now + 1.0)
        last[first] = now
    return gaps
