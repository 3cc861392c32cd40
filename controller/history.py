"""What happened at one engine: the last changes, and how it went over the last hour.

Times are the engine's. Everything is bounded: so many changes, so many samples, so many
categories in a sample.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import nlargest

import msgspec

from .status import Category, Change, Gate

CHANGES = 30
"""Changes remembered."""
SAMPLES = 360
"""Samples remembered."""
EVERY = 10.0
"""Seconds between two samples."""
FOLLOWED = 12
"""Categories in a sample: those with most evidence."""

LAWS = "laws"
"""The kind of change that comes with every refit; only the last one is remembered."""


class Parameters(msgspec.Struct, frozen=True):
    """What a category's law was."""

    name: str
    p: float
    mean_reuse_seconds: float | None


class Sample(msgspec.Struct, frozen=True):
    """How things stood at one moment; hit ratios are those of `Contestant`."""

    time: float
    """By the engine's clock, in seconds."""
    engine: float
    lru: float
    running: str
    """The order that was chosen."""
    chosen: float
    """Hit ratio of its shadow."""
    parameters: tuple[Parameters, ...]


class Past(msgspec.Struct, frozen=True):
    """The samples of one engine, oldest first."""

    rank: int
    pid: int
    samples: tuple[Sample, ...]


class History:
    """Remembers what it is told, up to the bounds above."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, str, str]] = deque(maxlen=CHANGES)
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)

    def note(self, kind: str, text: str, now: float) -> None:
        """Something is otherwise from ``now`` on, see `Change`."""
        if kind == LAWS:
            for change in [change for change in self._changes if change[1] == LAWS]:
                self._changes.remove(change)
        self._changes.append((now, kind, text))

    def changes(self, now: float) -> tuple[Change, ...]:
        """All that is remembered, newest first."""
        found = reversed(self._changes)
        return tuple(Change(max(0.0, now - then), kind, text) for then, kind, text in found)

    def due(self, now: float) -> bool:
        """Whether it is time for a sample."""
        return now - (self._samples[-1].time if self._samples else -math.inf) >= EVERY

    def sample(self, gate: Gate, categories: Sequence[Category], now: float) -> None:
        """How it stands at ``now``; nothing is remembered before any request."""
        engine, lru, chosen = (
            gate.contestant(name).hit_ratio for name in ("engine", "lru", gate.running)
        )
        if engine is None or lru is None or chosen is None:
            return
        busiest = nlargest(FOLLOWED, categories, key=lambda category: category.evidence)
        parameters = tuple(
            Parameters(one.name, one.p, one.mean_reuse_seconds)
            for one in busiest
            if one.p is not None
        )
        self._samples.append(Sample(now, engine, lru, gate.running, chosen, parameters))

    def past(self, rank: int, pid: int) -> Past:
        """The samples, as a value that no longer changes."""
        return Past(rank, pid, tuple(self._samples))
