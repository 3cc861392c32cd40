"""The variants that docs/learning.md compares, each a small change of the learner, by group.

All but `adaptive` are played without the gate, with one family of laws, so that what is compared
is what was learned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import msgspec

from ..controller import learner, lifetable
from ..controller.cells import REFINED
from ..controller.family import Family
from ..controller.learner import Learner
from ..controller.rules import load_rules
from ..controller.settings import Settings
from ..controller.tree import grow
from ..policies.features import (
    CARRIED,
    FEATURES,
    GAP,
    GENERATED,
    LENGTH,
    POPULARITY,
    POSITION,
    PREVIOUS_GAP,
    TEMPLATE,
    TURN,
)
from ..policies.parameters import Score
from .alternatives import beforehand, features, foresight, grid, hoeffding, linear
from .alternatives.beforehand import LONG
from .alternatives.swapped import swapped
from .baselines import belady, lru
from .cache import SimulatedCache
from .controlled import adaptive, replay
from .played import Played
from .trace import Trace

TOLD_APART = (TURN, GAP, PREVIOUS_GAP, GENERATED, LENGTH, POPULARITY, POSITION)
"""Features of `REFINED` that are not the same for all requests of traces that declare nothing."""

TREE = "tree, life table"
"""The learner as shipped, without the gate: what every variant differs from."""


@dataclass(frozen=True)
class Variant:
    """A named change and what plays it."""

    group: str
    name: str
    play: Callable[[Trace, int], Played]
    declares: bool = False
    """Whether it makes sense only of traces that declare types or sessions."""

    @property
    def key(self) -> str:
        """Tells the variant from all others."""
        return f"{self.group}: {self.name}"

    def fits(self, trace: Trace) -> bool:
        """Whether the trace has what it needs."""
        return not self.declares or trace.types is not None or trace.sessions is not None


class Done(msgspec.Struct, frozen=True):
    """One replay and what came out of it."""

    variant: str
    """Its key."""
    trace: str
    capacity: int
    requests: int
    hit_ratio: float
    """Share of the block accesses found with every earlier block of their prompt."""
    seconds: float
    """Of the processor."""


def measure(variant: Variant, trace: Trace, capacity: int) -> Done:
    """Replay a trace under a variant."""
    start = time.process_time()
    played = variant.play(trace, capacity)
    seconds = time.process_time() - start
    ratio = played.prefix_hits(trace.offsets) / len(trace.blocks)
    return Done(variant.key, trace.name, capacity, trace.requests, ratio, round(seconds, 3))


def learned(
    trace: Trace,
    capacity: int,
    *,
    declared: bool = False,
    swap: tuple[ModuleType, dict[str, Any]] | None = None,
    **changes: Any,
) -> Played:
    """The learner with other settings, or other values in one module."""
    settings = Settings(**{"families": (Family.LIFE_TABLE,), **changes})
    with swapped(swap[0], **swap[1]) if swap else nullcontext():
        cache = SimulatedCache(trace, capacity)
        brain = Learner(settings, load_rules(settings.rules))
        return replay(cache, brain, declared=declared)


def variants() -> list[Variant]:
    """All of them, those that matter most first."""
    assert set(TOLD_APART) <= set(REFINED)
    change = partial(partial, learned)
    window = {"score": Score.WINDOW}
    rows: list[tuple[str, str, Callable[[Trace, int], Played]]] = [
        ("bounds", "lru", lru.run),
        ("bounds", "belady", belady.run),
        ("division", TREE, learned),
        ("division", "Hoeffding adaptive tree", hoeffding.play),
        ("division", "softmax regression", linear.play),
        ("division", "grid position × turn × gap", grid.play),
        ("division", "none", change(categories=1)),
        ("gap", "fitted beforehand", beforehand.play),
        ("gap", "class known", foresight.play),
        ("bounds", "adaptive", adaptive),
        ("family", "exponential", change(families=(Family.EXPONENTIAL,))),
        ("family", "mixture", change(families=(Family.MIXTURE,))),
        *(
            ("features", f"without {FEATURES[feature]}", features.without(feature))
            for feature in TOLD_APART
        ),
        *(
            ("features", f"with {FEATURES[feature]}", features.wearing(feature))
            for feature in (CARRIED, TEMPLATE)
        ),
        *(("W", f"{count} categories", change(categories=count)) for count in (4, 16, 128)),
        ("declared", "types and sessions seen", change(declared=True)),
        ("forgetting", "half-life 10 min", change(half_life_seconds=600.0)),
        ("forgetting", "never", change(half_life_seconds=LONG)),
        *(
            ("shrinkage", f"{count} requests", change(borrowed_requests=float(count)))
            for count in (0, 3, 30)
        ),
        *(
            ("pull", f"{pull:g} requests a bin", change(swap=(lifetable, {"PULL": pull})))
            for pull in (0.1, 10.0)
        ),
        *(
            ("horizon", f"window {seconds:g} s", change(horizon_seconds=seconds, **window))
            for seconds in (10.0, 60.0, 600.0)
        ),
        *(
            ("price", f"{price:g}", change(swap=(learner, {"grow": partial(grow, price=price)})))
            for price in (0.5, 2.0)
        ),
        *(("refit", f"{seconds} s", change(refit_seconds=float(seconds))) for seconds in (10, 120)),
    ]
    return [Variant(*row, declares=row[0] == "declared") for row in rows]
