"""``wactl keys``: what engine and sidecar need to talk over a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if missing.")],
) -> None:
    """Make the keys with which engine and sidecar talk over a network."""
    from ...policies.keys import KEYS, write_keys

    write_keys(folder)
    print(f"for the engine:  {folder}/engine.secret and sidecar.public")
    print(f"for the sidecar: {folder}/sidecar.secret and engine.public")
    print(f"Each side reads its two in the folder that {KEYS} names; leave it no others.")
