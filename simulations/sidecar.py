"""The sidecar of a simulated engine: the modules that run live, without sockets and clocks.

A live one reads records from a stream and pushes over a socket; here it is told each record at
once, and what it would push is asked for as time passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..controller.loop import Loop
from ..policies.intake import Orders, orders_of
from ..policies.messages import Admission, Finish
from ..policies.parameters import ParameterSet
from ..policies.queue import FreeQueue
from ..policies.recorder import Recorder
from ..policies.table import EMPTY


class Brain(Protocol):
    """What learns: a `Learner`, or the whole `Loop` with its gate."""

    def admit(self, admission: Admission) -> object:
        """A request was admitted."""

    def finish(self, finish: Finish) -> object:
        """A request has ended."""

    def step(self, now: float) -> bool:
        """Let time pass; whether there is something to push."""

    def parameters(self, version: int) -> ParameterSet | None:
        """What to push, None before there is anything."""

    def drained(self, cached: Sequence[int]) -> None:
        """The engine knows the newest categories, and has so many cached blocks of each."""


class Sidecar:
    """Beside an engine that is its ``recorder`` and its ``queue``."""

    def __init__(self, brain: Brain, recorder: Recorder, queue: FreeQueue) -> None:
        self.brain = brain
        self.recorder = recorder
        self.queue = queue
        self._version = 0

    def hear(self, admission: Admission, finish: Finish) -> None:
        """A request was admitted and ended at once."""
        self.brain.admit(admission)
        self.brain.finish(finish)
        self.step(admission.time)

    def step(self, now: float) -> None:
        """Let time pass until ``now`` (seconds), and push what there is to push."""
        brain = self.brain
        if not brain.step(now):
            return
        self._version += 1
        if parameters := brain.parameters(self._version):
            obey(orders_of(parameters), self.recorder, self.queue)
            if isinstance(brain, Loop):
                brain.ran(brain.gate.running, now)
            brain.drained(self.queue.cached().tolist())


def obey(orders: Orders, recorder: Recorder, queue: FreeQueue) -> None:
    """An engine orders its blocks by these parameters from now on."""
    before = queue.orders.parameters.table if queue.orders else EMPTY
    recorder.follow(orders.table)
    if orders.parameters.table.lineage != before.lineage:
        queue.relabel()
    queue.obey(orders)
