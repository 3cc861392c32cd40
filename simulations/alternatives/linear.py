"""river's softmax regression over the classes of reuse; the class it predicts is the category.

Each bucket of each feature is an input that is 1 or 0, so a gap may count for little on either
side of a span. Predicted classes are divided by position, as every category may be.
"""

from __future__ import annotations

from typing import Any

from river.linear_model import SoftmaxRegression
from river.optim import SGD

from ...controller.cells import Buckets, buckets_of
from ...controller.family import Family
from ...controller.rules import load_rules
from ...controller.settings import Settings
from ...policies.features import POSITION, Features
from ..cache import SimulatedCache
from ..controlled import replay
from ..played import Played
from ..trace import Trace
from .labels import CLASSES, Labelled
from .predicted import Asking, Predicted

STEP = 0.05
"""Learning rate of the stochastic gradient descent."""


class Linear:
    """The regression; what it said since it last learned is remembered."""

    def __init__(self) -> None:
        # Any: river leaves `learn_one` without types.
        self.model: Any = SoftmaxRegression(optimizer=SGD(STEP))
        self._said: dict[bytes, int] = {}

    def learn(self, row: Buckets, label: int) -> None:
        """See `wactl.simulations.alternatives.labels.Learn`."""
        self.model.learn_one(inputs(row), label)
        self._said.clear()

    def predict(self, row: Buckets) -> int:
        """The likeliest class; the last one as long as nothing was learned."""
        key = row.tobytes()
        if key not in self._said:
            said = self.model.predict_one(inputs(row)) if self.model.weights else None
            self._said[key] = CLASSES - 1 if said is None else int(said)
        return self._said[key]


def inputs(row: Buckets) -> dict[tuple[int, int], float]:
    """One input a column, named by its bucket."""
    return {(column, bucket): 1.0 for column, bucket in enumerate(row.tolist())}


def play(trace: Trace, capacity: int) -> Played:
    """The regression in the place of the tree."""
    settings = Settings(families=(Family.LIFE_TABLE,))
    model = Linear()
    learner = Labelled(settings, load_rules(settings.rules), model.learn)

    def number(features: Features) -> int:
        row = buckets_of(learner.cells.words, 0, features)
        return 2 * model.predict(row) + int(features[POSITION])

    cache = SimulatedCache(trace, capacity)
    cache.recorder = recorder = Asking(capacity, trace.tokens_per_block)
    learner.categories = recorder.categories = Predicted(number, 2 * CLASSES)
    return replay(cache, learner)
