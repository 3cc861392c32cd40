"""On a real engine: more hits than LRU, and not one token different."""

from __future__ import annotations

import pytest
from wactl.simulations.compare import run_lru, run_wactl
from wactl.simulations.traces import read_trace
from wactl.simulations.workload import generate

pytestmark = pytest.mark.engine


def quiet(text: str, done: int) -> None:
    """No progress in tests."""


def test_mooncake_conversation_hits_a_third_more_than_lru(plan, shared_trace) -> None:
    """The whole trace at 1,000 blocks, learned online from an empty start: at least 1.3 x LRU."""
    prompts = read_trace(shared_trace("mooncake_conversation.jsonl.gz"))
    comparison = plan(prompts, 1000, speed=30.0)
    lru = run_lru(comparison, quiet)
    ours = run_wactl(comparison, quiet)
    print(
        f"\nhit ratio: LRU {lru.hit_ratio:.4f}, wactl {ours.hit_ratio:.4f}, "
        f"{ours.hit_ratio / lru.hit_ratio:.2f} x"
    )
    assert lru.failed == ours.failed == 0
    assert lru.requests == ours.requests == 12_031
    assert ours.hit_ratio >= 1.3 * lru.hit_ratio
    [engine] = ours.status.engines
    assert engine.version > 50 and engine.order == "scored"
    assert (engine.rejected, engine.errors, engine.lost_messages) == (0, 0, 0)
    # The sidecar's view of the hits is the engine's own, but for tokens and the last record.
    assert engine.hit_ratio == pytest.approx(ours.hit_ratio, abs=0.003)


def test_tokens_are_the_same_with_and_without_the_plugin(plan) -> None:
    """Request by request, while the parameters in force change which blocks are evicted."""
    prompts = generate(minutes=12.0)[:500]
    comparison = plan(prompts, 400, speed=60.0, output_tokens=6, concurrency=1)
    lru = run_lru(comparison, quiet)
    ours = run_wactl(comparison, quiet)
    assert lru.failed == ours.failed == 0
    assert ours.versions > 0 and ours.hit_ratio != lru.hit_ratio
    assert len(set(lru.tokens)) > 100, "the model says the same to everyone"
    assert ours.tokens == lru.tokens
