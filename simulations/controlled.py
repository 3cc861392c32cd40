"""The whole controller in the loop, on a trace's time: recorder → reuse → classify → fit → push.

The modules are the very ones that run live; only sockets and clocks are missing.
"""

from __future__ import annotations

from ..controller.family import Family
from ..controller.learner import Learner
from ..controller.loop import Loop
from ..controller.rules import load_rules
from ..controller.settings import Settings
from .cache import SimulatedCache
from .played import Played
from .sidecar import Sidecar
from .trace import Trace


def gated(settings: Settings, blocks: int, shift: int, tokens: int) -> Loop:
    """The whole loop for an engine of ``blocks`` blocks of so many tokens, see `Loop`."""
    return Loop(settings, load_rules(settings.rules), blocks, shift, block_tokens=tokens)


def ungated(family: Family, *_: int) -> Learner:
    """A learner of one family of laws; what it learns is the same for every engine."""
    settings = Settings(families=(family,))
    return Learner(settings, load_rules(settings.rules))


class Controlled:
    """A cache for a trace and the loop that controls it, with these settings."""

    def __init__(self, trace: Trace, capacity: int, settings: Settings) -> None:
        self.cache = SimulatedCache(trace, capacity)
        recorder = self.cache.recorder
        self.loop = gated(settings, capacity, recorder.shift, trace.tokens_per_block)
        self._sidecar = Sidecar(self.loop, recorder, self.cache.queue)

    def serve(self, request: int) -> int:
        """Serve the next request of the trace and take in what it teaches; its hits."""
        admission, finish = self.cache.serve(request)
        self._sidecar.hear(admission, finish)
        return admission.hits


def adaptive(trace: Trace, capacity: int, settings: Settings | None = None) -> Played:
    """Replay a trace under the whole controller, as shipped unless told so, from an empty start."""
    controlled = Controlled(trace, capacity, settings or Settings())
    for request in range(trace.requests):
        controlled.serve(request)
    return controlled.cache.played()


def control(trace: Trace, capacity: int, family: Family) -> Played:
    """Replay a trace with the laws of one family in force as soon as there are any."""
    return replay(SimulatedCache(trace, capacity), ungated(family))


def replay(cache: SimulatedCache, learner: Learner, *, declared: bool = False) -> Played:
    """Replay a trace with a learner in charge and no gate between it and the cache.

    ``declared`` shows it the types and sessions that the trace declares.
    """
    sidecar = Sidecar(learner, cache.recorder, cache.queue)
    for request in range(cache.trace.requests):
        sidecar.hear(*cache.serve(request, declared=declared))
    return cache.played()


def exponential(trace: Trace, capacity: int) -> Played:
    """The controller with one exponential a category."""
    return control(trace, capacity, Family.EXPONENTIAL)


def mixture(trace: Trace, capacity: int) -> Played:
    """The controller with a mixture of exponentials a category."""
    return control(trace, capacity, Family.MIXTURE)
