"""Features left out of the tree, and others let in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...controller import learner
from ...controller.cells import REFINED, Buckets, Counts
from ...controller.family import Family
from ...controller.learner import Learner
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...controller.tree import Tree, grow
from ...policies.features import CARRIED, EDGES, LORA, TEMPLATE, Features, bucket
from ...policies.messages import Admission
from ...policies.recent import Keys
from ...policies.recorder import Recorder
from ..cache import SimulatedCache
from ..controlled import replay
from ..played import Played
from ..trace import Trace
from .swapped import swapped


def without(feature: int) -> Callable[[Trace, int], Played]:
    """A replay whose tree never asks for this feature, one of `REFINED`."""
    column = 1 + REFINED.index(feature)

    def blind(
        buckets: Buckets, events: Counts, waited: Counts, rules: list[Any], leaves: int
    ) -> Tree:
        buckets = buckets.copy()
        buckets[:, column] = 0
        return grow(buckets, events, waited, rules, leaves)

    def play(trace: Trace, capacity: int) -> Played:
        settings = Settings(families=(Family.LIFE_TABLE,))
        with swapped(learner, grow=blind):
            cache = SimulatedCache(trace, capacity)
            return replay(cache, Learner(settings, load_rules(settings.rules)))

    return play


class Wearing(Recorder):
    """A recorder that gives each request another feature where no trace declares one: as its LoRA.

    So it enters as a word: the tree can tell one of its fifteen commonest values from the rest.
    """

    feature: int
    """Which; must be set before the first request."""

    def admit(
        self, request: str, keys: Keys, hits: int, features: Features, now: float, **how: bool
    ) -> Admission:
        """As `Recorder.admit`; the features of the request in flight are this very vector."""
        admission = super().admit(request, keys, hits, features, now, **how)
        value = features[self.feature]
        number = self.feature == CARRIED
        features[LORA] = 1.0 + bucket(EDGES, CARRIED, value) if number else value
        return msgspec.structs.replace(admission, features=tuple(features.tolist()))


def wearing(feature: int) -> Callable[[Trace, int], Played]:
    """A replay whose tree may also ask for this feature, `CARRIED` or `TEMPLATE`."""
    assert feature in (CARRIED, TEMPLATE)

    def play(trace: Trace, capacity: int) -> Played:
        settings = Settings(families=(Family.LIFE_TABLE,))
        cache = SimulatedCache(trace, capacity)
        cache.recorder = recorder = Wearing(capacity, trace.tokens_per_block)
        recorder.feature = feature
        return replay(cache, Learner(settings, load_rules(settings.rules)))

    return play
