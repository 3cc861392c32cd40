"""``wactl replay``: what each policy would have done with a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.table import Table

    from ..service import PinnedCell
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
    pin: Annotated[
        bool, typer.Option("--pin", help="Let requests queue, take time and hold their blocks.")
    ] = False,
    prefill: Annotated[
        float | None, typer.Option(help="With --pin: prompt tokens per second (8000).")
    ] = None,
    decode: Annotated[
        float | None, typer.Option(help="With --pin: output tokens per second and request (40).")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster instead of here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw hit ratio over capacity (.png or .svg).")
    ] = None,
) -> None:
    """Replay traces through eviction policies with the very code that runs live.

    Requests come in time order and are over at once; a hit counts only while every earlier
    block of the prompt hit too; the cache is evicted down to its size after each request. With
    --pin they are served as a server would, and the times to the first token come out as well.
    """
    from ...policies.errors import WactlError
    from .. import cluster, pool
    from ..sweep import parse_capacities, sweep

    capacities = parse_capacities(capacity, bytes_per_token)
    policies = list(dict.fromkeys(name.strip() for name in policy.split(",") if name.strip()))
    if not policies:
        raise WactlError("--policy needs at least one policy")
    play = _player(policies, pin, prefill, decode)
    run = pool.run if ray is None else cluster.connect(ray)
    loaded = [load(path, limit, skip_bad) for path in traces]
    total = sum(len(policies) * len(capacities(trace)) for trace in loaded)
    cells = collect(sweep(loaded, policies, capacities, play, run), total)
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

    from ..service import PinnedCell

    for trace in loaded:
        mine = [cell for cell in cells if cell.trace == trace.name]
        pinned = [cell for cell in mine if isinstance(cell, PinnedCell)]
        Console().print(pinned_table(trace, pinned) if pin else table_of(trace, mine, policies))
    if plot is not None:
        print(f"drawn: {plot}")


def _player(
    policies: Sequence[str], pin: bool, prefill: float | None, decode: float | None
) -> Callable[[Trace, str, int], Cell]:
    """What makes a cell of the sweep. Raises `WactlError`."""
    from functools import partial

    from ...policies.errors import WactlError
    from .. import service, sweep
    from ..pinned import Speeds

    given = {"prefill": prefill, "decode": decode}
    speeds = {name: speed for name, speed in given.items() if speed is not None}
    if pin:
        service.check(policies)
        return partial(service.replay, speeds=Speeds(**speeds))
    if speeds:
        raise WactlError(f"--{next(iter(speeds))} needs --pin; without it requests take no time")
    return sweep.replay


def load(path: str, limit: int | None, skip_bad: bool) -> Trace:
    """Read a trace, the bytes read shown on standard error. Raises `TraceError`."""
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


def collect(cells: Iterable[Cell], total: int) -> list[Cell]:
    """All cells of a sweep, each shown on standard error as it comes in."""
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

    table = Table(title=_title(trace))
    table.add_column("hit ratio at blocks")
    capacities = sorted({cell.capacity for cell in cells})
    for capacity in capacities:
        table.add_column(str(capacity), justify="right")
    ratios = {(cell.policy, cell.capacity): f"{cell.hit_ratio:.4f}" for cell in cells}
    for policy in policies:
        table.add_row(policy, *(ratios[policy, capacity] for capacity in capacities))
    return table


def pinned_table(trace: Trace, cells: list[PinnedCell]) -> Table:
    """What became of a trace whose requests take time, a row a capacity and policy."""
    from rich.table import Table

    table = Table(title=_title(trace))
    table.add_column("blocks", justify="right")
    table.add_column("policy", no_wrap=True)
    for name in ("hit ratio", "queue, s", "first token, s", "p95, s", "rejected"):
        table.add_column(name, justify="right")
    for cell in cells:
        table.add_row(
            str(cell.capacity),
            cell.policy,
            f"{cell.hit_ratio:.4f}",
            f"{cell.mean_queue_seconds:.2f}",
            f"{cell.mean_first_token_seconds:.2f}",
            f"{cell.p95_first_token_seconds:.2f}",
            str(cell.rejected),
        )
    return table


def _title(trace: Trace) -> str:
    sampled = f", one block in {trace.sample} recorded" if trace.sample > 1 else ""
    return f"{trace.name}: {trace.requests} requests, {trace.distinct} distinct blocks{sampled}"
