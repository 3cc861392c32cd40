"""From histograms of ages to laws: the exponential with a never-reused rest, per category.

A share ``p`` of a category's blocks is reused, after a time exponential with rate ``λ``; the
rest never is. With events at ages ``a`` (counts ``E``) and censored blocks at ages ``a``
(counts ``C``), a censored block is still to be reused with probability
``q = p e^(−λa) / (p e^(−λa) + 1 − p)``, and the likelihood is greatest where

    λ = ΣE / (ΣE a + ΣC q a)        p = (ΣE + ΣC q) / (ΣE + ΣC)

which is iterated to its fixed point (expectation-maximisation). Leaving the censored out, as
a fit of the observed gaps does, takes λ too large and p too small.

A category seen little borrows from its parent: the parent's histogram, scaled to a few
observations, is added to its own. So an unseen category behaves like its parent, never like
one that nobody reuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import DEFAULT, FIRST_CATEGORY
from ..policies.parameters import MAX_RATE, MAX_SECONDS, Law
from ..policies.table import DecisionTable
from .family import Family
from .mixture import TIMES, fit_mixture
from .reuse import AGES, Histogram

ROUNDS = 60
"""Steps of the iteration at most."""

SETTLED = 1e-4
"""Relative change of every rate in one step at which the iteration ends."""

DEAD = 1e-3
"""Remaining probability of reuse at which a block counts as dead: its lifespan is over."""

LEAST = 1e-6
"""Smallest probability of reuse that a law claims."""


@dataclass(frozen=True)
class Fit:
    """One law and the evidence behind it, in observed blocks (borrowed ones not counted)."""

    law: Law
    evidence: float


@dataclass(frozen=True)
class Fits:
    """The laws of everything: all traffic, each rule, each category of the table."""

    everything: Fit
    rules: tuple[Fit, ...]
    categories: tuple[Fit, ...]


def fit_exponential(
    events: Histogram, censored: Histogram
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Maximum-likelihood ``p`` and ``λ`` (1/s) of each row; inputs of shape ``(rows, ages)``.

    Nothing is reused, ever, in a row without events.
    """
    reused = events.sum(axis=1)
    total = np.maximum(reused + censored.sum(axis=1), 1e-9)
    spent = events @ AGES
    p = np.full(len(events), 0.5)
    rate = np.clip(reused / np.maximum(spent, 1e-9), 1 / MAX_SECONDS, MAX_RATE)
    for _ in range(ROUNDS):
        alive = p[:, None] * np.exp(-rate[:, None] * AGES)
        waiting = censored * alive / np.maximum(alive + 1.0 - p[:, None], 1e-300)
        exposure = np.maximum(spent + waiting @ AGES, 1e-9)
        before = rate
        rate = np.clip(reused / exposure, 1 / MAX_SECONDS, MAX_RATE)
        p = np.clip((reused + waiting.sum(axis=1)) / total, 0.0, 1.0)
        if np.all(np.abs(rate - before) <= SETTLED * rate):
            break
    return np.where(reused > 0.0, p, 0.0), rate


def fit_all(
    events: Histogram,
    censored: Histogram,
    table: DecisionTable,
    borrowed: float,
    family: Family = Family.EXPONENTIAL,
) -> Fits | None:
    """Laws for the table's categories from the histograms by category id; None before any reuse.

    ``borrowed`` is how many of its parent's observations each category is given: a rule's are
    those of all traffic, a category's those of its rule.
    """
    rows = slice(FIRST_CATEGORY, FIRST_CATEGORY + table.categories)
    counts = np.stack([events, censored])
    everything = counts[:, DEFAULT : rows.stop].sum(axis=1, keepdims=True)
    if everything[0].sum() == 0.0:
        return None
    own = counts[:, rows]
    rule_of = np.array([table.rule_of(c) for c in range(table.categories)], np.int64)
    belongs = rule_of == np.arange(len(table.rules))[:, None]
    rules = belongs.astype(np.float64) @ own
    lent_rules = rules + borrowed * _one(everything)
    lent = own + borrowed * _one(lent_rules)[:, rule_of]
    rows_of_all = np.concatenate([everything, lent_rules, lent], axis=1)
    evidence = np.concatenate([everything, rules, own], axis=1).sum(axis=(0, 2))
    laws = _LAWS[family](*rows_of_all)
    fits = tuple(Fit(law, seen) for law, seen in zip(laws, evidence.tolist(), strict=True))
    cut = 1 + len(table.rules)
    return Fits(fits[0], fits[1:cut], fits[cut:])


def _one(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row's events and censored counts scaled to one observation in all."""
    total = counts.sum(axis=(0, 2))
    return counts / np.maximum(total, 1e-9)[None, :, None]


def _exponential_laws(events: Histogram, censored: Histogram) -> list[Law]:
    # p is never exactly 0: among blocks that nobody reused so far the oldest is still to go.
    p, rates = fit_exponential(events, censored)
    pairs = zip(np.maximum(p, LEAST).tolist(), rates.tolist(), strict=True)
    return [Law((p,), (rate,), lifespan(p, rate)) for p, rate in pairs]


def _mixture_laws(events: Histogram, censored: Histogram) -> list[Law]:
    weights = np.maximum(fit_mixture(events, censored), LEAST)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    reused = weights @ np.exp(-AGES / TIMES[:, None])
    never = np.maximum(1.0 - weights.sum(axis=1, keepdims=True), 0.0)
    dead = reused < DEAD * (reused + never)
    ends = np.where(dead.any(axis=1), AGES[dead.argmax(axis=1)], MAX_SECONDS)
    rates = tuple((1.0 / TIMES).tolist())
    return [
        Law(tuple(row), rates, max(1.0, end))
        for row, end in zip(weights.tolist(), ends.tolist(), strict=True)
    ]


_LAWS = {Family.EXPONENTIAL: _exponential_laws, Family.MIXTURE: _mixture_laws}


def lifespan(p: float, rate: float) -> float:
    """Age in seconds at which the remaining probability of reuse falls to `DEAD`.

    >>> round(lifespan(0.5, 0.1), 1)
    69.1
    """
    if p >= 1.0:
        return MAX_SECONDS
    if p <= DEAD:
        return 1.0
    odds = p * (1.0 - DEAD) / (DEAD * (1.0 - p))
    return min(max(1.0, math.log(odds) / rate), MAX_SECONDS)
