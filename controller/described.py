"""The categories of an engine, as the status tells of them."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import DEFAULT, FIRST_CATEGORY
from ..policies.features import Features
from .curve import Curve, curve
from .fit import Fit
from .learner import Learner, Tally
from .status import Category, Explanation


def all_categories(learner: Learner, cached: NDArray[np.float64]) -> tuple[Category, ...]:
    """Each rule, its parts behind it; ``cached`` counts the free cached blocks by category id."""
    categories, tally = learner.categories, learner.by_rule
    found: list[Category] = []
    for slot, rule in categories.rules.items():
        root = categories.tree.roots.get(slot)
        fit = None if root is None else _fit(learner, root)
        numbers = categories.numbers(slot)
        share = _share(cached, [FIRST_CATEGORY + number for number in numbers])
        found.append(
            msgspec.structs.replace(
                _category(rule.name, True, fit, tally, slot, share),
                missed=learner.misses.of_rule(slot),
            )
        )
        found += (_part(learner, cached, n) for n in numbers if n in categories.leaves)
    return tuple(found)


def explanation(
    rank: int, learner: Learner, cached: NDArray[np.float64], features: Features
) -> Explanation:
    """What happens to a request with these features at the engine ``rank``."""
    categories = learner.categories
    slot = categories.rule_of(features)
    new, old = (_part(learner, cached, n - FIRST_CATEGORY) for n in categories.of(features))
    return Explanation(rank, categories.rules[slot].name, new, old)


def ratio(part: float, whole: float) -> float | None:
    """A share; None of nothing."""
    return float(part / whole) if whole else None


def _part(learner: Learner, cached: NDArray[np.float64], number: int) -> Category:
    """The category of this number, below 0 that of no leaf."""
    ident = FIRST_CATEGORY + number
    leaf = learner.categories.leaves.get(number)
    if leaf is None:
        everything = learner.fits.everything if learner.fits else None
        return _category("everything", False, everything, learner.tally, DEFAULT, None)
    name = ", ".join(filter(None, learner.categories.name(number)))
    share = _share(cached, [ident])
    return _category(name, False, _fit(learner, leaf), learner.tally, ident, share)


def _share(cached: NDArray[np.float64], idents: list[int]) -> float | None:
    """Share of the free cached blocks; None while the engine tags none."""
    return float(cached[idents].sum() / cached.sum()) if cached[FIRST_CATEGORY:].any() else None


def _fit(learner: Learner, node: int) -> Fit | None:
    return learner.fits.nodes[node] if learner.fits else None


def _category(
    name: str, rule: bool, fit: Fit | None, tally: Tally, at: int, share: float | None
) -> Category:
    mean = fit.law.mean if fit else None
    drawn = curve(fit) if fit else Curve()
    return Category(
        name=name,
        rule=rule,
        requests=int(tally.requests[at]),
        prompt_blocks=int(tally.blocks[at]),
        hit_blocks=int(tally.hits[at]),
        hit_ratio=ratio(tally.hits[at], tally.blocks[at]),
        p=fit.law.p if fit else None,
        mean_reuse_seconds=mean if mean is not None and math.isfinite(mean) else None,
        lifespan_seconds=fit.law.lifespan if fit else None,
        evidence=round(fit.requests, 1) if fit else 0.0,
        error=fit.error if fit else None,
        cached_share=share,
        reuse=drawn.measured,
        expected=drawn.expected,
    )
