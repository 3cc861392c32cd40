"""What recording and tagging add to a request, and what wactl keeps in the engine's memory.

Two real `KVCacheManager` serve the same requests in turns, one with wactl's agent on it. Two of
their methods are timed, those the agent hangs on to: `record_prefix_cache_stats`, at which it
infers the features of an admitted request, classifies it and queues its record, and
`pop_blocks_for_free`, at which it tags the blocks of one that ended. What they cost without
the agent is taken off.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ...policies.features import FEATURES
from ...policies.parameters import Law, ParameterSet, Score
from ...policies.queue import FreeQueue
from ...policies.recorder import Recorder
from ...policies.table import Condition, DecisionTable, Node, Rule
from ..cache import keys_of_blocks
from .record import push
from .traffic import BLOCK_TOKENS, Moment

if TYPE_CHECKING:
    from ...policies.vllm.bare import BareEngine

REQUESTS = ((4096, 4096, 200), (4096, 100_000, 200), (131_072, 100_000, 50))
"""Prompt tokens, blocks of the cache, and requests to be served."""
UNMEASURED = 10
"""Requests served first."""
CARRIED = 0.75
"""Share of a prompt that the one before in its conversation held already."""


class Spent(msgspec.Struct, frozen=True):
    """Microseconds a request of so many prompt tokens, medians over the requests."""

    prompt_tokens: int
    prompt_blocks: int
    cache_blocks: int
    followed_one_in: int
    """One block in so many is followed."""
    requests: int
    record_us: float
    tag_us: float
    total_us: float
    total_p99_us: float


class Memory(msgspec.Struct, frozen=True):
    """What the engine's side of wactl holds for a cache of so many blocks."""

    cache_blocks: int
    bytes_per_block: float
    index_bytes: int
    """Of the index of recent chains, whatever the size of the cache."""


def prompts(blocks: int, requests: int) -> Iterator[list[bytes]]:
    """Hashes of the prompts of one conversation after another, four turns each."""
    fresh = iter(keys_of_blocks(requests * blocks).tolist())
    kept = int(CARRIED * blocks)
    prompt: list[bytes] = []
    for request in range(requests):
        # A turn leaves off the end of the one before: what the assistant thought aloud, say.
        prompt = prompt[:kept] if request % 4 else []
        prompt += [4 * next(fresh).to_bytes(8, "little") for _ in range(blocks - len(prompt))]
        yield prompt


def spent(prompt_tokens: int, cache_blocks: int, requests: int) -> Spent:
    """Serve so many requests of ``prompt_tokens`` tokens and see what the agent added."""
    from ...policies.vllm.agent import Agent
    from ...policies.vllm.bare import BareEngine

    blocks = prompt_tokens // BLOCK_TOKENS
    stock, ours = (BareEngine(cache_blocks, BLOCK_TOKENS) for _ in range(2))
    moment = Moment()
    taken = []
    with tempfile.TemporaryDirectory(prefix="wactl-bench-", dir="/tmp") as folder:
        agent = Agent(ours.manager, 0, Path(folder), moment.read)
        try:
            push(agent.intake, _parameters(), moment.now)
            for number, hashes in enumerate(prompts(blocks, requests + UNMEASURED)):
                moment.now += 0.1
                if number % 100 == 0:
                    push(agent.intake, _parameters(), moment.now)
                name = str(number)
                taken.append([_serve(engine, name, hashes) for engine in (stock, ours)])
            assert not agent.errors, agent.failure
            shift = agent.recorder.shift
        finally:
            agent.close()
    added = np.diff(np.array(taken[UNMEASURED:]), axis=1)[:, 0] / 1e3
    total = added.sum(axis=1)
    return Spent(
        prompt_tokens=prompt_tokens,
        prompt_blocks=blocks,
        cache_blocks=cache_blocks,
        followed_one_in=1 << shift,
        requests=requests,
        record_us=float(np.median(added[:, 0])),
        tag_us=float(np.median(added[:, 1])),
        total_us=float(np.median(total)),
        total_p99_us=float(np.quantile(total, 0.99)),
    )


def memory(cache_blocks: int) -> Memory:
    """Bytes allocated for a cache of so many blocks, as `tracemalloc` sees them."""
    queue = _allocated(lambda: FreeQueue(cache_blocks))
    return Memory(
        cache_blocks=cache_blocks,
        bytes_per_block=queue / cache_blocks,
        index_bytes=_allocated(lambda: Recorder(cache_blocks)),
    )


def _serve(engine: BareEngine, name: str, hashes: list[bytes]) -> tuple[int, int]:
    """Nanoseconds of the two methods for one request from admission to end."""
    request = engine.request(name, BLOCK_TOKENS * len(hashes) + 1, hashes)
    hits = engine.admit(request)
    assert hits is not None, "the cache is smaller than a prompt"
    record = _clocked(engine.manager.record_prefix_cache_stats, request, hits)[0]
    engine.end(request)
    tag, blocks = _clocked(engine.manager.pop_blocks_for_free, request)
    engine.free(blocks)
    return record, tag


def _clocked(call: Callable[..., Any], *arguments: Any) -> tuple[int, Any]:
    clock = time.perf_counter_ns
    start = clock()
    result = call(*arguments)
    return clock() - start, result


def _allocated(make: Callable[[], object]) -> int:
    make()
    tracemalloc.start()
    try:
        made = make()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held


def _parameters() -> ParameterSet:
    """Any law for each of 64 categories, told apart by six questions one after another."""
    law = Law((0.5,), (0.1,), 1e4)
    nodes = []
    for index in range(63):  # a full tree: node i leads to 2 i + 1 and 2 i + 2
        ways = (way if way < 63 else 62 - way for way in (2 * index + 1, 2 * index + 2))
        nodes.append(Node(Condition(index % len(FEATURES), 0.0, 1.0), *ways))
    table = DecisionTable(1, 64, (Rule("any", (), 0),), tuple(nodes))
    return ParameterSet(1, 3600.0, 1.0, Score.HAZARD, 60.0, law, (law,) * 64, table)
