"""Traffic for the benches: traces served by a bare cache manager, as a scheduler would.

Requests come in time order and are admitted at once, or as soon as others have ended; they
write 40 tokens a second, a block at a time, and then give their blocks back. Computing takes
no time: what is measured is bookkeeping.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cache import keys_of_blocks
from ..trace import Trace
from ..workload import generate, trace_of

if TYPE_CHECKING:
    from ...policies.vllm.bare import BareEngine

BLOCK_TOKENS = 16
"""Tokens of a block, as on a GPU."""
DECODE = 40.0
"""Tokens a second that a request writes."""
OUTPUT = 343
"""Tokens a request of the made-up workload writes: the mean of Mooncake's conversations."""
SHARE = 8000
"""Blocks of the cache for each unit of the made-up workload; they last a minute and a half."""
TURNOVER = 1.25
"""A cache is warm when it has handed out so many times its blocks."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Moment:
    """A clock set by hand; to `read` it runs no Python, no more than the engine's does."""

    def __init__(self) -> None:
        self._seconds = [0.0]
        self.read = partial(self._seconds.__getitem__, 0)

    @property
    def now(self) -> float:
        """What it shows, in seconds."""
        return self._seconds[0]

    @now.setter
    def now(self, seconds: float) -> None:
        self._seconds[0] = seconds


def made_up(blocks: int, requests: int, seed: int = 7) -> Trace:
    """The workload of the demo, as much of it as fills ``blocks`` blocks and then ``requests``.

    Its traffic grows with the cache, so that a block stays for as long in caches of any size.
    """
    traffic = blocks / SHARE
    minutes = 3.0 + requests / (60.0 * traffic)
    trace = trace_of(generate(minutes, seed, traffic), "made-up")
    return replace(trace, output_tokens=np.full(trace.requests, OUTPUT, np.int32))


def hashes_of(trace: Trace) -> Callable[[int], list[bytes]]:
    """By request: 32-byte hashes of its prompt in blocks of `BLOCK_TOKENS`."""
    keys = keys_of_blocks(trace.distinct)
    parts = np.arange(max(1, trace.block_tokens // BLOCK_TOKENS), dtype=np.uint64) * _GOLDEN

    def hashes(request: int) -> list[bytes]:
        split = (keys[trace.prompt(request)][:, None] + parts).ravel()
        raw = np.repeat(split, 4).tobytes()
        return [raw[i : i + 32] for i in range(0, len(raw), 32)]

    return hashes


class Service:
    """Serves a trace; each `step` is one request admitted or ended, or one block written.

    ``words`` is how many kinds the clients call their requests by, dealt at random.
    """

    def __init__(self, engine: BareEngine, trace: Trace, words: int, moment: Moment) -> None:
        self.engine = engine
        self.trace = trace
        self.moment = moment
        self.admitted = 0
        self._words = [f"kind {i}" for i in range(words)]
        self._rng = random.Random(7)
        self._hashes = hashes_of(trace)
        self._events: list[tuple[float, int, Any, int]] = []
        self._serial = 0

    def run(self) -> Iterator[None]:
        """Serve all requests, a pause after each admission."""
        for number in range(self.trace.requests):
            self._advance(float(self.trace.times[number]))
            request = self._request(number)
            hits = self.engine.admit(request)
            while hits is None and self._events:
                self._next()
                hits = self.engine.admit(request)
            if hits is None:  # bigger than the cache
                continue
            self.engine.manager.record_prefix_cache_stats(request, hits)
            self.admitted += 1
            self._expect(request, int(self.trace.output_tokens[number]))
            yield

    def _request(self, number: int) -> Any:
        hashes = self._hashes(number)
        tokens = min(int(self.trace.input_tokens[number]), BLOCK_TOKENS * (len(hashes) + 1) - 1)
        word = self._rng.choice(self._words) if self._words else ""
        return self.engine.request(str(number), max(1, tokens), hashes, word)

    def _advance(self, now: float) -> None:
        while self._events and self._events[0][0] <= now:
            self._next()
        self.moment.now = max(self.moment.now, now)

    def _next(self) -> None:
        time, _, request, left = heapq.heappop(self._events)
        self.moment.now = max(self.moment.now, time)
        # What finds no room ends: in vLLM it would be preempted, which frees as much.
        if left > 0 and self.engine.grow(request, min(left, BLOCK_TOKENS)):
            self._expect(request, left - BLOCK_TOKENS)
        else:
            self.engine.finish(request)

    def _expect(self, request: Any, left: int) -> None:
        self._serial += 1
        time = self.moment.now + min(max(left, 0), BLOCK_TOKENS) / DECODE
        heapq.heappush(self._events, (time, self._serial, request, left))
