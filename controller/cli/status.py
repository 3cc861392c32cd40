"""``wactl status``: what the sidecar believes and does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...policies.rundir import default_run_dir
from ..status import Request, as_json, ask

if TYPE_CHECKING:
    from rich.console import RenderableType


def status(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it live until Ctrl-C.")] = False,
) -> None:
    """Show what runs and why, what it brings, and what is known of each category."""
    found = ask(default_run_dir(), Request())
    if json:
        print(as_json(found))
        return
    from rich.console import Console

    from ..shown import render

    console = Console()
    if not watch:
        console.print(render(found))
        return
    import time

    from rich.live import Live

    def now() -> RenderableType:
        return render(ask(default_run_dir(), Request()))

    try:
        with Live(now(), console=console, screen=False) as live:
            while True:
                time.sleep(1.0)
                live.update(now(), refresh=True)
    except KeyboardInterrupt:
        return
