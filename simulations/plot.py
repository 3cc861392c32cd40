"""Hit ratio over capacity, drawn: where a policy bends, and how much room is above it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..policies.errors import WactlError
from .sweep import Cell
from .trace import Trace

OURS = ("paper", "exponential", "mixture", "adaptive")


def draw(traces: Sequence[Trace], cells: Sequence[Cell], path: Path) -> None:
    """Write one panel a trace to ``path`` (.png or .svg). Raises `WactlError`."""
    if path.suffix not in (".png", ".svg"):
        raise WactlError(f"cannot draw {path}; name it .png or .svg")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise WactlError("drawing needs matplotlib; run: pip install 'wactl[plot]'") from None
    figure = Figure(figsize=(7.0, 4.5 * len(traces)), layout="constrained")
    panels = figure.subplots(len(traces), squeeze=False)[:, 0]
    for trace, panel in zip(traces, panels, strict=True):
        mine = [cell for cell in cells if cell.trace == trace.name]
        for policy in dict.fromkeys(cell.policy for cell in mine):
            points = sorted((c.capacity, c.hit_ratio) for c in mine if c.policy == policy)
            bold = policy in OURS
            panel.plot(
                [capacity for capacity, _ in points],
                [ratio for _, ratio in points],
                marker="o",
                markersize=5 if bold else 3,
                linewidth=2.0 if bold else 1.0,
                linestyle=":" if policy == "belady" else "-",
                color={"lru": "black", "belady": "grey"}.get(policy),
                label=policy,
            )
        ceiling = 1.0 - trace.sample * trace.distinct / max(1, trace.accesses)
        panel.axhline(ceiling, color="grey", linewidth=0.8, linestyle="--")
        panel.annotate(
            f"infinite cache {ceiling:.3f}",
            (0.01, ceiling),
            xycoords=("axes fraction", "data"),
            va="bottom",
            fontsize=8,
            color="grey",
        )
        panel.set(
            xscale="log",
            ylim=(0.0, None),
            xlabel="cache size (blocks)",
            ylabel="hit ratio (prompt blocks)",
            title=trace.name,
        )
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise WactlError(f"cannot write {path}: {error.strerror}") from None
