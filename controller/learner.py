"""The loop for one engine: records in, laws out.

It reads no clock and does no input or output, so a replay runs the very same steps on the
trace's time. `observe` takes one admission through classify and reuse; `step`, called as time
passes, refits when it is due.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import MAX_CATEGORIES
from ..policies.messages import Admission
from ..policies.parameters import ParameterSet
from ..policies.sample import TARGET_BLOCKS
from ..policies.table import DecisionTable
from .classify import Classifier
from .fit import Fits, fit_all
from .reuse import Reuse
from .settings import Settings

GHOSTS = 16 * TARGET_BLOCKS
"""Followed blocks in the ghost index: sixteen times what a cache holds of them, 1.5 MB."""


@dataclass(frozen=True)
class Tally:
    """What was counted, by category id: arrays of shape ``(MAX_CATEGORIES,)``."""

    requests: NDArray[np.float64]
    blocks: NDArray[np.float64]
    hits: NDArray[np.float64]

    @classmethod
    def empty(cls) -> Tally:
        """Nothing counted yet."""
        return cls(*(np.zeros(MAX_CATEGORIES) for _ in range(3)))


class Learner:
    """Learns the laws of one engine's traffic under a decision table."""

    def __init__(self, settings: Settings, table: DecisionTable) -> None:
        self.settings = settings
        self.table = table
        self.reuse = Reuse(GHOSTS, settings.half_life_seconds)
        self.tally = Tally.empty()
        self.fits: Fits | None = None
        self.fitted_at: float | None = None
        self._classifier = Classifier(table)

    def observe(self, admission: Admission) -> None:
        """Take in one admitted request."""
        if admission.replay:
            return
        new, old = self._classifier.categories(admission)
        self.reuse.observe(
            np.frombuffer(admission.keys, np.uint64),
            np.frombuffer(admission.positions, np.uint64),
            admission.carried,
            new,
            old,
            admission.time,
        )
        self.tally.requests[new] += 1
        if not admission.unread:
            carried = min(admission.carried, admission.blocks)
            self.tally.blocks[old] += carried
            self.tally.hits[old] += admission.hits
            self.tally.blocks[new] += admission.blocks - carried

    def step(self, now: float) -> bool:
        """Refit if it is due at ``now`` (seconds); whether it was."""
        if self.fitted_at is None:
            self.fitted_at = now
        elapsed = now - self.fitted_at
        if elapsed < self.settings.refit_seconds:
            return False
        self.fitted_at = now
        events, censored = self.reuse.histograms(now)
        borrowed, family = self.settings.borrowed_blocks, self.settings.family
        self.fits = fit_all(events, censored, self.table, borrowed, family)
        self.reuse.forget(elapsed)
        return True

    def parameters(self, version: int) -> ParameterSet | None:
        """The laws as a parameter set to push, None before there are any."""
        if self.fits is None:
            return None
        return ParameterSet(
            version=version,
            ttl=self.settings.ttl_seconds,
            trust=1.0,
            score=self.settings.score,
            horizon=self.settings.horizon_seconds,
            default=self.fits.everything.law,
            laws=tuple(fit.law for fit in self.fits.categories),
            table=self.table,
        )
