"""``wactl capture``: record the live traffic of an engine, anonymised, for replays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ...policies.sockets import Place
    from ..capture import Capture, Summary
    from ..stream import Stream

MB = 10**6
SMALLEST = 2
"""Megabytes of a file: the largest record there can be, and room to spare."""
CYCLE = 0.2
"""Longest wait in seconds between two looks at the stream."""


def capture(
    out: Annotated[
        Path, typer.Argument(help="New file, *.jsonl.zst (compressed) or *.jsonl.", metavar="OUT")
    ],
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="End after so long; else at Ctrl-C.")
    ] = None,
    megabytes: Annotated[int, typer.Option(min=SMALLEST, help="End at this size on disk.")] = 1000,
    files: Annotated[
        int, typer.Option(min=1, help="Do not end there: keep the newest of so many files.")
    ] = 1,
    rank: Annotated[
        int | None, typer.Option(min=0, help="Which engine, if there are several.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="An engine on a network, tcp://HOST:PORT; keys from $WACTL_KEYS."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Record the live traffic of an engine, anonymised, for `wactl replay` and `wactl regress`.

    Works beside a sidecar and without one, and changes nothing in the engine. The file holds
    times, lengths and salted block ids; no token, no text, no name. Ctrl-C ends it well.
    """
    import math
    import signal
    import sys
    import time

    import zmq

    from ...policies.errors import WactlError
    from ..capture import Capture, Limits
    from ..stream import Stream

    if megabytes < SMALLEST * files:
        raise WactlError(
            f"{files} files of {megabytes} MB in all are too small; "
            f"--megabytes must be at least {SMALLEST * files}"
        )
    place, chosen = _choose(engine, rank)
    limits = Limits(math.inf if seconds is None else seconds, megabytes * MB, files)
    taken = Capture(out, limits, time.monotonic())
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopped.append(number))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
    stream = Stream(context, place, chosen)
    try:
        _follow(taken, stream, lambda: bool(stopped))
    finally:
        stream.close()
        context.destroy(linger=0)
    summary = taken.summary()
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(summary)).decode())
    else:
        print(told(summary))
    if not summary.requests:
        print("wactl: nothing to replay: the engine admitted no request", file=sys.stderr)


def _choose(engine: str | None, rank: int | None) -> tuple[Place, int]:
    """Where to listen, and to which engine. Raises `WactlError` unless it is clear."""
    from ...policies.errors import WactlError
    from ...policies.keys import ENGINE, SIDECAR, load_keys
    from ...policies.network import network
    from ...policies.rundir import default_run_dir, engine_ranks

    if engine is not None:
        return network(engine, load_keys(SIDECAR, ENGINE), rank or 0), rank or 0
    run_dir = default_run_dir()
    ranks = engine_ranks(run_dir)
    if not ranks:
        raise WactlError(
            f"no engine in {run_dir}; start one with WACTL=1, or with `wactl run -- …`; "
            "one on a network is named with --engine tcp://HOST:PORT"
        )
    known = ", ".join(map(str, ranks))
    if rank is None and len(ranks) > 1:
        raise WactlError(f"there are engines {known} in {run_dir}; choose one with --rank")
    if rank is not None and rank not in ranks:
        raise WactlError(f"no engine {rank} in {run_dir}; there is {known}")
    return run_dir, ranks[0] if rank is None else rank


def _follow(capture: Capture, stream: Stream, stopped: Callable[[], bool]) -> None:
    """Listen until the capture has ended or is stopped; progress is shown on a terminal."""
    import time

    from rich.console import Console

    with Console(stderr=True).status("waiting for the engine") as shown:
        while not capture.ended:
            stream.socket.poll(int(CYCLE * 1000))
            for report in stream.reports():
                capture.take(report, time.monotonic())
            capture.step(time.monotonic())
            if stopped():
                capture.end("interrupted")
            if shown.console.is_terminal:
                shown.update(_line(capture.summary()))


def _line(summary: Summary) -> str:
    """How far it is, in less than eighty columns."""
    lost = summary.lost_messages + summary.dropped_records
    return (
        f"{summary.seconds:.0f} s, {summary.requests} requests, hit ratio "
        f"{_percent(summary.hit_ratio)}, {_size(summary)}" + (f", {lost} lost" if lost else "")
    )


def told(summary: Summary) -> str:
    """What was captured, in sentences, and what to do with it."""
    names = " ".join(file.path for file in summary.files)
    whole = "every block" if summary.sample == 1 else f"one block in {summary.sample}"
    lines = [
        f"captured {summary.requests} requests in {summary.seconds:.0f} s "
        f"(ended: {summary.ended}): {names}, {_size(summary)}",
        f"the engine hit {_percent(summary.hit_ratio)} of {summary.blocks} prompt blocks; its "
        f"cache has {summary.cache_blocks} of {summary.block_tokens} tokens, {whole} is recorded",
    ]
    if summary.lost_messages or summary.dropped_records:
        lines.append(
            f"lost: {summary.lost_messages} messages on the way, {summary.dropped_records} "
            "records in the engine; the file says where"
        )
    if summary.engines > 1:
        lines.append(f"the engine was restarted {summary.engines - 1} times, a file each")
    if summary.removed:
        lines.append(f"{summary.removed} older files gave way")
    if summary.requests:
        lines.append(f"replay it: wactl replay {names} --capacity {summary.cache_blocks}")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _size(summary: Summary) -> str:
    return f"{sum(file.bytes for file in summary.files) / MB:.2f} MB"
