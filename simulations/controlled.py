"""The whole controller in the loop, on a trace's time: recorder → reuse → classify → fit → push.

The modules are the very ones that run live; only sockets and clocks are missing.
"""

from __future__ import annotations

from ..controller.family import Family
from ..controller.learner import Learner
from ..controller.loop import Loop
from ..controller.rules import load_rules
from ..controller.settings import Settings
from ..policies.intake import orders_of
from .cache import SimulatedCache
from .played import Played
from .trace import Trace


class Controlled:
    """A cache for a trace and the loop that controls it, with these settings."""

    def __init__(self, trace: Trace, capacity: int, settings: Settings) -> None:
        self.cache = SimulatedCache(trace, capacity)
        shift = self.cache.recorder.shift
        rules, tokens = load_rules(settings.rules), trace.tokens_per_block
        self.loop = Loop(settings, rules, capacity, shift, block_tokens=tokens)
        self._version = 0

    def serve(self, request: int) -> int:
        """Serve the next request of the trace and take in what it teaches; its hits."""
        loop = self.loop
        admission, finish = self.cache.serve(request)
        loop.admit(admission)
        loop.finish(finish)
        if loop.step(admission.time):
            self._version += 1
            if parameters := loop.parameters(self._version):
                self.cache.obey(orders_of(parameters))
                loop.ran(loop.gate.running, admission.time)
                loop.drained(self.cache.queue.cached().tolist())
        return admission.hits


def adaptive(trace: Trace, capacity: int, settings: Settings | None = None) -> Played:
    """Replay a trace under the whole controller, as shipped unless told so, from an empty start."""
    controlled = Controlled(trace, capacity, settings or Settings())
    for request in range(trace.requests):
        controlled.serve(request)
    return controlled.cache.played()


def control(trace: Trace, capacity: int, family: Family) -> Played:
    """Replay a trace with the laws of one family in force as soon as there are any."""
    settings = Settings(families=(family,))
    cache = SimulatedCache(trace, capacity)
    learner = Learner(settings, load_rules(settings.rules))
    version = 0
    for request in range(trace.requests):
        admission, finish = cache.serve(request)
        learner.admit(admission)
        learner.finish(finish)
        if learner.step(float(trace.times[request])):
            version += 1
            if parameters := learner.parameters(version):
                cache.obey(orders_of(parameters))
                learner.categories.drained(cache.queue.cached().tolist())
    return cache.played()


def exponential(trace: Trace, capacity: int) -> Played:
    """The controller with one exponential a category."""
    return control(trace, capacity, Family.EXPONENTIAL)


def mixture(trace: Trace, capacity: int) -> Played:
    """The controller with a mixture of exponentials a category."""
    return control(trace, capacity, Family.MIXTURE)
