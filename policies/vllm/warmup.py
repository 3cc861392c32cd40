"""Compile every kernel at engine start, so that no request ever waits for it."""

from __future__ import annotations

import numpy as np

from ..blocks import DEFAULT
from ..features import blank_features
from ..intake import orders_of
from ..parameters import Law, ParameterSet, Score
from ..queue import FreeQueue
from ..recorder import Recorder
from ..sample import keys_of
from ..table import Condition, DecisionTable, Node, Rule


def warm_up() -> None:
    """Run each kernel once on a cache of four blocks, with the types the engine uses."""
    law = Law((0.5,), (0.1,), 60.0)
    some = Condition(0, 0.0, 1.0)
    table = DecisionTable(1, 2, (Rule("any", (some,), 0),), (Node(some, -1, -2),))
    orders = orders_of(ParameterSet(1, 1.0, 0.5, Score.HAZARD, 1.0, law, (law, law), table))
    recorder = Recorder(4)
    recorder.follow(orders.table)
    keys = keys_of([b"12345678" * 4, b"87654321" * 4])
    recorder.admit("warm-up", keys, 0, blank_features(32), 0.0)
    recorder.finish("warm-up", 1, 1.0)
    queue = FreeQueue(4)
    for scored in (False, True):
        queue.obey(orders if scored else None)
        taken = queue.pop(2, 1.0, 1)
        queue.tag(taken, 1, np.array([DEFAULT, DEFAULT]), 1.0)
        queue.append(taken[::-1].copy(), 1.0)
        queue.remove(int(taken[1]))
        queue.append(taken[1:], 1.0)
        queue.demote(taken)
        queue.forget(taken)
        queue.relabel()
        queue.order()
        queue.order(int(taken[0]))
