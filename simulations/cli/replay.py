"""``wactl replay``: what each policy would have done with a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from ..sweep import Cell
    from ..trace import Trace


def replay(
    traces: Annotated[list[str], typer.Argument(help="Trace files; - is standard input.")],
    policy: Annotated[str, typer.Option(help="Policies, separated by commas.")] = "lru,adaptive",
    capacity: Annotated[
        str, typer.Option(help="Cache sizes: blocks (1000), a share of the trace's (5%), 20GiB.")
    ] = "1%,5%,20%",
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first requests.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count broken lines and go on.")
    ] = False,
    bytes_per_token: Annotated[
        float | None, typer.Option(min=1, help="KV bytes of a token, for sizes in bytes.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw hit ratio over capacity (.png or .svg).")
    ] = None,
) -> None:
    """Replay traces through eviction policies with the very code that runs live.

    Requests come in time order and are over at once; a hit counts only while every earlier
    block of the prompt hit too; the cache is evicted down to its size after each request.
    """
    from ...policies.errors import WactlError
    from ..sweep import parse_capacities, sweep

    capacities = parse_capacities(capacity, bytes_per_token)
    policies = list(dict.fromkeys(name.strip() for name in policy.split(",") if name.strip()))
    if not policies:
        raise WactlError("--policy needs at least one policy")
    loaded = [_load(path, limit, skip_bad) for path in traces]
    total = sum(len(policies) * len(capacities(trace)) for trace in loaded)
    cells = _collect(sweep(loaded, policies, capacities), total)
    order = {name: index for index, name in enumerate(policies)}
    names = [trace.name for trace in loaded]
    cells.sort(key=lambda cell: (names.index(cell.trace), cell.capacity, order[cell.policy]))
    if plot is not None:
        from ..plot import draw

        draw(loaded, cells, plot)
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(cells)).decode())
        return
    from rich.console import Console

    for trace in loaded:
        mine = [cell for cell in cells if cell.trace == trace.name]
        Console().print(table_of(trace, mine, policies))
    if plot is not None:
        print(f"drawn: {plot}")


def _load(path: str, limit: int | None, skip_bad: bool) -> Trace:
    import sys

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from ..readers import load_trace

    console = Console(stderr=True)
    columns = TextColumn("reading {task.description}"), BarColumn(24), DownloadColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(path, total=None)
        trace = load_trace(
            path,
            skip_bad=skip_bad,
            limit=limit,
            progress=lambda done, total: bar.update(task, completed=done, total=total or None),
        )
    if trace.skipped:
        print(f"{path}: {trace.skipped} broken lines left out", file=sys.stderr)
    return trace


def _collect(cells: Iterable[Cell], total: int) -> list[Cell]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    found: list[Cell] = []
    columns = TextColumn("{task.description:<44}"), BarColumn(24), MofNCompleteColumn()
    with Progress(
        *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("replaying", total=total)
        for cell in cells:
            found.append(cell)
            text = f"{cell.policy} at {cell.capacity}: {cell.hit_ratio:.4f}"
            bar.update(task, advance=1, description=text)
    return found


def table_of(trace: Trace, cells: list[Cell], policies: list[str]) -> Table:
    """Hit ratios of a trace, a row a policy and a column a capacity."""
    from rich.table import Table

    title = f"{trace.name}: {trace.requests} requests, {trace.distinct} distinct blocks"
    table = Table(title=title)
    table.add_column("hit ratio at blocks")
    capacities = sorted({cell.capacity for cell in cells})
    for capacity in capacities:
        table.add_column(str(capacity), justify="right")
    ratios = {(cell.policy, cell.capacity): f"{cell.hit_ratio:.4f}" for cell in cells}
    for policy in policies:
        table.add_row(policy, *(ratios[policy, capacity] for capacity in capacities))
    return table
