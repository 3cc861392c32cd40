"""Which category a request belongs to: the same table, evaluated as the engine evaluates it."""

from __future__ import annotations

import numpy as np

from ..policies.features import POSITION
from ..policies.messages import Admission
from ..policies.table import DecisionTable, classify, compile_table


class Classifier:
    """Looks requests up in a decision table."""

    def __init__(self, table: DecisionTable) -> None:
        self._compiled = compile_table(table)

    def categories(self, admission: Admission) -> tuple[int, int]:
        """Category ids of the request's new blocks and of those carried over."""
        features = np.array(admission.features)
        features[POSITION] = 0.0
        new = classify(self._compiled, features)
        features[POSITION] = 1.0
        return new, classify(self._compiled, features)
