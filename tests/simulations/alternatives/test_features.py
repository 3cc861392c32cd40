"""What is left out is never asked for; what is let in can be."""

from __future__ import annotations

import pytest
from wactl.controller import learner as module
from wactl.controller.cells import REFINED
from wactl.controller.learner import Learner
from wactl.policies.features import CARRIED, GENERATED, LORA, POSITION, TURN, blank_features
from wactl.policies.sample import keys_of
from wactl.simulations.alternatives import features
from wactl.simulations.alternatives.features import Wearing
from wactl.simulations.alternatives.swapped import swapped
from wactl.simulations.trace import Trace


def test_the_tree_never_asks_for_what_is_left_out(
    chats: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does ask for the position otherwise."""
    asked: set[int] = set()

    class Watched(Learner):
        def step(self, now: float) -> bool:
            done = super().step(now)
            forks = [branch.fork for branch in self.categories.tree.branches]
            asked.update(REFINED[fork.column - 1] for fork in forks if fork)
            return done

    monkeypatch.setattr(features, "Learner", Watched)
    features.without(GENERATED)(chats, 60)
    assert POSITION in asked or TURN in asked
    most = asked.copy()
    for feature in most:
        asked.clear()
        features.without(feature)(chats, 60)
        assert feature not in asked


def test_another_feature_stands_where_the_adapter_does() -> None:
    """In the record and, since the cache looks its blocks up by it, in the vector."""
    recorder = Wearing(1000)
    recorder.feature = CARRIED
    keys = keys_of([bytes([block] * 8) for block in range(1, 9)])
    for carried, bucket in ((0.0, 1.0), (1.0, 7.0)):
        vector = blank_features(128)
        admission = recorder.admit("a", keys, 0, vector, carried)
        assert admission.features[CARRIED] == carried
        assert admission.features[LORA] == vector[LORA] == bucket
        assert recorder.finish("a", 1, carried) is not None


def test_what_is_swapped_comes_back() -> None:
    """Also after an error."""
    before = module.grow
    with pytest.raises(ZeroDivisionError), swapped(module, grow=None):
        assert module.grow is None
        _ = 1 / 0
    assert module.grow is before
