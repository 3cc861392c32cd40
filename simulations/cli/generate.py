"""``wactl generate``: made-up traces for the laboratory."""

from __future__ import annotations

from typing import Annotated

import typer

from ..generate.presets import PRESETS

NAMES = "; ".join(f"{module}: {', '.join(names)}" for module, names in PRESETS.items())


def generate(
    preset: Annotated[str, typer.Argument(help=f"What to make. {NAMES}.", metavar="PRESET")],
    seconds: Annotated[float, typer.Option(help="How much traffic, in its own time.")] = 3600.0,
    rate: Annotated[float, typer.Option(help="Requests a second, in the mean.")] = 3.0,
    blocks: Annotated[
        int, typer.Option(min=8, help="Cache that flip, lifespan and scan aim at.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Another one, another trace.")] = 7,
    out: Annotated[
        str,
        typer.Option(help="New file, *.gz or *.zst if it is to be packed; - is standard output."),
    ] = "-",
) -> None:
    """Write a made-up trace in the form of `wactl capture`, for `wactl replay`.

    The same arguments give the same bytes. docs/generate.md says what each preset is.
    """
    import sys

    from ..generate import presets
    from ..generate.plan import Plan
    from ..generate.writing import write

    plan = Plan(seconds, rate, blocks, seed)
    trace = presets.generate(preset, plan)
    write(trace, plan, out)
    print(
        f"{trace.name}: {trace.requests} requests, {trace.accesses} block accesses, "
        f"{trace.distinct} distinct blocks",
        file=sys.stderr,
    )
