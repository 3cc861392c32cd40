"""Categories named by a function have laws of their own, and the cache's blocks carry them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from wactl.controller.learner import Learner
from wactl.controller.rules import Rule
from wactl.controller.settings import Settings
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.features import Features
from wactl.simulations.alternatives.predicted import Asking, Predicted
from wactl.simulations.cache import SimulatedCache
from wactl.simulations.controlled import replay
from wactl.simulations.trace import Trace


def test_each_number_has_its_law(chats: Trace) -> None:
    """By what the trace declares: chats come back and documents do not, so only chats stay."""
    types = chats.types
    assert types is not None
    count = int(np.searchsorted(chats.times, 700.0))  # while there are chats
    chats = replace(chats, times=chats.times[:count], offsets=chats.offsets[: count + 1])
    recorder = Asking(60, chats.tokens_per_block)

    def number(features: Features) -> int:
        return int(types[recorder.admitted - 1] == "chat")

    cache = SimulatedCache(chats, 60)
    cache.recorder = recorder
    learner = Learner(Settings(), (Rule("all"),))
    learner.categories = recorder.categories = Predicted(number, 2)
    replay(cache, learner)
    parameters = learner.parameters(1)
    assert parameters is not None
    document, chat = parameters.laws
    assert chat.p > 0.5 > 0.05 > document.p
    cached = np.bincount(np.full(60, FIRST_CATEGORY + 1))
    np.testing.assert_array_equal(cache.queue.cached(), cached)
