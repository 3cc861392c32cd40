"""A shadow hits what a cache would hit: the simulated ones in full, or a sample of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from wactl.controller.shadow import Shadow
from wactl.policies.blocks import FIRST_CATEGORY, Ids
from wactl.policies.features import POSITION, TURN, blank_features
from wactl.policies.intake import Orders, orders_of
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.recorder import Recorder, Released
from wactl.policies.sample import sampled
from wactl.policies.table import Condition, DecisionTable, Node, Rule
from wactl.simulations.baselines import lru
from wactl.simulations.cache import SimulatedCache, keys_of_blocks
from wactl.simulations.memory import Memory
from wactl.simulations.readers import load_trace
from wactl.simulations.trace import Trace

CAPACITY = 400
SHIFT = 3
ERROR = 0.02
"""Of the hit ratio of a shadow that follows one block in 2**SHIFT."""


def made_up_orders(trust: float = 1.0) -> Orders:
    """First turns are worth little, later ones more, what they carry over most."""
    first = Rule("first", (Condition(TURN, 1.0, 1.0),), -1)
    later = Rule("later", (), 0)
    nodes = (Node(Condition(POSITION, 0.5, 1.0), -3, -2),)
    laws = tuple(Law((p,), (rate,), 1e6) for p, rate in ((0.1, 0.01), (0.6, 0.05), (0.9, 0.2)))
    table = DecisionTable(1, 3, (first, later), nodes)
    default = Law((0.5,), (0.05,), 1e6)
    return orders_of(ParameterSet(1, 60.0, trust, Score.HAZARD, 60.0, default, laws, table))


ORDERS = pytest.mark.parametrize(
    "orders", [None, made_up_orders(0.0), made_up_orders()], ids=["lru", "no trust", "scored"]
)


@pytest.fixture(scope="module")
def chats() -> Trace:
    """Two thousand requests of conversations that grow, the longest to half the cache."""
    rng = np.random.default_rng(7)
    lengths = np.zeros(300, np.int64)
    rows = []
    for _ in range(2000):
        chat = int(len(lengths) * rng.random() ** 2)
        lengths[chat] = min(CAPACITY // 2, lengths[chat] + rng.integers(1, 8))
        rows.append(1000 * chat + np.arange(lengths[chat]))
    distinct, blocks = np.unique(np.concatenate(rows), return_inverse=True)
    none = np.zeros(len(rows), np.int32)
    return Trace(
        name="chats",
        times=np.cumsum(rng.exponential(1.0, len(rows))),
        offsets=np.cumsum([0, *map(len, rows)]),
        blocks=blocks.astype(np.int32),
        distinct=len(distinct),
        input_tokens=none,
        output_tokens=none,
    )


def tags(trace: Trace, orders: Orders | None) -> list[Released]:
    """What the engine says of each request that ends."""
    recorder = Recorder(CAPACITY)
    if orders is not None:
        recorder.follow(orders.table)
    keys = keys_of_blocks(trace.distinct)
    found = []
    for request in range(trace.requests):
        now = float(trace.times[request])
        recorder.admit("r", keys[trace.prompt(request)], 0, blank_features(0), now)
        done = recorder.finish("r", 0, now)
        assert done is not None
        found.append(done[0])
    return found


def shadow_of(trace: Trace, orders: Orders | None, capacity: int = CAPACITY) -> Shadow:
    shadow = Shadow(trace.distinct, capacity)
    shadow.obey(orders)
    return shadow


def end(shadow: Shadow, places: Ids, told: Released, now: float) -> None:
    shadow.release(places, told.carried, told.categories, told.admitted, now)


def test_one_after_the_other_it_hits_what_a_cache_under_lru_hits(chats: Trace) -> None:
    """Request by request; a cache that evicts, and hits that depend on what."""
    shadow, cache = shadow_of(chats, None), SimulatedCache(chats, CAPACITY)
    both = []
    for request, told in enumerate(tags(chats, None)):
        now, places = float(chats.times[request]), chats.prompt(request).astype(np.int64)
        both.append((shadow.admit(places, now), cache.serve(request)[0].hits))
        end(shadow, places, told, now)
    ours, theirs = np.array(both).T
    assert ours.tolist() == theirs.tolist()
    assert 0.1 < ours.sum() / len(chats.blocks) < 0.9


@ORDERS
@pytest.mark.parametrize("overlap", [1, 2, 5])
def test_it_hits_what_a_server_hits(chats: Trace, orders: Orders | None, overlap: int) -> None:
    """Under the same orders, and with up to so many requests running at a time.

    A server makes room for a request before it runs; what runs is not evicted.
    """
    shadow, memory = shadow_of(chats, orders), Memory(chats, CAPACITY)
    memory.queue.obey(orders)
    told = tags(chats, orders)
    running: list[int] = []
    both = []
    for request in range(chats.requests):
        now, places = float(chats.times[request]), chats.prompt(request).astype(np.int64)
        while len(running) >= overlap or memory.used + len(places) > CAPACITY:
            done = running.pop(0)
            memory.release(done, told[done], now)
            end(shadow, chats.prompt(done).astype(np.int64), told[done], now)
        both.append((shadow.admit(places, now), memory.admit(request, len(places), now)))
        running.append(request)
    ours, theirs = np.array(both).T
    assert ours.tolist() == theirs.tolist()
    assert memory.evictions > CAPACITY


def test_orders_make_a_difference(chats: Trace) -> None:
    """Or the test above would show nothing."""
    totals = []
    for orders in (None, made_up_orders(0.0), made_up_orders()):
        shadow, hits = shadow_of(chats, orders), 0
        for request, told in enumerate(tags(chats, orders)):
            now, places = float(chats.times[request]), chats.prompt(request).astype(np.int64)
            hits += shadow.admit(places, now)
            end(shadow, places, told, now)
        totals.append(hits)
    assert totals[0] == totals[1] != totals[2]


def test_a_place_that_went_to_another_block_is_no_parent_any_more() -> None:
    """Or what was behind the former block would protect the new one."""
    worthless, precious = FIRST_CATEGORY, FIRST_CATEGORY + 2
    shadow = Shadow(4, 2)
    shadow.obey(made_up_orders())

    def run(places: list[int], category: int, now: float) -> int:
        hits = shadow.admit(np.array(places), now)
        shadow.release(np.array(places), 0, np.array([category, category]), now, now)
        return hits

    run([0, 1], precious, 1.0)
    shadow.drop(np.array([0]))
    assert run([0], worthless, 2.0) == 0
    assert run([2], precious, 3.0) == 0
    assert run([1], precious, 4.0) == 1


@pytest.mark.parametrize(
    ("name", "capacities"),
    [
        ("mooncake_conversation", (4000, 16000)),
        ("mooncake_synthetic", (4000, 10000)),
        ("lmcache_agent", (1200, 4000)),
    ],
)
def test_a_sample_hits_what_the_whole_hits(
    name: str, capacities: Sequence[int], shared_trace: Callable[[str], Path]
) -> None:
    """Within `ERROR`, once it is said that accesses missing from the sample, or too many, are those
    of a few blocks that everybody asks for (SHARDS-adj, FAST'15): the sample alone cannot know."""
    trace = load_trace(str(shared_trace(f"{name}.jsonl.gz")))
    followed = np.zeros(trace.distinct, bool)
    followed[sampled(keys_of_blocks(trace.distinct), SHIFT)[1].astype(np.int64)] = True
    popular = trace.accesses - (int(followed[trace.blocks].sum()) << SHIFT)
    for capacity in capacities:
        shadow, hits = shadow_of(trace, None, capacity >> SHIFT), 0
        told = Released(0.0, 0, np.zeros(2, np.int64))
        for request in range(trace.requests):
            prompt, now = trace.prompt(request).astype(np.int64), float(trace.times[request])
            places = prompt[followed[prompt]]
            hits += shadow.admit(places, now)
            end(shadow, places, told._replace(admitted=now), now)
        whole = lru.run(trace, capacity).prefix_hits(trace.offsets) / trace.accesses
        assert ((hits << SHIFT) + popular) / trace.accesses == pytest.approx(whole, abs=ERROR)
