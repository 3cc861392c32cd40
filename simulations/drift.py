"""Write docs/drift.md: what the controller is worth right after traffic has changed.

Run it as ``python -m wactl.simulations.drift OUT``, or as ``make drift``. Each of the drifting
presets of `wactl generate` is replayed up to its change under the whole controller. From there on
it goes on four ways: as plain LRU all along, with the parameters of that moment frozen, with the
controller learning on, and with an oracle's parameters, which were fitted on all the traffic
between this change and the next beforehand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..controller.learner import Learner
from ..controller.rules import load_rules
from ..controller.settings import Settings
from ..policies.intake import Orders, orders_of
from .cache import SimulatedCache
from .controlled import Controlled
from .generate.plan import Plan
from .generate.presets import generate
from .trace import Trace

CHANGES = {"switch": (1, 2), "slower": (1,), "template": (1,), "burst": (1,)}
"""Which of a preset's changes are looked at; they part it into stretches of equal length."""

GRACE = 180.0
"""Seconds after a change that the controller has to find its feet."""

LOOK = 600.0
"""Seconds from there on over which hit ratios are compared."""

ORACLES_LINEAGE = 2
"""Its categories are not the controller's."""

HEAD = """\
# After a change

Hit ratios on the drifting presets of [`wactl generate`](generate.md) with 1,000 blocks, from 3 to
13 minutes after each change: `frozen` keeps the parameters it had at the change, `oracle` gets
those fitted beforehand on all traffic up to the next change. Written by

    make drift

| preset | change at | lru | frozen | adaptive | oracle | adaptive / oracle |
|---|--:|--:|--:|--:|--:|--:|
"""


@dataclass(frozen=True)
class After:
    """Hit ratios after one change, at ``time`` seconds."""

    preset: str
    time: float
    lru: float
    frozen: float
    adaptive: float
    oracle: float


def main(out: Path) -> None:
    """Replay all presets and write the table to ``out``."""
    rows = []
    for preset, numbers in CHANGES.items():
        print(preset, file=sys.stderr, flush=True)
        trace = generate(preset, Plan())
        length = float(trace.times[-1]) / (len(numbers) + 1)
        rows += [after(trace, preset, length * n, length * (n + 1)) for n in numbers]
    lines = [
        f"| {row.preset} | {row.time:.0f} s | {row.lru:.4f} | {row.frozen:.4f} "
        f"| {row.adaptive:.4f} | {row.oracle:.4f} | {row.adaptive / row.oracle:.3f} |\n"
        for row in rows
    ]
    out.write_text(HEAD + "".join(lines), encoding="utf-8")


def after(trace: Trace, preset: str, change: float, end: float, capacity: int = 1000) -> After:
    """What each of the four is worth after the change at ``change``; the next one is at ``end``."""
    oracle = oracles(trace, capacity, change, end)
    last = min(end, change + GRACE + LOOK)
    window = (trace.times >= change + GRACE) & (trace.times < last)

    def ratio(played: NDArray[np.int64]) -> float:
        return float(played[window].sum() / np.diff(trace.offsets)[window].sum())

    return After(
        preset,
        change,
        ratio(_replay(trace, capacity, lambda now: False, None)),
        ratio(_replay(trace, capacity, lambda now: now < change, None)),
        ratio(_replay(trace, capacity, lambda now: True, None)),
        ratio(_replay(trace, capacity, lambda now: now < change, oracle)),
    )


def oracles(trace: Trace, capacity: int, start: float, end: float) -> Orders:
    """The parameters that the traffic from ``start`` to ``end`` teaches, all of it seen."""
    settings = Settings()
    cache = SimulatedCache(trace, capacity)
    learner = Learner(settings, load_rules(settings.rules), ORACLES_LINEAGE)
    first, last = np.searchsorted(trace.times, (start, end))
    for request in range(first, last):
        admission, finish = cache.serve(request)
        learner.admit(admission)
        learner.finish(finish)
        learner.step(float(trace.times[request]))
    parameters = learner.parameters(1)
    assert parameters is not None, "a stretch of a preset without any reuse"
    return orders_of(parameters)


def _replay(
    trace: Trace, capacity: int, learns: Callable[[float], bool], then: Orders | None
) -> NDArray[np.int64]:
    """Hits of each request, the controller being in charge as long as it ``learns``."""
    controlled = Controlled(trace, capacity, Settings())
    hits = np.zeros(trace.requests, np.int64)
    for request in range(trace.requests):
        if learns(float(trace.times[request])):
            hits[request] = controlled.serve(request)
            continue
        if then is not None:
            controlled.cache.obey(then)
        hits[request] = controlled.cache.serve(request)[0].hits
    return hits


if __name__ == "__main__":
    main(Path(sys.argv[1]))
