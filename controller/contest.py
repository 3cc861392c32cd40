"""The contest: shadow caches side by side, one a candidate, and by how much each is ahead.

Every request is one trial for all of them: what counts is the difference of their hits on the
same prompt. Sums of these differences and of their squares are kept over a short and a long
window, by exponential forgetting; requests being taken as independent, the root of the sum of
squares is the standard error of the sum of differences.

The engine itself takes part with the hits it had. Its cache differs from a shadow: it holds output
too, which takes room and may be hit, and shadows may follow a sample. How far it is from LRU's
shadow while it runs LRU itself, its *offset*, is therefore no fault of any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import Ids
from ..policies.intake import Orders
from .shadow import Shadow

LRU = "lru"
ENGINE = "engine"

SHORT = 60.0
LONG = 600.0
"""Windows in seconds: what lies so far back counts 1/e."""


@dataclass(frozen=True)
class Lead:
    """By how much one is ahead of another, in hit ratio, over a window."""

    points: float
    """Difference of the hit ratios."""
    noise: float
    """Its standard error."""
    told: float
    """How many requests made a difference, older ones counting less."""

    def less(self, other: Lead) -> Lead:
        """What is left of it without another lead, measured on other requests."""
        noise = math.hypot(self.noise, other.noise)
        return Lead(self.points - other.points, noise, self.told)

    def beyond(self, sigmas: float, least: float) -> bool:
        """Whether it is ahead by more than noise of so many sigmas, and by ``least``."""
        return self.points > max(sigmas * self.noise, least)


class Window:
    """Sums over the last ``seconds``, as of the last `fade`, for each pair of contestants."""

    def __init__(self, seconds: float, size: int) -> None:
        self.seconds = seconds
        self.blocks = 0.0
        self.hits = np.zeros(size)
        self._ahead = np.zeros((size, size))
        self._squares = np.zeros((size, size))
        self._told = np.zeros((size, size))

    def count(self, blocks: float, hits: NDArray[np.float64]) -> None:
        """One more request, with so many blocks and hits of each contestant."""
        self.blocks += blocks
        self.hits += hits
        ahead = hits[:, None] - hits
        self._ahead += ahead
        self._squares += ahead * ahead
        self._told += ahead != 0.0

    def fade(self, elapsed: float) -> None:
        """So many seconds have passed."""
        kept = math.exp(-elapsed / self.seconds)
        self.blocks *= kept
        for sums in (self.hits, self._ahead, self._squares, self._told):
            sums *= kept

    def lead(self, one: int, other: int) -> Lead:
        """By how much contestant ``one`` is ahead of ``other``."""
        blocks = max(self.blocks, 1.0)
        noise = math.sqrt(self._squares[one, other]) / blocks
        told = float(self._told[one, other])
        return Lead(float(self._ahead[one, other]) / blocks, noise, told)


class Contest:
    """Shadows of an engine with ``blocks`` blocks of which one in 2**shift is followed.

    ``names`` are those of the candidates; LRU and the engine take part in any case.
    """

    def __init__(self, places: int, blocks: int, shift: int, names: Sequence[str]) -> None:
        self.names = (LRU, *names, ENGINE)
        self.scale = 1 << shift
        self.windows = (Window(SHORT, len(self.names)), Window(LONG, len(self.names)))
        self._plain = Window(LONG, len(self.names))  # of the time in which the engine runs LRU
        self.total_hits = np.zeros(len(self.names))
        self.total_blocks = 0
        capacity = max(1, blocks >> shift)
        self.shadows = {name: Shadow(places, capacity) for name in self.names[:-1]}
        self._faded: float | None = None

    @property
    def sampled(self) -> bool:
        """Whether the shadows follow a sample of the blocks."""
        return self.scale > 1

    @property
    def users(self) -> Ids:
        """By place, how many running requests hold the block; the same in every shadow."""
        return self.shadows[LRU].users

    def obey(self, name: str, orders: Orders) -> None:
        """A candidate's newest parameters."""
        self.shadows[name].obey(orders)

    def drop(self, places: Ids) -> None:
        """These places of the ghost index belong to other blocks now."""
        for shadow in self.shadows.values():
            shadow.drop(places)

    def admit(
        self, places: Ids, blocks: int, hits: int, now: float, *, counted: bool, plain: bool = False
    ) -> dict[str, int]:
        """A request of so many blocks, of which the engine hit ``hits``, starts.

        ``plain`` says that the engine has run LRU for a while. Returns the hits of each shadow, in
        blocks of the engine.
        """
        found = {n: self.scale * shadow.admit(places, now) for n, shadow in self.shadows.items()}
        if not counted:
            return dict.fromkeys(found, 0)
        windows = (*self.windows, self._plain) if plain else self.windows
        self._fade(windows, now)
        scores = np.array([*found.values(), hits], np.float64)
        self.total_hits += scores
        self.total_blocks += blocks
        for window in windows:
            window.count(blocks, scores)
        return found

    def release(
        self, places: Ids, carried: int, categories: Ids, admitted: float, now: float
    ) -> None:
        """A request has ended, see `Shadow.release`."""
        for shadow in self.shadows.values():
            shadow.release(places, carried, categories, admitted, now)

    def lead(self, one: str, other: str, window: float) -> Lead:
        """By how much ``one`` is ahead of ``other`` over the window `SHORT` or `LONG`."""
        (found,) = (w for w in self.windows if w.seconds == window)
        return found.lead(self.names.index(one), self.names.index(other))

    @property
    def calibrated(self) -> bool:
        """Whether the engine has run LRU itself for long enough to tell its offset."""
        return self._plain.blocks > 0.0

    @property
    def offset(self) -> Lead:
        """By how much LRU's shadow is ahead of the engine while that runs LRU itself."""
        return self._plain.lead(self.names.index(LRU), self.names.index(ENGINE))

    def _fade(self, windows: Sequence[Window], now: float) -> None:
        if self._faded is None:
            self._faded = now
        if now > self._faded:
            for window in windows:
                window.fade(now - self._faded)
            self._faded = now
