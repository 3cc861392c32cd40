"""The parameter set: everything the engine needs to order its blocks, as one frozen value.

The sidecar writes it, the engine checks it before it believes a word of it, and either the
whole of it is in force or none.
"""

from __future__ import annotations

import enum
import itertools
import math

import msgspec

from .ages import AGES
from .table import DecisionTable

MAX_COMPONENTS = 16
MAX_RATE = 1e4
MAX_SECONDS = 1e7
MAX_VERSION = 2**62
MIN_HAZARD = 1e-15


class Score(enum.Enum):
    """Which form of the score (`wactl.policies.score`) orders the categories."""

    HAZARD = "hazard"
    WINDOW = "window"
    PAPER = "paper"


class Law(msgspec.Struct, frozen=True, array_like=True):
    """The time-to-reuse law of one category: a mixture of exponentials and a never-reused rest.

    ``weights`` are probabilities (their sum is the probability ``p`` of any reuse), ``rates``
    are reuses a second, ``lifespan`` is the age in seconds past which a block counts as dead.
    ``hazards``, if there are any, say what the mixture only sums up: the reuses a second of
    blocks not reused so far, at each of `AGES`, never rising.
    """

    weights: tuple[float, ...]
    rates: tuple[float, ...]
    lifespan: float
    hazards: tuple[float, ...] = ()

    @property
    def p(self) -> float:
        """Probability that a block is ever reused."""
        return min(1.0, math.fsum(self.weights))

    @property
    def never(self) -> float:
        """Probability that a block is never reused."""
        return 1.0 - self.p

    @property
    def mean(self) -> float:
        """Mean time to reuse in seconds, of the blocks that are reused; infinite if none is."""
        if self.p == 0.0:
            return math.inf
        return math.fsum(w / r for w, r in zip(self.weights, self.rates, strict=True)) / self.p

    def problem(self) -> str | None:
        """What is wrong with this law, as the end of a sentence, or None."""
        if not 1 <= len(self.rates) <= MAX_COMPONENTS or len(self.weights) != len(self.rates):
            return (
                f"has {len(self.weights)} weights and {len(self.rates)} rates; "
                f"need as many, from 1 to {MAX_COMPONENTS}"
            )
        for weight in self.weights:
            if not 0.0 <= weight <= 1.0:
                return f"has the weight {weight}; a probability lies between 0 and 1"
        if math.fsum(self.weights) > 1.0 + 1e-9:
            return f"has weights that add up to {math.fsum(self.weights)}, more than 1"
        for rate in self.rates:
            if not 1.0 / MAX_SECONDS <= rate <= MAX_RATE:
                return f"has the rate {rate}; it must lie between {1 / MAX_SECONDS} and {MAX_RATE}"
        if self.hazards:
            if len(self.hazards) != len(AGES):
                return f"has {len(self.hazards)} hazards; need {len(AGES)}, or none"
            if not all(MIN_HAZARD <= hazard <= MAX_RATE for hazard in self.hazards):
                return f"has a hazard that is not between {MIN_HAZARD} and {MAX_RATE}"
            if any(later > sooner for sooner, later in itertools.pairwise(self.hazards)):
                return "has hazards that rise with age"
        if not 0.0 < self.lifespan <= MAX_SECONDS:
            return f"has the lifespan {self.lifespan} s; it must lie between 0 and {MAX_SECONDS}"
        return None


class ParameterSet(msgspec.Struct, frozen=True):
    """What the engine orders its free blocks by.

    ``version`` grows with every new set, ``ttl`` is how many seconds of the engine's clock it
    stays in force unless it is sent again, ``trust`` is τ in [0, 1] (0 is plain LRU),
    ``horizon`` is H (window) or L (paper) in seconds, ``laws[i]`` belongs to category ``i`` of
    ``table``, and ``default`` is the global law, for blocks of no category.
    """

    version: int
    ttl: float
    trust: float
    score: Score
    horizon: float
    default: Law
    laws: tuple[Law, ...]
    table: DecisionTable

    def problem(self) -> str | None:
        """The first thing wrong with this set, as a sentence, or None if it may be used.

        Types are msgspec's business; this looks at the values.
        """
        if self.version < 1 or self.version >= MAX_VERSION:
            return f"version {self.version} is out of range"
        if not 0.0 < self.ttl <= 3600.0:
            return f"time to live {self.ttl} s is not between 0 and 3600"
        if not 0.0 <= self.trust <= 1.0:
            return f"trust {self.trust} is not between 0 and 1"
        if not 0.0 < self.horizon <= MAX_SECONDS:
            return f"horizon {self.horizon} s is not between 0 and {MAX_SECONDS}"
        if wrong := self.table.problem():
            return wrong
        if len(self.laws) != self.table.categories:
            return f"{len(self.laws)} laws for {self.table.categories} categories"
        for index, law in enumerate((self.default, *self.laws)):
            if wrong := law.problem():
                return f"the law of {f'category {index - 1}' if index else 'all traffic'} {wrong}"
        return None
