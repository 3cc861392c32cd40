"""What holds for every textbook policy on any trace, and slow references for two of them."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.simulations.baselines import arc, belady, fifo, gdsf, lfu, lru, s3fifo, sieve, wtinylfu
from wactl.simulations.baselines.residency import empty
from wactl.simulations.trace import Trace

Rows = list[list[int]]
Maker = Callable[[Rows], Trace]

ONLINE = [arc, fifo, gdsf, lfu, lru, s3fifo, sieve, wtinylfu]


def name(policy: ModuleType) -> str:
    return policy.__name__.rpartition(".")[2]


every_policy = pytest.mark.parametrize("policy", [*ONLINE, belady], ids=name)
every_online_policy = pytest.mark.parametrize("policy", ONLINE, ids=name)
rows = st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=12)
capacities = st.integers(1, 14)


def contents(policy: ModuleType, trace: Trace, capacity: int) -> list[set[int]]:
    """The residents before each access and after the last, from a replay of each beginning."""
    found = []
    for length in range(len(trace.blocks) + 1):
        cache = empty(trace)
        blocks, hits = trace.blocks[:length], np.zeros(length, np.uint8)
        if policy is lru:
            policy.replay(blocks, trace.offsets[: length + 1], capacity, cache, hits)
        else:
            policy.replay(blocks, capacity, cache, hits)
        found.append(set(np.flatnonzero(cache.resident).tolist()))
    return found


def suited(policy: ModuleType, rows: Rows) -> Rows:
    """LRU uses a whole request at once: with one block a request it is the textbook's."""
    return [[block] for row in rows for block in row] if policy is lru else rows


@every_policy
@given(rows=rows, capacity=capacities)
def test_never_holds_more_than_its_capacity(
    trace_of: Maker, policy: ModuleType, rows: Rows, capacity: int
) -> None:
    trace = trace_of(suited(policy, rows))
    assert all(len(held) <= capacity for held in contents(policy, trace, capacity))


@every_online_policy
@given(rows=rows, capacity=capacities)
def test_hits_evictions_and_orphans_follow_from_the_contents(
    trace_of: Maker, policy: ModuleType, rows: Rows, capacity: int
) -> None:
    trace = trace_of(suited(policy, rows))
    parents, played = trace.parents(), policy.run(trace, capacity)
    evictions = orphans = 0
    held = contents(policy, trace, capacity)
    for block, hit, (before, after) in zip(
        trace.blocks.tolist(), played.hits, pairwise(held), strict=True
    ):
        assert hit == (block in before)
        assert block in after
        for victim in before - after:
            evictions += 1
            orphans += any(parents[other] == victim for other in before & after)
    assert (played.evictions, played.orphans) == (evictions, orphans)


@every_policy
@given(rows=rows, capacity=capacities)
def test_counts_add_up(trace_of: Maker, policy: ModuleType, rows: Rows, capacity: int) -> None:
    trace = trace_of(suited(policy, rows))
    played, again = policy.run(trace, capacity), policy.run(trace, capacity)
    misses = len(trace.blocks) - int(played.hits.sum())
    held = contents(policy, trace, capacity)[-1]
    assert played.evictions == misses - len(held)
    assert 0 <= played.orphans <= played.evictions
    assert np.array_equal(played.hits, again.hits)
    assert (played.evictions, played.orphans) == (again.evictions, again.orphans)
    firsts = np.unique(trace.blocks, return_index=True)[1]
    assert not played.hits[firsts].any()
    if capacity >= trace.distinct:
        assert misses == trace.distinct


@every_online_policy
@given(rows=rows, capacity=capacities)
def test_nobody_misses_less_than_belady(
    trace_of: Maker, policy: ModuleType, rows: Rows, capacity: int
) -> None:
    trace = trace_of(suited(policy, rows))
    assert policy.run(trace, capacity).hits.sum() <= belady.run(trace, capacity).hits.sum()


@given(rows=rows, capacity=capacities)
def test_fifo_is_a_deque(trace_of: Maker, rows: Rows, capacity: int) -> None:
    trace, queue, hits = trace_of(rows), deque[int](maxlen=capacity), []
    for block in trace.blocks.tolist():
        hits.append(block in queue)
        if not hits[-1]:
            queue.append(block)
    assert fifo.run(trace, capacity).hits.tolist() == hits


@given(rows=rows, capacity=capacities)
def test_lru_is_an_ordered_dict(trace_of: Maker, rows: Rows, capacity: int) -> None:
    trace, order, hits = trace_of(suited(lru, rows)), OrderedDict[int, None](), []
    for block in trace.blocks.tolist():
        hits.append(block in order)
        order[block] = None
        order.move_to_end(block)
        if len(order) > capacity:
            order.popitem(last=False)
    assert lru.run(trace, capacity).hits.tolist() == hits


@every_policy
def test_a_cache_of_no_blocks_is_refused(trace_of: Maker, policy: ModuleType) -> None:
    with pytest.raises(ValueError, match="0 blocks"):
        policy.run(trace_of([[1]]), 0)
