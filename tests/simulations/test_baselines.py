"""The textbook policies miss as often as two independent simulators say they do."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import ModuleType

import pytest
from wactl.simulations.baselines import (
    arc,
    belady,
    fifo,
    gdsf,
    lfu,
    lru,
    s3fifo,
    sieve,
    wtinylfu,
)
from wactl.simulations.trace import Trace

Misses = dict[str, float]

REFERENCE = "../reference/libcachesim_reference.json"  # as seen from the traces
EXACT = {
    "FIFO": fifo,
    "LRU": lru,
    "LFU": lfu,
    "SIEVE": sieve,
    "ARC": arc,
    "S3FIFO": s3fifo,
    "Belady": belady,
}
CLOSE = {"GDSF": (gdsf, 0.003), "WTinyLFU": (wtinylfu, 0.028)}

every_stream = pytest.mark.parametrize(
    ("name", "order"),
    [
        ("mooncake_conversation", "forward"),
        ("mooncake_conversation", "reverse"),
        ("mooncake_synthetic", "forward"),
        ("mooncake_synthetic", "reverse"),
        ("zipf_20k_a0.9", "forward"),
    ],
)


@pytest.fixture(scope="module")
def streams() -> dict[tuple[str, str], Trace]:
    """What was read already: 50 tests share five traces."""
    return {}


@pytest.fixture
def stream(
    name: str,
    order: str,
    streams: dict[tuple[str, str], Trace],
    shared_trace: Callable[[str], Path],
    trace_of: Callable[[list[list[int]]], Trace],
) -> Trace:
    """A trace as the reference flattens it."""
    if (name, order) not in streams:
        if name.startswith("zipf"):
            weights = list(accumulate(1 / (i + 1) ** 0.9 for i in range(20000)))
            drawn = random.Random(7).choices(range(20000), cum_weights=weights, k=200000)
            rows = [[block] for block in drawn]
        else:
            with gzip.open(shared_trace(f"{name}.jsonl.gz")) as file:
                rows = [json.loads(line)["hash_ids"] for line in file]
        if order == "reverse":
            rows = [row[::-1] for row in rows]
        # One access at a time, as the reference has it: LRU would take a request as one use.
        streams[name, order] = trace_of([[block] for row in rows for block in row])
    return streams[name, order]


@pytest.fixture
def expected(name: str, order: str, shared_trace: Callable[[str], Path]) -> dict[str, Misses]:
    """Miss ratio by policy and capacity, to 6 decimals."""
    reference = json.loads(shared_trace(REFERENCE).read_text())
    return reference["traces"][name][order]["libcachesim_miss_ratio"]


def miss_ratios(policy: ModuleType, trace: Trace, capacities: Misses) -> Misses:
    return {size: 1 - policy.run(trace, int(size)).hits.mean() for size in capacities}


@every_stream
@pytest.mark.parametrize("policy", EXACT)
def test_misses_as_often_as_the_reference(
    policy: str, stream: Trace, expected: dict[str, Misses]
) -> None:
    # Of at most 288,500 accesses, one more or less would show in the sixth decimal.
    ratios = miss_ratios(EXACT[policy], stream, expected[policy])
    assert {size: round(ratio, 6) for size, ratio in ratios.items()} == expected[policy]


@every_stream
@pytest.mark.parametrize("policy", CLOSE)
def test_misses_nearly_as_often_as_the_reference(
    policy: str, stream: Trace, expected: dict[str, Misses]
) -> None:
    module, tolerance = CLOSE[policy]
    ratios = miss_ratios(module, stream, expected[policy])
    assert ratios == pytest.approx(expected[policy], rel=0, abs=tolerance)
