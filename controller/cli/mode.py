"""``wactl mode``: how far wactl goes, changed while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from ...policies.rundir import default_run_dir
from ..status import Request, ask


def mode(
    mode: Annotated[str, typer.Argument(help="observe, shadow or enforce.", metavar="MODE")],
) -> None:
    """Set the mode: observe (record), shadow (learn too), enforce (order by it)."""
    print(f"mode {ask(default_run_dir(), Request(mode)).mode}")
