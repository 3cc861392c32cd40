"""How soon a part of a request came back, told late: on reuse, or when ten minutes have passed.

A part is what was new in a prompt, or what was carried over. It has come back when its middle
followed block has; so each part counts once, however many blocks it has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ...controller.cells import Buckets, buckets_of
from ...controller.learner import Learner, Running
from ...controller.rules import Rules
from ...controller.settings import Settings
from ...controller.words import Words
from ...policies.features import POSITION
from ...policies.messages import Finish

BORDERS = (5.0, 60.0, 600.0)
"""Ages in seconds that tell the classes of reuse apart; the last class did not come back."""

CLASSES = len(BORDERS) + 1

Learn = Callable[[Buckets, int], None]
"""Takes the columns of a part (`wactl.controller.cells`) and its class, from 0 for the soonest."""


class Part(NamedTuple):
    """A part that may come back: when it was used, and its columns."""

    time: float
    row: Buckets


class Labels:
    """The parts of the last ten minutes that did not come back yet."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Part] = OrderedDict()

    def take(self, running: Running, words: Words) -> Iterator[tuple[Buckets, int]]:
        """A request is over: the parts whose class it tells, with their classes."""
        now = running.admission.time
        waiting = self._waiting
        for key in sorted(waiting.keys() & set(running.keys.tolist())):
            part = waiting.pop(key)
            yield part.row, int(np.searchsorted(BORDERS, now - part.time, side="right"))
        while waiting and now - next(iter(waiting.values())).time >= BORDERS[-1]:
            yield waiting.popitem(last=False)[1].row, CLASSES - 1
        old = running.sizes[1]
        for position, keys in ((1, running.keys[:old]), (0, running.keys[old:])):
            if len(keys):
                running.features[POSITION] = position
                row = buckets_of(words, 0, running.features)
                waiting[int(keys[len(keys) // 2])] = Part(now, row)


class Labelled(Learner):
    """A learner that also tells a model, ``learn``, how soon parts came back."""

    def __init__(self, settings: Settings, rules: Rules, learn: Learn) -> None:
        super().__init__(settings, rules)
        self._labels = Labels()
        self._learn = learn

    def finish(self, finish: Finish) -> tuple[Running, tuple[int, int]] | None:
        """As `Learner.finish`; then the model learns what the request tells."""
        done = super().finish(finish)
        if done is not None:
            for row, label in self._labels.take(done[0], self.cells.words):
                self._learn(row, label)
        return done
