"""``wactl mode``: how far wactl goes, changed while it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ...policies.rundir import default_run_dir
from ..status import Request, ask


def mode(
    mode: Annotated[str, typer.Argument(help="observe, shadow or enforce.", metavar="MODE")],
) -> None:
    """Set the mode: observe (record), shadow (learn too), enforce (order by it)."""
    found = ask(default_run_dir(), Request(mode))
    print(f"mode {found.mode}")
    if found.state_problem:
        print(f"until the sidecar ends: {found.state_problem}", file=sys.stderr)
