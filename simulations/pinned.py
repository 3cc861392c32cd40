"""A server on a trace's time: requests queue, take time, and hold their blocks while they run.

As in vLLM, requests are admitted first come first served; one is admitted when its prompt and
its output fit into what running requests leave free. Simpler than vLLM: prompts are computed
one at a time and whole, so the next request is admitted when the one before has its first
token (requests that wait hold no blocks, and no two ever compute the same block at once);
every running request writes at the same speed, whatever runs beside it; room for the whole
output is held from the beginning, so nobody is preempted.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from ..policies.errors import WactlError
from ..policies.features import blank_features
from ..policies.recorder import Recorder
from .cache import keys_of_blocks
from .memory import Memory
from .played import Played
from .sidecar import Brain, Sidecar
from .trace import Trace


@dataclass(frozen=True)
class Speeds:
    """How fast the server is, in tokens per second. Raises `WactlError` unless above 0."""

    prefill: float = 8000.0
    """Prompt tokens, of the one request whose prompt is computed."""
    decode: float = 40.0
    """Output tokens of each request."""

    def __post_init__(self) -> None:
        if not (self.prefill > 0.0 and self.decode > 0.0):
            raise WactlError("--prefill and --decode need more than 0 tokens per second")


class Event(IntEnum):
    """What can happen to a request."""

    ARRIVED = 0
    PREFILLED = 1
    DONE = 2


Make = Callable[[int, int, int], Brain]
"""Makes what learns beside an engine of so many blocks, of which one in 2**shift is followed, with
so many tokens each."""


class PinnedServer:
    """Serves a trace with a cache of ``capacity`` blocks: by `step` until that says False.

    ``make`` makes what its sidecar learns with, from nothing; None is plain LRU.
    """

    def __init__(self, trace: Trace, capacity: int, speeds: Speeds, make: Make | None) -> None:
        self.trace = trace
        self.capacity = capacity
        self.speeds = speeds
        self.memory = Memory(trace, capacity)
        self.recorder = Recorder(capacity, trace.tokens_per_block)
        self.rejected = 0
        """Requests bigger than the cache."""
        self.queued: list[float] = []
        """Seconds from coming to being admitted, of each request admitted."""
        self.first_token: list[float] = []
        """Seconds from coming to the first token, likewise."""
        self._sidecar: Sidecar | None = None
        if make is not None:
            brain = make(capacity, self.recorder.shift, trace.tokens_per_block)
            self._sidecar = Sidecar(brain, self.recorder, self.memory.queue)
        self._keys = keys_of_blocks(trace.distinct)
        self._block_tokens = trace.tokens_per_block
        self._waiting: deque[int] = deque()
        self._prefilling = False
        self._events = [
            (time, Event.ARRIVED, request) for request, time in enumerate(trace.times.tolist())
        ]

    def step(self) -> bool:
        """All that happens at the next moment; False if nothing is left to happen."""
        if not self._events:
            return False
        now = self._events[0][0]
        while self._events and self._events[0][0] == now:
            _, event, request = heapq.heappop(self._events)
            self._happen(event, request, now)
        self._admit(now)
        return True

    def played(self) -> Played:
        """What happened so far."""
        return Played(self.memory.hits, self.memory.evictions, self.memory.queue.orphans)

    def _happen(self, event: Event, request: int, now: float) -> None:
        if event is Event.ARRIVED:
            if self._size(request) > self.capacity:
                self.rejected += 1
            else:
                self._waiting.append(request)
        elif event is Event.PREFILLED:
            self._prefilling = False
            more = max(0, int(self.trace.output_tokens[request]) - 1)
            self._expect(now + more / self.speeds.decode, Event.DONE, request)
        else:
            generated = int(self.trace.output_tokens[request])
            done = self.recorder.finish(str(request), generated, now)
            assert done is not None
            self.memory.release(request, done[0], now)
            if self._sidecar is not None:
                self._sidecar.brain.finish(done[1])

    def _admit(self, now: float) -> None:
        if self._prefilling or not self._waiting:
            return
        request = self._waiting[0]
        hits = self.memory.admit(request, self._size(request), now)
        if hits is None:
            return
        self._waiting.popleft()
        self._prefilling = True
        tokens = int(self.trace.input_tokens[request])
        # Even of a prompt that is cached whole, vLLM computes the last token.
        seconds = max(1, tokens - hits * self._block_tokens) / self.speeds.prefill
        waited = now - float(self.trace.times[request])
        self.queued.append(waited)
        self.first_token.append(waited + seconds)
        self._expect(now + seconds, Event.PREFILLED, request)
        self._record(request, hits, now)

    def _record(self, request: int, hits: int, now: float) -> None:
        keys = self._keys[self.trace.prompt(request)]
        features = blank_features(int(self.trace.input_tokens[request]))
        admission = self.recorder.admit(str(request), keys, hits, features, now)
        if self._sidecar is not None:
            self._sidecar.brain.admit(admission)
            self._sidecar.step(now)

    def _size(self, request: int) -> int:
        """Blocks a request needs for its prompt and output."""
        tokens = int(self.trace.input_tokens[request]) + int(self.trace.output_tokens[request])
        return max(-(-tokens // self._block_tokens), len(self.trace.prompt(request)))

    def _expect(self, time: float, event: Event, request: int) -> None:
        heapq.heappush(self._events, (time, event, request))
