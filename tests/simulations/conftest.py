"""Traces made up by a test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from wactl.simulations.trace import Trace

# A first call may compile a kernel, whatever deadline there is.
settings.register_profile("wactl", deadline=None)
settings.load_profile("wactl")


@pytest.fixture(scope="session")
def trace_of() -> Callable[[list[list[int]]], Trace]:
    """A trace of requests a second apart for these blocks, which it numbers densely."""

    def make(rows: list[list[int]]) -> Trace:
        flat = np.array([block for row in rows for block in row], np.int64)
        distinct, blocks = np.unique(flat, return_inverse=True)
        none = np.zeros(len(rows), np.int32)
        return Trace(
            name="test",
            times=np.arange(len(rows), dtype=np.float64),
            offsets=np.cumsum([0, *map(len, rows)]),
            blocks=blocks.astype(np.int32),
            distinct=len(distinct),
            input_tokens=none,
            output_tokens=none,
        )

    return make
