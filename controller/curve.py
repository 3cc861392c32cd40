"""Reuse by age as people look at it: what was measured, and what the law has for it.

Blocks that are still waiting, or were watched for a while only, show less reuse at high ages than
there is. So the law is not drawn by itself: its hazard at each age is multiplied by the time that
blocks were really watched at that age, which gives the reuses that should have been seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..policies.ages import AGES
from ..policies.parameters import Score
from ..policies.score import mixture_scores
from .fit import Fit, Rows

BINS = 16
"""Each of four ages of the grid: ages 2.4 times as high from one to the next."""


@dataclass(frozen=True)
class Curve:
    """Reuses in requests, in each of `BINS` bins of age."""

    measured: tuple[float, ...] = ()
    expected: tuple[float, ...] = ()


def curve(fit: Fit) -> Curve:
    """The curve of a fit."""
    law = fit.law
    if law.hazards:
        hazards = np.array(law.hazards)
    else:
        hazards = np.exp(mixture_scores(law, Score.HAZARD, 0.0, AGES))
    return Curve(_binned(fit.events), _binned(hazards * fit.waited))


def _binned(by_age: Rows) -> tuple[float, ...]:
    sums = by_age.reshape(BINS, -1).sum(axis=1)
    return tuple(round(float(count), 3) for count in sums)
