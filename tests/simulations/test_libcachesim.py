"""The same misses, one by one, as an independent simulator, on streams it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import libcachesim
import numpy as np
import pytest
from wactl.simulations.baselines import arc, fifo, lru, sieve
from wactl.simulations.trace import Trace

ACCESSES = 20_000
POLICIES = {
    libcachesim.FIFO: fifo,
    libcachesim.LRU: lru,
    libcachesim.Sieve: sieve,
    libcachesim.ARC: arc,
}


def skewed(seed: int) -> list[int]:
    """Some blocks often and most hardly ever, and what is popular changes half way."""
    random = np.random.default_rng(seed)
    drawn = random.zipf(1.2, ACCESSES) % 2000
    drawn[ACCESSES // 2 :] = (drawn[ACCESSES // 2 :] + 500) % 2000
    return drawn.tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacity", [1, 10, 100, 700])
@pytest.mark.parametrize(
    ("theirs", "ours"), POLICIES.items(), ids=[module.__name__ for module in POLICIES]
)
def test_hits_where_libcachesim_hits(
    trace_of: Callable[[list[list[int]]], Trace],
    theirs: type[libcachesim.CacheBase],
    ours: ModuleType,
    capacity: int,
    seed: int,
) -> None:
    blocks = skewed(seed)
    cache, request = theirs(cache_size=capacity, hashpower=18), libcachesim.Request()
    request.obj_size = 1
    expected = []
    for block in blocks:
        request.obj_id = block + 1  # 0 is a poor hash key
        expected.append(int(cache.get(request)))
    trace = trace_of([[block] for block in blocks])
    assert ours.run(trace, capacity).hits.tolist() == expected
