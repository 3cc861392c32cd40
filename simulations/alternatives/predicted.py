"""Categories that no table holds: a function of Python names them, and the cache asks it too.

Each has its law learned from what was so named, like a rule's that may not be divided.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...controller.classify import Categories
from ...controller.rules import Rule
from ...controller.tree import Tree
from ...controller.words import Words
from ...policies.blocks import DEFAULT, FIRST_CATEGORY
from ...policies.features import POSITION, Features
from ...policies.messages import Finish
from ...policies.recorder import Recorder, Released

Number = Callable[[Features], int]
"""The number of a part of a request, below a bound; the position is set."""


class Predicted(Categories):
    """``count`` categories, named by ``number``."""

    def __init__(self, number: Number, count: int) -> None:
        self._number = number
        self._ids: dict[int, int] = {}
        super().__init__(tuple(Rule(f"class {n}", refine=False, line=n) for n in range(count)), 1)

    def rule_of(self, features: Features) -> int:
        """The number, as the slot of a rule."""
        return self._number(features)

    def of(self, features: Features) -> tuple[int, int]:
        """Category ids of a request's new blocks and of those carried over."""
        found = []
        for position in (0, 1):
            features[POSITION] = position
            found.append(self._ids.get(self._number(features), DEFAULT))
        return found[0], found[1]

    def use(self, tree: Tree, words: Words) -> list[int]:
        """As `Categories.use`; it is known then which number has which category id."""
        fresh = super().use(tree, words)
        slots = {number: tree.branches[leaf].masks[0] for number, leaf in self.leaves.items()}
        self._ids = {slot: FIRST_CATEGORY + number for number, slot in slots.items()}
        return fresh


class Asking(Recorder):
    """A recorder that asks categories instead of looking them up in the engine's table."""

    categories: Predicted
    """Must be set before the first request finishes."""

    def finish(self, request: str, generated: int, now: float) -> tuple[Released, Finish] | None:
        """As `Recorder.finish`, but for the categories."""
        known = self.preempt(request)
        done = super().finish(request, generated, now)
        if done is None or known is None:
            return None
        released, finish = done
        categories = np.array(self.categories.of(known.features))
        return released._replace(categories=categories), finish
