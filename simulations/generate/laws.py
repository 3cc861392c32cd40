"""When a conversation goes on: whether there is a next request, and after what pause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class LogNormal:
    """A quantity that is often small and sometimes large: log-normal, constant without spread.

    ``spread`` is the standard deviation of its logarithm.
    """

    median: float
    spread: float = 0.0

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """So many of it."""
        return self.median * np.exp(self.spread * rng.standard_normal(count))

    def tokens(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """So many of it as numbers of tokens, at least one each."""
        return np.maximum(1, np.rint(self.draw(rng, count))).astype(np.int64)


@dataclass(frozen=True)
class TwoValues:
    """One value, or with probability ``share`` another."""

    usual: float
    rare: float
    share: float

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """So many."""
        return np.where(rng.random(count) < self.share, self.rare, self.usual)


class Law(Protocol):
    """When conversations go on."""

    @property
    def turns(self) -> float:
        """Requests of a conversation, in the mean."""

    def wait(self, rng: np.random.Generator, now: Seconds, turn: int) -> Seconds:
        """Seconds until the next request after those at ``now``; infinity where none comes."""


@dataclass(frozen=True)
class Returns:
    """A conversation's second request comes with probability ``first``, each later with ``later``.

    ``pause`` is in seconds, from request to request.
    """

    first: float
    later: float
    pause: LogNormal | TwoValues

    @property
    def turns(self) -> float:
        """Requests of a conversation, in the mean."""
        return 1.0 + self.first / (1.0 - self.later)

    def wait(self, rng: np.random.Generator, now: Seconds, turn: int) -> Seconds:
        """Seconds until the next request after those at ``now``; infinity where none comes."""
        comes = rng.random(len(now)) < (self.first if turn == 1 else self.later)
        return np.where(comes, self.pause.draw(rng, len(now)), np.inf)


NEVER = Returns(0.0, 0.0, LogNormal(1.0))
"""Every request is a conversation of its own."""


@dataclass(frozen=True)
class Eras:
    """One law after the other, each for ``length`` seconds, and again from the first."""

    laws: tuple[Law, ...]
    length: float = 600.0

    @property
    def turns(self) -> float:
        """The mean over the laws: most conversations live in one era."""
        return sum(law.turns for law in self.laws) / len(self.laws)

    def wait(self, rng: np.random.Generator, now: Seconds, turn: int) -> Seconds:
        """By the law of the era of each request."""
        era = np.floor(now / self.length).astype(np.int64) % len(self.laws)
        return np.choose(era, [law.wait(rng, now, turn) for law in self.laws])


@dataclass(frozen=True)
class Slowed:
    """From a moment on, every pause is so many times as long."""

    law: Law
    at: float
    factor: float

    @property
    def turns(self) -> float:
        """Those of the law: pauses do not end conversations."""
        return self.law.turns

    def wait(self, rng: np.random.Generator, now: Seconds, turn: int) -> Seconds:
        """The law's, longer for requests after the moment."""
        return self.law.wait(rng, now, turn) * np.where(now < self.at, 1.0, self.factor)
