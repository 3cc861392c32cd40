"""An oracle for the category: it knows the class of time after which each part is used again.

Only the laws of the classes are learned. What it hits beyond a tree is lost because requests
are told apart too little by their features; what it misses and Belady hits is lost because the
blocks of a part, and the times of a class, differ.
"""

from __future__ import annotations

import numpy as np

from ...controller.family import Family
from ...controller.learner import Learner
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...policies.features import CARRIED, POSITION, Features
from ..baselines.belady import next_access
from ..cache import SimulatedCache
from ..controlled import replay
from ..played import Played
from ..trace import Trace
from .predicted import Asking, Predicted

BORDERS = (2.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, np.inf)
"""Seconds that tell the classes of reuse apart; the last class is never used again."""

CLASSES = len(BORDERS) + 1


class Foresight:
    """Knows of each part when its middle block is used next."""

    def __init__(self, trace: Trace) -> None:
        times = np.repeat(trace.times, np.diff(trace.offsets))
        following = next_access(trace.blocks, trace.distinct)
        self._offsets = trace.offsets
        waits = np.append(times, np.inf)[following] - times
        self._classes = np.searchsorted(BORDERS, waits, side="right")

    def part(self, request: int, carried: int, position: int) -> int:
        """The class of the new (0) or carried (1) blocks of a request; the last if it has none."""
        first, end = int(self._offsets[request]), int(self._offsets[request + 1])
        first, end = (first, first + carried) if position else (first + carried, end)
        return int(self._classes[(first + end) // 2]) if first < end else CLASSES - 1


def play(trace: Trace, capacity: int) -> Played:
    """The oracle in the place of the tree."""
    settings = Settings(families=(Family.LIFE_TABLE,))
    oracle = Foresight(trace)
    recorder = Asking(capacity, trace.tokens_per_block)

    def number(features: Features) -> int:
        request = recorder.admitted - 1  # requests do not overlap: it is the one that came last
        blocks = trace.offsets[request + 1] - trace.offsets[request]
        position = int(features[POSITION])
        return 2 * oracle.part(request, round(features[CARRIED] * blocks), position) + position

    cache = SimulatedCache(trace, capacity)
    cache.recorder = recorder
    learner = Learner(settings, load_rules(settings.rules))
    learner.categories = recorder.categories = Predicted(number, 2 * CLASSES)
    return replay(cache, learner)
