"""``wactl demo``: the whole loop on a real vLLM, LRU against wactl, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from ...controller.status import Status
    from ..compare import Outcome
    from ..traces import Prompt

MINUTES = 30.0
"""Traffic of the generated workload, in minutes."""
SHOWN = (
    *("name", "hit_ratio", "mean_first_token", "p95_first_token"),
    *("requests", "failed", "versions"),
)
"""What the JSON tells of each side."""
SECONDS = 75.0
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
    an hour of traffic takes little more than a minute. Hit ratios are vLLM's own.
    """
    import signal
    import tempfile

    from ..traces import read_trace
    from ..workload import generate

    prompts = read_trace(trace, limit) if trace else generate(MINUTES)[:limit]
    # Ended by a service manager as by Ctrl-C: the servers are stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="wactl-demo-") as folder:
        outcomes = _compare(prompts, blocks, speed, Path(folder))
    if json:
        import msgspec

        rows = [{name: getattr(outcome, name) for name in SHOWN} for outcome in outcomes]
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    from rich.console import Console

    Console().print("", summary(outcomes))


def _compare(
    prompts: Sequence[Prompt], blocks: int, speed: float | None, folder: Path
) -> list[Outcome]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ..compare import Plan, run_lru, run_wactl
    from ..model import write_model
    from ..server import Served

    longest = max(len(prompt.blocks) for prompt in prompts)
    served = Served(write_model(folder / "model"), blocks, 32, 32 * (longest + 1))
    plan = Plan(prompts, served, speed or max(1.0, prompts[-1].time / SECONDS), folder)
    columns = TextColumn("{task.description:<26}"), BarColumn(24), MofNCompleteColumn()
    bar = Progress(*columns, TimeElapsedColumn())
    status = LiveStatus(folder / "run")

    def side(run: Callable[[Plan, Callable[[str, int], None]], Outcome]) -> Outcome:
        task = bar.add_task("", total=len(prompts))
        return run(plan, lambda text, done: bar.update(task, description=text, completed=done))

    with Live(
        get_renderable=lambda: Group(bar, *status.lines()),
        console=Console(stderr=True),
        refresh_per_second=4,
    ):
        try:
            return [side(run_lru), side(run_wactl)]
        finally:
            status.close()


class LiveStatus:
    """Asks the demo's sidecar for its status in the background, once a second."""

    def __init__(self, run_dir: Path) -> None:
        import threading

        self._run_dir = run_dir
        self._status: Status | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def lines(self) -> list[RenderableType]:
        """What `wactl status` would show now, nothing while there is no sidecar."""
        from ...controller.shown import render

        return [render(self._status)] if self._status is not None else []

    def close(self) -> None:
        """Stop asking."""
        self._closing.set()
        self._thread.join()

    def _follow(self) -> None:
        from ...controller.status import NoSidecar, Request, ask

        while not self._closing.wait(1.0):
            try:
                self._status = ask(self._run_dir, Request())
            except NoSidecar:
                self._status = None


def summary(outcomes: list[Outcome]) -> Table:
    """Both sides next to each other."""
    from rich.table import Table

    table = Table(title="The same prompts, the same cache, a real vLLM")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.name, justify="right")
    rows = {
        "hit ratio": [f"{side.hit_ratio:.4f}" for side in outcomes],
        "time to first token, mean": [
            f"{1000 * side.mean_first_token:.0f} ms" for side in outcomes
        ],
        "time to first token, p95": [f"{1000 * side.p95_first_token:.0f} ms" for side in outcomes],
        "requests": [str(side.requests) for side in outcomes],
        "failed": [str(side.failed) for side in outcomes],
        "parameter versions": [str(side.versions or "–") for side in outcomes],
    }
    for name, values in rows.items():
        table.add_row(name, *values)
    return table
