"""The tree and its laws fitted to the whole trace first, then in force from its beginning.

Fitted to the very traffic they are tried on, without forgetting: what laws of categories can
tell if nothing has to be learned, as long as they stay the same all the time.
"""

from __future__ import annotations

from ...controller.family import Family
from ...controller.learner import Learner
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...policies.intake import orders_of
from ..cache import SimulatedCache
from ..played import Played
from ..trace import Trace

LONG = 1e6
"""A half-life in seconds that forgets nothing within a trace of hours."""


def play(trace: Trace, capacity: int) -> Played:
    """Replay a trace twice, once to learn and once to serve."""
    settings = Settings(families=(Family.LIFE_TABLE,), half_life_seconds=LONG)
    learner = Learner(settings, load_rules(settings.rules))
    school = SimulatedCache(trace, capacity)
    for request in range(trace.requests):
        admission, finish = school.serve(request)
        learner.admit(admission)
        learner.finish(finish)
    end = float(trace.times[-1])
    learner.step(end - settings.refit_seconds)
    learner.step(end)
    cache = SimulatedCache(trace, capacity)
    if parameters := learner.parameters(1):
        cache.obey(orders_of(parameters))
    for request in range(trace.requests):
        cache.serve(request)
    return cache.played()
