"""Presets made once for all tests, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate
from wactl.simulations.trace import Trace

Make = Callable[..., Trace]


@pytest.fixture(scope="session")
def made() -> Make:
    """Makes a preset: an hour of three requests a second, unless told otherwise."""

    @cache
    def make(name: str, **plan: float) -> Trace:
        return generate(name, Plan(**plan))  # type: ignore[arg-type]  # ints are passed as such

    return make


@dataclass(frozen=True)
class Follows:
    """Requests that follow another of their session; one row each."""

    before: NDArray[np.int64]
    after: NDArray[np.int64]
    start: NDArray[np.float64]
    """When the one before came."""
    gap: NDArray[np.float64]


@pytest.fixture(scope="session")
def follows() -> Callable[[Trace], Follows]:
    """Pairs each request with the next of its session."""

    def pair(trace: Trace) -> Follows:
        last: dict[str, int] = {}
        pairs = []
        assert trace.sessions is not None
        for request, session in enumerate(trace.sessions):
            if session in last:
                pairs.append((last[session], request))
            last[session] = request
        before, after = np.array(pairs, np.int64).reshape(-1, 2).T
        start = trace.times[before]
        return Follows(before, after, start, trace.times[after] - start)

    return pair


@pytest.fixture(scope="session")
def parts() -> Callable[[Trace], NDArray[np.str_]]:
    """Of which population each request is: the name of its session says it."""

    def named(trace: Trace) -> NDArray[np.str_]:
        assert trace.sessions is not None
        return np.array([session.rpartition("-")[0] for session in trace.sessions])

    return named
