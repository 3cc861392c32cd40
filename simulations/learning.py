"""The page docs/learning.md, from the replays that are done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .alternatives.foresight import BORDERS
from .alternatives.hoeffding import DELTA
from .variants import TREE, Done, Variant

GOALS = {
    "mooncake_conversation": {1000: 0.084, 4000: 0.155, 16000: 0.281},
    "agentic_dev_2h": {16000: 0.315, 32000: 0.515, 64000: 0.757},
    "lmcache_agent": {400: 0.482, 1200: 0.684, 4000: 0.7890},
    "mooncake_synthetic": {4000: 0.267, 10000: 0.445, 20000: 0.590},
}
"""Hit ratios that the learning is to reach, by trace and cache size in blocks."""

SHORT = {
    "mooncake_conversation": "conversation",
    "agentic_dev_2h": "agentic",
    "lmcache_agent": "lmcache",
    "mooncake_synthetic": "synthetic",
}

CELLS = [(trace, capacity) for trace, goals in GOALS.items() for capacity in goals]

BASE = f"division: {TREE}"
ADAPTIVE, LRU, BELADY = "bounds: adaptive", "bounds: lru", "bounds: belady"
BEFOREHAND, CLASS = "gap: fitted beforehand", "gap: class known"

HEAD = """\
# What each part of the learning is worth

Block hit ratios (see [replay.md](replay.md)): one pass, online, from an empty start, nothing
declared unless said. Each table changes one part of the learner and leaves the rest as shipped: a
tree of 64 categories, a life table for each, refitted every 30 s. The gate and the second family
are left out but in the row `adaptive`, so that what is compared is what was learned. The last
column is the mean difference from the first row, in points (hundredths of the hit ratio). Replays
are deterministic, but each trace is one sample of its kind: tenths of a point say little.
Written by

    make learning TRACES={folder}
"""

GROUPS = {
    "division": (
        "Models that divide the requests",
        f"""\
The same features and the same laws; only what divides the requests differs. river's tree and
regression learn which class of reuse a part of a request has (within 5 s, 60 s, 10 min, or not):
one label for what was new in the prompt and one for what was carried over, which comes on reuse or
after 10 minutes. The leaves of the Hoeffding adaptive tree (δ = {DELTA:g}), or the classes that the
regression predicts (by position), are the categories.""",
    ),
    "family": ("Families of laws", "The same tree, another law for each category."),
    "features": (
        "Features",
        """\
Left out: the tree may not ask for it. Added: as one more word, of which the tree can tell fifteen
from the rest. Structured output, priority, limits of output, LoRA, tenants and modality are the
same for all requests of these traces.""",
    ),
    "W": ("Number of categories", "At most so many leaves; 64 are shipped."),
    "declared": (
        "Declared types and sessions",
        """\
What the trace declares is shown to the recorder, which infers it otherwise. The two other traces
declare nothing.""",
    ),
    "forgetting": ("Forgetting", "As shipped, what was seen an hour ago counts half."),
    "shrinkage": (
        "Shrinkage between categories",
        "So many requests are lent by the category above; 10 as shipped.",
    ),
    "pull": (
        "Shrinkage of the life table",
        "Each bin of age is lent so many requests at the hazard of the exponential; 1 as shipped.",
    ),
    "horizon": (
        "Horizon",
        "The probability of reuse within a window, in place of the hazard.",
    ),
    "price": (
        "Price of a division",
        "Log likelihood that a division must gain for each parameter it adds; 1 as shipped.",
    ),
    "refit": ("Time between refits", "30 s as shipped; the tree is grown anew at each fourth."),
}
"""Title and text of each group of variants."""

GAP = """\
In the mean over the cells Belady hits {gap:.1f} points more than the tree. They are made of

1. {learning:+.1f} points: **learning**. A tree and laws fitted to the whole trace beforehand,
   without forgetting, and in force from its start, against those learned on the way. Below zero
   where laws that follow the traffic beat laws that stay. What is fitted to a trace also fits
   what is chance in it, so of this a learner can have less.
2. {misclassified:+.1f} points: **misclassified**. An oracle names the category: the class of time
   (borders at {borders} s, or never) after which the middle block of the part is used next. Only
   the laws of the classes are learned. Against the tree fitted beforehand. Below zero where the
   features tell more than that class does.
3. {rest:+.1f} points: **what no category of a part can tell**: times within a class, and blocks of
   one part that fare differently. Belady against that oracle.

So {unpredictable:.1f} points, 2 and 3 together, are what these features do not predict even if the
laws are known from the start. In points, for each cell:
"""

Ratios = Mapping[tuple[str, str, int], float]


def page(every: Sequence[Variant], done: Sequence[Done], folder: Path) -> str:
    """The page in Markdown; variants of which replays are missing are named at its end."""
    ratios = {(one.variant, one.trace, one.capacity): one.hit_ratio for one in done}
    whole = [variant for variant in every if _whole(ratios, variant)]
    keys = {variant.key for variant in whole}
    parts = [HEAD.format(folder=folder)]
    if {BASE, ADAPTIVE, LRU, BELADY} <= keys:
        parts.append(_goals(ratios))
    if {BASE, BELADY, BEFOREHAND, CLASS} <= keys:
        parts.append(_gap(ratios))
    for group, (title, text) in GROUPS.items():
        rows = [variant for variant in whole if variant.group == group and variant.key != BASE]
        if rows and BASE in keys:
            parts.append(_section(ratios, title, text, rows))
            if group == "division":
                parts.append(_times(done, [BASE, *(variant.key for variant in rows)]))
    if missing := [variant.key for variant in every if variant.key not in keys]:
        parts.append(f"Not computed: {', '.join(missing)}.\n")
    return "\n".join(parts)


def _whole(ratios: Ratios, variant: Variant) -> bool:
    """Whether no replay of the variant is missing."""
    cells = [cell for cell in CELLS if (variant.key, *cell) in ratios]
    traces = {trace for trace, _ in cells}
    expected = [cell for cell in CELLS if cell[0] in traces] if variant.declares else CELLS
    return bool(cells) and cells == expected


def _goals(ratios: Ratios) -> str:
    goal = [GOALS[trace][capacity] for trace, capacity in CELLS]
    shipped = _values(ratios, ADAPTIVE)
    short = [
        f"{SHORT[trace]} {capacity} by {wanted - got:.5f}"
        for (trace, capacity), wanted, got in zip(CELLS, goal, shipped, strict=True)
        if got < wanted
    ]
    reached = f"{len(CELLS) - len(short)} of {len(CELLS)} goals are reached as shipped (`adaptive`)"
    rows = {
        "lru": _values(ratios, LRU),
        "goal": goal,
        TREE: _values(ratios, BASE),
        "adaptive": shipped,
        "belady": _values(ratios, BELADY),
    }
    tail = f"; short are {', '.join(short)}.\n" if short else ".\n"
    return f"## Goals\n\n{reached}{tail}\n{_table(rows, None)}"


def _gap(ratios: Ratios) -> str:
    base, belady, beforehand, known = (
        _values(ratios, key) for key in (BASE, BELADY, BEFOREHAND, CLASS)
    )
    shares = {
        "gap": _less(belady, base),
        "1. learning": _less(beforehand, base),
        "2. misclassified": _less(known, beforehand),
        "3. no category can tell": _less(belady, known),
    }
    means = {name: 100.0 * sum(row) / len(row) for name, row in shares.items()}
    gap, learning, misclassified, rest = means.values()
    borders = [f"{border:g}" for border in BORDERS[:-1]]
    text = GAP.format(
        gap=gap,
        learning=learning,
        misclassified=misclassified,
        rest=rest,
        unpredictable=misclassified + rest,
        borders=f"{', '.join(borders[:-1])} and {borders[-1]}",
    )
    rows = {
        TREE: base,
        "fitted beforehand": beforehand,
        "class known": known,
        "belady": belady,
    }
    points = {name: [100.0 * value for value in row] for name, row in shares.items()}
    return (
        f"## What the gap to Belady is made of\n\n{text}\n{_table(points, None, '+.1f')}\n"
        f"The hit ratios behind them:\n\n{_table(rows, None)}"
    )


def _section(ratios: Ratios, title: str, text: str, rows: Sequence[Variant]) -> str:
    values = {TREE: _values(ratios, BASE)}
    values |= {variant.name: _values(ratios, variant.key) for variant in rows}
    means = {name: _mean_difference(row, values[TREE]) for name, row in values.items()}
    best = max(means, key=lambda name: means[name])
    verdict = f"Best in the mean: {best}."
    if best != TREE:
        verdict = f"Best in the mean: {best}, by {means[best]:.2f} points."
    return f"## {title}\n\n{text}\n{verdict}\n\n{_table(values, TREE)}"


def _times(done: Sequence[Done], keys: Sequence[str]) -> str:
    """Processor time of the whole replay for each request, mean over the cells of each trace."""
    lines = [_row("µs a request", SHORT.values()), _row("---", ("---:" for _ in SHORT))]
    for key in keys:
        found = []
        for trace in GOALS:
            spent = [one for one in done if one.variant == key and one.trace == trace]
            requests = sum(one.requests for one in spent)
            found.append(f"{1e6 * sum(one.seconds for one in spent) / requests:.0f}")
        lines.append(_row(key.removeprefix("division: "), found))
    text = (
        "Processor time of the whole replay: cache, evictor, learner, and the model, which is "
        "asked several times a request.\n"
    )
    return "\n".join([text, *lines, ""])


def _table(rows: Mapping[str, Sequence[float]], base: str | None, form: str = ".4f") -> str:
    """Rows of one value a cell; with ``base``, and what they differ from that row in the mean."""
    names = []
    for trace, goals in GOALS.items():
        first, *rest = goals
        names += [f"{SHORT[trace]} {first}", *map(str, rest)]
    mean = ["mean"] if base else []
    lines = [_row("", [*names, *mean]), _row("---", ["---:"] * (len(CELLS) + len(mean)))]
    for name, row in rows.items():
        found = ["–" if math.isnan(value) else f"{value:{form}}" for value in row]
        if base:
            found.append("" if name == base else f"{_mean_difference(row, rows[base]):+.2f}")
        lines.append(_row(name, found))
    return "\n".join([*lines, ""])


def _row(first: str, rest: Iterable[str]) -> str:
    return f"| {' | '.join([first, *rest])} |"


def _values(ratios: Ratios, key: str) -> list[float]:
    """Hit ratios of a variant for `CELLS`, not a number where it was not played."""
    return [ratios.get((key, *cell), math.nan) for cell in CELLS]


def _less(row: Sequence[float], base: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(row, base, strict=True)]


def _mean_difference(row: Sequence[float], base: Sequence[float]) -> float:
    """In points, over the cells that were played."""
    found = [value for value in _less(row, base) if not math.isnan(value)]
    return 100.0 * sum(found) / len(found)
