"""The oracle knows what comes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from wactl.simulations.alternatives.foresight import CLASSES, Foresight
from wactl.simulations.trace import Trace

NEVER = CLASSES - 1


def test_the_class_of_a_part_is_that_of_its_middle_block(
    trace_of: Callable[[list[list[int]]], Trace],
) -> None:
    """Borders are at 2, 5, 15, 60, 180, 600 and 1800 s."""
    rows = [[0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3], [9], [0, 1, 2, 3, 4]]
    trace = replace(trace_of(rows), times=np.array([0.0, 1.0, 21.0, 22.0, 2000.0]))
    oracle = Foresight(trace)
    assert oracle.part(0, 0, 0) == 0
    assert (oracle.part(1, 3, 1), oracle.part(1, 3, 0)) == (3, 7)
    assert (oracle.part(2, 4, 1), oracle.part(2, 4, 0)) == (7, NEVER)
    assert oracle.part(3, 0, 0) == oracle.part(4, 5, 1) == NEVER
