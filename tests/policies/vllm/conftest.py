"""A real vLLM cache manager without a model: what the scheduler does with it, step by step."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request, RequestStatus
from wactl.policies.vllm.agent import Agent

BLOCK = 16


class Cache:
    """One cache manager and the requests under way in it."""

    def __init__(self, blocks: int, *, sliding: bool = False) -> None:
        init_none_hash(sha256)
        shape = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
        groups = [KVCacheGroupSpec(["full"], FullAttentionSpec(**shape))]
        if sliding:
            spec = SlidingWindowSpec(**shape, sliding_window=4 * BLOCK)
            groups.append(KVCacheGroupSpec(["sliding"], spec))
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        self.manager = KVCacheManager(
            config,
            max_model_len=8192,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            enable_caching=True,
            log_stats=True,
        )
        self._hasher = get_request_block_hasher(BLOCK, sha256)
        self._names = map(str, itertools.count())

    def request(self, tokens: list[int], **extra: Any) -> Request:
        """A request as the engine makes it."""
        known = {"max_tokens": 8, "extra_args": extra.pop("arguments", None)}
        sampling = SamplingParams(**(known | extra.pop("sampling", {})))
        return Request(
            next(self._names), tokens, sampling, None, block_hasher=self._hasher, **extra
        )

    def admit(self, request: Request) -> int | None:
        """Schedule a request in full; how many tokens it hit, None if there is no room."""
        blocks, hits, _ = self.manager.get_computed_blocks(request)
        new = request.num_tokens - hits
        if self.manager.allocate_slots(request, new, hits, blocks) is None:
            return None
        self.manager.record_prefix_cache_stats(request, hits)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = request.num_tokens
        return hits

    def finish(self, request: Request, generated: int = 0) -> None:
        """End a request that has so many output tokens; its blocks become free."""
        request.append_output_token_ids([1] * generated)
        request.status = RequestStatus.FINISHED_STOPPED
        self.manager.free(request)

    def preempt(self, request: Request) -> None:
        """What the scheduler does when it runs out of blocks."""
        self.manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1

    def ids(self, request: Request) -> list[int]:
        """The ids of the request's blocks."""
        return self.manager.get_block_ids(request.request_id)[0]


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A private folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def clock() -> Clock:
    """A clock the test turns."""
    return Clock()


@pytest.fixture
def cache() -> Callable[..., Cache]:
    """Makes caches."""
    return Cache


@pytest.fixture
def control(run_dir: Path, clock: Clock) -> Iterator[Callable[[Cache], Agent]]:
    """Puts agents on caches, and takes them off when the test is over."""
    agents: list[Agent] = []

    def attach(cache: Cache) -> Agent:
        agents.append(Agent(cache.manager, len(agents), run_dir, clock))
        return agents[-1]

    yield attach
    for agent in agents:
        agent.close()
