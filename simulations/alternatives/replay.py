"""Replay a trace with any learner in charge of the cache, no gate between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...controller.learner import Learner
from ...policies.intake import orders_of
from ..cache import SimulatedCache
from ..played import Played


def replay(cache: SimulatedCache, learner: Learner, *, declared: bool = False) -> Played:
    """Serve the whole trace; whatever laws there are, are in force at once.

    ``declared`` shows the learner the types and sessions that the trace declares.
    """
    version = 0
    for request in range(cache.trace.requests):
        admission, finish = cache.serve(request, declared=declared)
        learner.admit(admission)
        learner.finish(finish)
        if learner.step(admission.time):
            version += 1
            if parameters := learner.parameters(version):
                cache.obey(orders_of(parameters))
                learner.categories.drained(cache.queue.cached().tolist())
    return cache.played()


@contextmanager
def swapped(module: ModuleType, **values: Any) -> Iterator[None]:
    """Other values for names of a module, for as long as it lasts.

    What only an experiment changes is no setting of the product. Names that compiled code uses
    keep their values there.
    """
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
