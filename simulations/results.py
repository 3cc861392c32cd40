"""Write docs/results.md: every policy on every trace of a folder.

Run it as ``python -m wactl.simulations.results FOLDER OUT``, or as ``make results``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .catalogue import POLICIES
from .readers import load_trace
from .sweep import Cell, parse_capacities, sweep
from .trace import Trace

CAPACITIES = {
    "mooncake_conversation": "1000,4000,16000",
    "agentic_dev_2h": "16000,32000,64000",
    "lmcache_agent": "400,1200,4000",
    "mooncake_synthetic": "4000,10000,20000",
}
"""Cache sizes in blocks for the traces whose regimes are known."""
OTHERS = "1%,5%,20%"
"""Cache sizes for all other traces."""

HEAD = """\
# Results

Hit ratios of every policy on every trace of a folder: the share of prompt blocks found in the
cache with every earlier block of their prompt (see [replay.md](replay.md)). Online policies learn
in the same one pass, from nothing. Bold: the best that knows no future. Written by

    make results TRACES={folder}
"""


def main(folder: Path, out: Path) -> None:
    """Replay the traces of ``folder`` and write the tables to ``out``."""
    parts = [HEAD.format(folder=folder)]
    for path in sorted(folder.glob("*.jsonl.gz")):
        trace = load_trace(str(path))
        capacities = parse_capacities(CAPACITIES.get(trace.name, OTHERS), None)
        print(trace.name, file=sys.stderr, flush=True)
        parts.append(section(trace, list(sweep([trace], list(POLICIES), capacities))))
    out.write_text("\n".join(parts), encoding="utf-8")


def section(trace: Trace, cells: Sequence[Cell]) -> str:
    """The table of one trace, in Markdown."""
    capacities = sorted({cell.capacity for cell in cells})
    ratios = {(cell.policy, cell.capacity): cell.hit_ratio for cell in cells}
    best = {
        capacity: max(
            ratios[name, capacity] for name, policy in POLICIES.items() if not policy.needs_future
        )
        for capacity in capacities
    }
    ceiling = 1.0 - trace.distinct / len(trace.blocks)
    lines = [
        f"## {trace.name}",
        "",
        f"{trace.requests} requests, {len(trace.blocks)} block accesses, {trace.distinct} distinct "
        f"blocks; an infinite cache hits {ceiling:.4f}.",
        "",
        _row("blocks", map(str, capacities)),
        _row("---", ("---:" for _ in capacities)),
    ]
    for name in POLICIES:
        values = (
            f"**{ratios[name, c]:.4f}**" if ratios[name, c] == best[c] else f"{ratios[name, c]:.4f}"
            for c in capacities
        )
        lines.append(_row(name, values))
    return "\n".join([*lines, ""])


def _row(first: str, rest: Iterable[str]) -> str:
    return f"| {' | '.join([first, *rest])} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
