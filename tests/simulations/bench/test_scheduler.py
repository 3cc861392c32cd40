"""Recording and tagging: what is served, and what is counted. Never how long it took."""

from __future__ import annotations

import itertools

import pytest
from wactl.policies.blocks import BLOCK
from wactl.simulations.bench.scheduler import memory, prompts, spent


def test_prompts_are_conversations_of_four_turns() -> None:
    """A turn begins with three quarters of the one before; every fourth starts anew."""
    asked = list(prompts(8, 9))
    assert all(len(prompt) == len(set(prompt)) == 8 for prompt in asked)
    shared = [len(set(a) & set(b)) for a, b in itertools.pairwise(asked)]
    assert shared == [6, 6, 6, 0, 6, 6, 6, 0]
    assert asked[1][:6] == asked[0][:6]


@pytest.mark.parametrize(("cache", "one_in"), [(2000, 1), (10_000, 4)])
def test_a_request_costs_something(cache: int, one_in: int) -> None:
    """Both halves are measured; the agent did not fail, which it is asked itself."""
    row = spent(1024, cache, 100)
    assert (row.prompt_tokens, row.prompt_blocks, row.requests) == (1024, 64, 100)
    assert (row.cache_blocks, row.followed_one_in) == (cache, one_in)
    assert row.record_us > 0.0 and row.tag_us > 0.0
    assert row.total_p99_us >= row.total_us > max(row.record_us, row.tag_us)


def test_memory_is_a_record_a_block_and_one_index() -> None:
    """So it grows with the cache by just that."""
    small, large = memory(1000), memory(50_000)
    # Beside the record a flag and a reference to vLLM's block.
    assert BLOCK.itemsize + 9 <= large.bytes_per_block < BLOCK.itemsize + 10
    # What does not grow, the heads of the queues most of all, is some kilobytes.
    assert 1000 * (small.bytes_per_block - large.bytes_per_block) < 16_000
    assert large.index_bytes == pytest.approx(small.index_bytes, rel=0.05)
    assert large.index_bytes > 500_000
