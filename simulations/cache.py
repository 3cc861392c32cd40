"""A simulated engine's cache: the engine's own recorder, queue and evictor, on a trace's time.

What the semantics are: requests come in time order and are over at once; a hit counts only
while every earlier block of the prompt hit too; then all blocks of the prompt are stored with
the request's time, and the cache is evicted down to its capacity. That is what vLLM does with
requests that do not overlap.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.blocks import NONE, Ids
from ..policies.features import SESSION, TYPE, blank_features, digest
from ..policies.intake import Orders
from ..policies.messages import Admission, Finish
from ..policies.queue import FreeQueue
from ..policies.recorder import Recorder
from ..policies.sample import mix
from .played import Played
from .sidecar import obey
from .trace import Trace


class SimulatedCache:
    """A cache of ``capacity`` blocks for one trace, empty at first, plain LRU until `obey`."""

    def __init__(self, trace: Trace, capacity: int) -> None:
        longest = int(np.diff(trace.offsets).max(initial=0))
        slots = capacity + longest
        self.trace = trace
        self.capacity = capacity
        self.recorder = Recorder(capacity, trace.tokens_per_block)
        self.queue = FreeQueue(slots, np.empty(0, np.int64))
        self.hits = np.zeros(len(trace.blocks), np.uint8)
        self.evictions = 0
        self._keys = keys_of_blocks(trace.distinct)
        self._slot_of = np.full(trace.distinct, NONE, np.int64)
        self._block_of = np.full(slots, NONE, np.int64)
        self._spare = np.arange(slots)
        self._spares = slots
        self._types = None if trace.types is None else [digest(kind) for kind in trace.types]

    def obey(self, orders: Orders) -> None:
        """Order by these parameters from now on."""
        obey(orders, self.recorder, self.queue)

    def serve(self, request: int, *, declared: bool = False) -> tuple[Admission, Finish]:
        """Serve the next request of the trace; what the engine would have recorded.

        ``declared`` lets the recorder see the type and session that the trace declares.
        """
        trace = self.trace
        now = float(trace.times[request])
        first, last = trace.offsets[request], trace.offsets[request + 1]
        prompt = trace.blocks[first:last]
        hits = _look(self._slot_of, prompt, self.hits[first:last])
        features = blank_features(int(trace.input_tokens[request]))
        if declared and self._types is not None:
            features[TYPE] = self._types[request]
        if declared and trace.sessions is not None:
            features[SESSION] = digest(trace.sessions[request])
        name = str(request)
        admission = self.recorder.admit(name, self._keys[prompt], hits, features, now)
        done = self.recorder.finish(name, int(trace.output_tokens[request]), now)
        assert done is not None
        released, finish = done
        slots, taken = _settle(self._slot_of, self._block_of, self._spare, self._spares, prompt)
        self._spares -= taken
        self.queue.take(slots[self.queue.free[slots] == 1])
        self.queue.tag(slots, released.carried, released.categories, now)
        self.queue.append(slots[::-1].copy(), now)
        self._shrink(now)
        return admission, finish

    def played(self) -> Played:
        """What happened so far."""
        return Played(self.hits, self.evictions, self.queue.orphans)

    def _shrink(self, now: float) -> None:
        over = self.queue.length - self.capacity
        if over > 0:
            victims = self.queue.pop(over, now)
            _drop(self._slot_of, self._block_of, self._spare, self._spares, victims)
            self._spares += over
            self.evictions += over


def keys_of_blocks(count: int) -> NDArray[np.uint64]:
    """Well-mixed 64-bit keys for block numbers, as hashes would give, never 0."""
    with np.errstate(over="ignore"):
        numbers = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys: NDArray[np.uint64] = mix(numbers)
    return keys


@njit(cache=True)
def _look(slot_of: Ids, prompt: NDArray[np.int32], hits: NDArray[np.uint8]) -> int:
    """Mark which blocks are cached; how many lead the prompt without a gap."""
    leading, gap = 0, False
    for index, block in enumerate(prompt):
        cached = slot_of[block] >= 0
        hits[index] = cached
        gap = gap or not cached
        leading += not gap
    return leading


@njit(cache=True)
def _settle(
    slot_of: Ids, block_of: Ids, spare: Ids, spares: int, prompt: NDArray[np.int32]
) -> tuple[Ids, int]:
    """A slot for each block, a spare one if it is not cached; and how many spare ones that took."""
    slots = np.empty(len(prompt), np.int64)
    taken = 0
    for index, block in enumerate(prompt):
        if slot_of[block] < 0:
            taken += 1
            slot = spare[spares - taken]
            slot_of[block] = slot
            block_of[slot] = block
        slots[index] = slot_of[block]
    return slots, taken


@njit(cache=True)
def _drop(slot_of: Ids, block_of: Ids, spare: Ids, spares: int, victims: Ids) -> None:
    for index, slot in enumerate(victims):
        slot_of[block_of[slot]] = NONE
        spare[spares + index] = slot
