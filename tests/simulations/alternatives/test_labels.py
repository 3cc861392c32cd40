"""Labels come late, and each part of a request counts once."""

from __future__ import annotations

import numpy as np
from wactl.controller.cells import REFINED, new_words
from wactl.controller.learner import Learner, Running
from wactl.controller.rules import Rule
from wactl.controller.settings import Settings
from wactl.policies.features import POSITION, blank_features
from wactl.policies.messages import Admission
from wactl.simulations.alternatives.labels import CLASSES, Labels

WORDS = new_words(4)
COLUMN = 1 + REFINED.index(POSITION)


def running(time: float, old: list[int], new: list[int]) -> Running:
    """A request of these blocks, as a learner remembers it."""
    keys = np.array([*old, *new], np.uint64)
    admission = Admission(
        *(time, tuple(blank_features(100).tolist()), len(keys), 0, len(old), False, False),
        *(keys.tobytes(), np.arange(len(keys), dtype=np.uint64).tobytes(), 0),
    )
    found = Learner(Settings(), (Rule("all"),)).admit(admission)
    assert found is not None
    return found


def take(labels: Labels, request: Running) -> list[tuple[int, int]]:
    """Position and class of what a request tells."""
    return [(int(row[COLUMN]), label) for row, label in labels.take(request, WORDS)]


def test_the_class_is_that_of_the_time_until_the_middle_block_is_back() -> None:
    """A request that uses only the first block of a part does not bring the part back."""
    labels = Labels()
    assert take(labels, running(0.0, [], [1, 2, 3])) == []
    assert take(labels, running(1.0, [1], [])) == []
    assert take(labels, running(30.0, [1, 2, 3], [4, 5])) == [(1, 1), (0, 1)]
    assert take(labels, running(32.0, [1, 2, 3, 4, 5], [])) == [(1, 0), (0, 0)]


def test_what_is_not_back_after_ten_minutes_is_in_the_last_class() -> None:
    """It is told then, once; coming back later tells nothing more."""
    labels = Labels()
    take(labels, running(0.0, [], [1, 2, 3]))
    assert take(labels, running(599.0, [], [9])) == []
    assert take(labels, running(600.0, [], [8])) == [(0, CLASSES - 1)]
    assert take(labels, running(601.0, [1, 2, 3], [])) == []
