"""``wactl demo``: the whole loop on a real vLLM, LRU against wactl, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from ..compare import Outcome

MINUTES = 30.0
"""Traffic of the generated workload, in minutes."""
SECONDS = 60.0
"""How long its replay is to take, a side."""


def demo(
    trace: Annotated[
        Path | None, typer.Option(help="Replay this Mooncake- or Bailian-format file instead.")
    ] = None,
    blocks: Annotated[int, typer.Option(min=8, help="Cache size in blocks.")] = 1000,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first requests.")] = None,
    speed: Annotated[
        float | None, typer.Option(min=0.01, help="How much faster than recorded time runs.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Start a real vLLM twice, plain and with wactl, and show what differs.

    The model is generated, the cache small, and time runs faster than recorded, so that half
    an hour of traffic takes a minute. Hit ratios are vLLM's own.
    """
    import tempfile

    from ..traces import read_trace
    from ..workload import generate

    prompts = read_trace(trace, limit) if trace else generate(MINUTES)[:limit]
    with tempfile.TemporaryDirectory(prefix="wactl-demo-") as folder:
        outcomes = _compare(prompts, blocks, speed, Path(folder))
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(outcomes)).decode())
        return
    from rich.console import Console

    Console().print(summary(outcomes))


def _compare(prompts: list, blocks: int, speed: float | None, folder: Path) -> list[Outcome]:  # type: ignore[type-arg]
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ..compare import Plan, run_lru, run_wactl
    from ..model import write_model
    from ..server import Served

    longest = max(len(prompt.blocks) for prompt in prompts)
    served = Served(write_model(folder / "model"), blocks, 32, 32 * (longest + 1))
    plan = Plan(prompts, served, speed or max(1.0, prompts[-1].time / SECONDS), folder)
    outcomes = []
    with Progress(
        TextColumn("{task.description:<28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ) as bar:
        for run in (run_lru, run_wactl):
            task = bar.add_task("", total=len(prompts))
            outcomes.append(
                run(plan, lambda text, done: bar.update(task, description=text, completed=done))
            )
    return outcomes


def summary(outcomes: list[Outcome]) -> Table:
    """Both sides next to each other."""
    from rich.table import Table

    table = Table(title="The same prompts, the same cache, a real vLLM")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.name, justify="right")
    rows = {
        "hit ratio": lambda o: f"{o.hit_ratio:.4f}",
        "time to first token, mean": lambda o: f"{1000 * o.mean_first_token:.0f} ms",
        "time to first token, p95": lambda o: f"{1000 * o.p95_first_token:.0f} ms",
        "requests": lambda o: str(o.requests),
        "failed": lambda o: str(o.failed),
        "parameter versions": lambda o: str(o.versions) if o.versions else "–",
    }
    for name, value in rows.items():
        table.add_row(name, *(value(outcome) for outcome in outcomes))
    return table
