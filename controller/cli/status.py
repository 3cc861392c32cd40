"""``wactl status``: what the sidecar believes and does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...policies.rundir import default_run_dir
from ..status import Category, Engine, Request, Status, ask

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 10
"""Categories shown for an engine: all rules, then the busiest parts."""


def status(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it live until Ctrl-C.")] = False,
) -> None:
    """Show the engines, what is in force, and what is known of each category."""
    if json:
        import msgspec

        found = ask(default_run_dir(), Request())
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    found = ask(default_run_dir(), Request())
    from rich.console import Console

    console = Console()
    if not watch:
        console.print(render(found))
        return
    import time

    from rich.live import Live

    try:
        with Live(render(found), console=console, screen=False) as live:
            while True:
                time.sleep(1.0)
                live.update(render(ask(default_run_dir(), Request())))
    except KeyboardInterrupt:
        return


def render(found: Status) -> RenderableType:
    """The status as something rich can print, 80 columns wide."""
    from rich.console import Group
    from rich.text import Text

    head = Text(f"wactl {found.wactl}  mode {found.mode}  pid {found.pid}", style="bold")
    if not found.engines and not found.silent:
        hint = f"no engine in {found.run_dir}; start one with WACTL=1, or with `wactl run -- …`"
        return Group(head, Text(hint))
    parts: list[RenderableType] = [head]
    for engine in found.engines:
        parts += _engine(engine)
    for where in found.silent:
        parts.append(Text(f"nothing heard from {where}", style="red"))
        if where.startswith("tcp://"):
            parts.append(Text("  is its engine up, and are its keys the pair of ours?"))
    return Group(*parts)


def _engine(engine: Engine) -> list[RenderableType]:
    from rich.text import Text

    if not engine.alive:
        state, style = f"silent for {engine.silent_seconds:.0f} s", "red"
    elif engine.errors:
        state, style = f"{engine.order}: {engine.reason}", "red"
    else:
        state, style = f"{engine.order}: {engine.reason}", "green"
    age = "" if engine.version_age_seconds is None else f", {engine.version_age_seconds:.0f} s old"
    lines = [
        Text(f"engine {engine.rank}  vLLM {engine.vllm}  pid {engine.pid}", style="bold"),
        Text(f"  {state}{age}", style=style),
        Text(
            f"  {engine.requests} requests, hit ratio {_percent(engine.hit_ratio)}, "
            f"{engine.cached_blocks} of {engine.blocks} blocks cached "
            f"({engine.block_tokens} tokens each)"
        ),
        Text(
            f"  pushed {engine.pushed}, rejected {engine.rejected}, records dropped "
            f"{engine.dropped_records}, messages lost {engine.lost_messages}, "
            f"errors {engine.errors}"
        ),
    ]
    if engine.refusal:
        lines.append(Text(f"  last refusal: {engine.refusal}", style="red"))
    if engine.exempt_groups:
        lines.append(Text(f"  {engine.exempt_groups} cache groups keep the stock order"))
    return [*lines, _categories(engine)]


def _categories(engine: Engine) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for title in ("category", "requests", "hits", "reused", "after", "lifespan", "cached"):
        table.add_column(title, justify="left" if title == "category" else "right", no_wrap=True)
    rules = [category for category in engine.categories if category.rule]
    parts = [category for category in engine.categories if not category.rule]
    parts = sorted(parts, key=lambda part: -part.evidence)[: max(0, SHOWN - len(rules))]
    shown = {id(category) for category in (*rules, *parts)}
    for category in engine.categories:
        if id(category) in shown and (category.rule or category.evidence):
            table.add_row(*_row(category), style="bold" if category.rule else "")
    return table


def _row(category: Category) -> tuple[str, ...]:
    name = category.name if category.rule else "  " + category.name.partition(", ")[2]
    return (
        name[:30],
        str(category.requests) if category.requests else "",
        _percent(category.hit_ratio),
        _percent(category.p),
        _seconds(category.mean_reuse_seconds),
        _seconds(category.lifespan_seconds),
        _percent(category.cached_share),
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"
