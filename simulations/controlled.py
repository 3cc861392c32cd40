"""The whole controller in the loop, on a trace's time: recorder → reuse → classify → fit → push.

The modules are the very ones that run live; only sockets and clocks are missing.
"""

from __future__ import annotations

from ..controller.family import Family
from ..controller.learner import Learner
from ..controller.rules import load_rules
from ..controller.settings import Settings
from ..policies.intake import orders_of
from .cache import SimulatedCache
from .played import Played
from .trace import Trace


def control(trace: Trace, capacity: int, settings: Settings) -> Played:
    """Replay a trace under a sidecar with these settings, learning from an empty start."""
    cache = SimulatedCache(trace, capacity)
    learner = Learner(settings, load_rules(settings.rules))
    version = 0
    for request in range(trace.requests):
        learner.observe(cache.serve(request))
        if learner.step(float(trace.times[request])):
            version += 1
            if parameters := learner.parameters(version):
                cache.obey(orders_of(parameters))
    return cache.played()


def adaptive(trace: Trace, capacity: int) -> Played:
    """The controller as shipped."""
    return control(trace, capacity, Settings())


def exponential(trace: Trace, capacity: int) -> Played:
    """The controller with one exponential a category."""
    return control(trace, capacity, Settings(family=Family.EXPONENTIAL))


def mixture(trace: Trace, capacity: int) -> Played:
    """The controller with a mixture of exponentials a category."""
    return control(trace, capacity, Settings(family=Family.MIXTURE))
