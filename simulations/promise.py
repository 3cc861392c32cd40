"""Write docs/promise.md: is the whole controller ever worse than LRU, or than its parts?

Run it as ``python -m wactl.simulations.promise FOLDER OUT``, or as ``make promise``. Two tables:
over all traces of a folder at many cache sizes, and window by window over made-up traffic that
is built to fool a learner.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..controller.contest import LRU
from ..controller.family import Family
from ..controller.gate import Gate
from ..controller.settings import Settings
from .baselines import lru
from .controlled import Controlled, control
from .generate.plan import Plan
from .generate.presets import PRESETS, generate
from .played import Played
from .pool import Job, run
from .readers import load_trace
from .trace import Trace

SIZES = 12
"""Cache sizes for each trace, from 1 % to 100 % of its distinct blocks, in equal ratios."""

WARM_UP = 600.0
"""Seconds of made-up traffic that are not judged."""

SPAN = 600.0
"""Seconds of a window."""

BELOW = 0.001
"""By how much the hit ratio of a whole trace may be below LRU's."""

LEAST = -0.005
"""By how much it may be below LRU's within a window."""

SHARE = 0.98
"""Share of the best single family's hit ratio that is expected."""

LATE = 120.0
"""Seconds after which LRU's order must be back when the other one is worse."""

ADAPTIVE = "adaptive"
FAMILIES = tuple(family.value for family in Family)
PATTERNS = (*PRESETS["adversaries"], *PRESETS["drift"])

HEAD = """\
# The promise

Never worse than LRU: what the whole controller (`adaptive`) makes of it in the laboratory, from an
empty start in each replay. Hit ratios count as in [replay.md](replay.md); [gate.md](gate.md) tells
what decides. Written by

    make promise TRACES={folder}
"""

CELLS = """\
## Every trace, every cache size

Cache sizes are in blocks. The last two columns are `adaptive` minus `lru`, and `adaptive` as a part
of the best single family of laws.
"""

WINDOWS = """\
## Traffic built to fool it

The presets of [generate.md](generate.md) that change or are hostile, {seconds:.0f} s of each, at
{blocks} blocks. `worst` is the window of ten minutes in which `adaptive` is furthest behind LRU (or
least ahead), in points of hit ratio; the first ten minutes are left out. `back`: where it is
behind, seconds from the moment at which it began to lose in that window until LRU's order ran.
"""


@dataclass(frozen=True)
class Outcome:
    """What one order of blocks did with a trace."""

    trace: str
    policy: str
    capacity: int
    hits: NDArray[np.int64]
    """Of each request: its leading cached blocks."""
    gates: tuple[Gate, ...]
    """The states of the gate one after the other; empty without one."""


@dataclass(frozen=True)
class Worst:
    """The window in which one is furthest behind the other, by ``points`` of hit ratio."""

    points: float
    start: float
    """When it begins, in seconds."""
    back: float | None
    """Seconds from the first loss in it until LRU's order ran, None if it never did."""


def main(folder: Path, out: Path) -> None:
    """Replay the traces of ``folder`` and the presets, and write what came out to ``out``."""
    plan = Plan()
    patterns = [generate(name, plan) for name in PATTERNS]
    traces = [load_trace(str(path)) for path in sorted(folder.glob("*.jsonl.gz"))]
    traces.sort(key=lambda trace: len(trace.blocks))
    jobs = [
        *(Job(i, p, plan.blocks) for i in range(len(patterns)) for p in (LRU, ADAPTIVE)),
        *(
            Job(index, policy, capacity)
            for index, trace in enumerate(traces, len(patterns))
            for policy in (LRU, *FAMILIES, ADAPTIVE)
            for capacity in sizes(trace)
        ),
    ]
    found: dict[str, list[Outcome]] = {}
    for outcome in run(play, [*patterns, *traces], jobs):
        print(outcome.trace, outcome.policy, outcome.capacity, file=sys.stderr, flush=True)
        found.setdefault(outcome.trace, []).append(outcome)
    parts = [
        HEAD.format(folder=folder),
        CELLS,
        *cells([(trace, found[trace.name]) for trace in traces]),
        WINDOWS.format(seconds=plan.seconds, blocks=plan.blocks),
        *windows([(trace, found[trace.name]) for trace in patterns]),
    ]
    out.write_text("\n".join(parts), encoding="utf-8")


def sizes(trace: Trace) -> list[int]:
    """Cache sizes in blocks, see `SIZES`."""
    return [max(1, round(share * trace.distinct)) for share in np.geomspace(0.01, 1.0, SIZES)]


def play(trace: Trace, policy: str, capacity: int) -> Outcome:
    """Replay a trace under `LRU`, one family of laws, or the whole controller."""
    if policy == ADAPTIVE:
        return Outcome(trace.name, policy, capacity, *_adaptive(trace, capacity))
    played = lru.run(trace, capacity) if policy == LRU else control(trace, capacity, Family(policy))
    return Outcome(trace.name, policy, capacity, _leading(trace, played), ())


def _adaptive(trace: Trace, capacity: int) -> tuple[NDArray[np.int64], tuple[Gate, ...]]:
    controlled = Controlled(trace, capacity, Settings())
    hits = np.zeros(trace.requests, np.int64)
    gates = [controlled.loop.gate]
    for request in range(trace.requests):
        hits[request] = controlled.serve(request)
        if controlled.loop.gate != gates[-1]:
            gates.append(controlled.loop.gate)
    return hits, tuple(gates)


def _leading(trace: Trace, played: Played) -> NDArray[np.int64]:
    missed = np.append(np.flatnonzero(played.hits == 0), len(played.hits))
    first = missed[np.searchsorted(missed, trace.offsets[:-1])]
    hits: NDArray[np.int64] = np.minimum(first, trace.offsets[1:]) - trace.offsets[:-1]
    return hits


def cells(replayed: Sequence[tuple[Trace, Sequence[Outcome]]]) -> list[str]:
    """The tables of all traces and how many cells keep the promise, in Markdown."""
    parts: list[str] = []
    kept = good = count = 0
    for trace, outcomes in replayed:
        ratios = {(o.policy, o.capacity): o.hits.sum() / trace.accesses for o in outcomes}
        lines = [
            f"### {trace.name}",
            "",
            _row("blocks", LRU, *FAMILIES, ADAPTIVE, "− lru", "/ best"),
            _row(*["---:"] * (len(FAMILIES) + 5)),
        ]
        for capacity in sorted({outcome.capacity for outcome in outcomes}):
            stock, *families, whole = (
                float(ratios[policy, capacity]) for policy in (LRU, *FAMILIES, ADAPTIVE)
            )
            ahead, share = whole - stock, whole / max(families) if max(families) else 1.0
            kept, good, count = kept + (ahead >= -BELOW), good + (share >= SHARE), count + 1
            numbers = (f"{ratio:.4f}" for ratio in (stock, *families, whole))
            lines.append(_row(str(capacity), *numbers, f"{ahead:+.4f}", f"{share:.3f}"))
        parts.append("\n".join([*lines, ""]))
    verdict = (
        f"`adaptive` is at least LRU − {BELOW} in {kept} of {count} cells,\n"
        f"and at least {SHARE} of the best single family in {good} of {count}.\n"
    )
    return [verdict, *parts]


def windows(replayed: Sequence[tuple[Trace, Sequence[Outcome]]]) -> list[str]:
    """The table of the presets and how many keep the promise, in Markdown."""
    lines = [_row("preset", LRU, ADAPTIVE, "worst", "begins", "back"), _row("---", *["---:"] * 5)]
    kept = quick = behind = 0
    for trace, outcomes in replayed:
        of = {outcome.policy: outcome for outcome in outcomes}
        found = worst(trace, of[ADAPTIVE], of[LRU])
        kept += found.points >= LEAST
        back = "–"
        if found.points < -BELOW:
            behind += 1
            quick += found.back is not None and found.back <= LATE
            back = "never" if found.back is None else f"{found.back:.0f} s"
        ratios = (f"{of[policy].hits.sum() / trace.accesses:.4f}" for policy in (LRU, ADAPTIVE))
        points = f"{100 * found.points:+.2f}"
        lines.append(_row(trace.name, *ratios, points, f"{found.start:.0f} s", back))
    verdict = (
        f"No window is more than {-100 * LEAST} points behind LRU in {kept} of {len(replayed)} "
        f"presets.\nMore than {100 * BELOW} points behind: {behind}; LRU's order was back within "
        f"{LATE:.0f} s in {quick} of them.\n"
    )
    return [verdict, "\n".join([*lines, ""])]


def worst(trace: Trace, one: Outcome, other: Outcome) -> Worst:
    """The window of `SPAN` seconds after `WARM_UP` in which ``one`` is furthest behind."""
    times = trace.times
    ahead = np.append(0, np.cumsum(one.hits - other.hits))
    starts = np.flatnonzero((times >= WARM_UP) & (times + SPAN <= times[-1]))
    ends = np.searchsorted(times, times[starts] + SPAN)
    points = (ahead[ends] - ahead[starts]) / (trace.offsets[ends] - trace.offsets[starts])
    least = int(points.argmin())
    first, end = int(starts[least]), int(ends[least])
    # It began to lose at the last peak before the deepest fall.
    path = ahead[first:end]
    fall = np.maximum.accumulate(path) - path
    bottom = int(fall.argmax())
    turn = times[first + int(np.flatnonzero(fall[: bottom + 1] == 0)[-1])]
    return Worst(float(points[least]), float(times[first]), _back(one.gates, float(turn)))


def _back(gates: Sequence[Gate], start: float) -> float | None:
    """Seconds from ``start`` until LRU ran."""
    before = [gate for gate in gates if gate.since <= start]
    if before[-1].running == LRU:
        return 0.0
    return next((g.since - start for g in gates if g.since > start and g.running == LRU), None)


def _row(*entries: str) -> str:
    return f"| {' | '.join(entries)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
