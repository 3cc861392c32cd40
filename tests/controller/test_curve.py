"""Reuse by age: counts stay counts, and a law that is right expects what is seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from wactl.controller.curve import BINS, curve
from wactl.controller.fit import Fit
from wactl.controller.tree import exposure
from wactl.policies.ages import AGES
from wactl.policies.parameters import Law

Row = NDArray[np.float64]


@pytest.fixture
def fit(
    observe: Callable[..., tuple[Row, Row]], bins_of: Callable[[Row], Row]
) -> Callable[[Law], Fit]:
    """A fit of a hundred thousand waits, six of ten ending in reuse after 20 s in the mean."""
    reused, watched = observe(0.6, 1 / 20.0, 100.0, 100_000)
    events, censored = bins_of(reused), bins_of(watched)
    waited = exposure(events[None], censored[None])[0]
    return lambda law: Fit(law, 1e5, float(events.sum()), events, waited)


def test_the_law_behind_the_data_expects_what_is_seen(fit: Callable[[Law], Fit]) -> None:
    """Also at ages that few blocks were watched for, where censoring hides most reuse."""
    found = curve(fit(Law((0.6,), (1 / 20.0,), 60.0)))
    assert len(found.measured) == len(found.expected) == BINS
    many = [at for at, count in enumerate(found.measured) if count > 1000]
    assert len(many) >= 4
    for at in many:
        assert found.expected[at] == pytest.approx(found.measured[at], rel=0.1)


def test_no_reuse_is_lost(fit: Callable[[Law], Fit]) -> None:
    """Bars add up to the reuses."""
    one = fit(Law((0.6,), (1 / 20.0,), 60.0))
    assert sum(curve(one).measured) == pytest.approx(one.reuses)


def test_hazards_go_before_the_mixture(fit: Callable[[Law], Fit]) -> None:
    """A law that has them is drawn by them: half the hazard expects half the reuse."""
    whole, half = (
        sum(curve(fit(Law((0.6,), (1.0,), 60.0, (hazard,) * len(AGES)))).expected)
        for hazard in (0.02, 0.01)
    )
    assert whole == pytest.approx(2 * half)
    assert whole > 0
