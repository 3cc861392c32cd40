"""The private folder where engine and sidecar meet.

It holds their sockets and must belong to this user alone: whoever can write to it can reorder
the cache, whoever can read it can watch the traffic's shape.
"""

from __future__ import annotations

import fcntl
import os
import stat
from io import TextIOWrapper
from pathlib import Path

from .errors import WactlError

LONGEST_SOCKET = 107
"""Bytes the path of a Unix socket may have."""


class RunDirError(WactlError):
    """The folder cannot be used; the text says why and what to do."""


def default_run_dir() -> Path:
    """``$WACTL_RUN_DIR``, else ``$XDG_RUNTIME_DIR/wactl``, else ``/tmp/wactl-<uid>``."""
    if chosen := os.environ.get("WACTL_RUN_DIR"):
        return Path(chosen)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "wactl"
    return Path(f"/tmp/wactl-{os.getuid()}")


def private_dir(path: Path) -> Path:
    """Make the folder if need be and check that nobody else can enter it. Raises `RunDirError`."""
    if len(os.fsencode(path)) + len("/engine-9999.records") > LONGEST_SOCKET:
        raise RunDirError(
            f"{path} is too long for a Unix socket; set WACTL_RUN_DIR to a shorter path"
        )
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot use {path}: {error.strerror}; set WACTL_RUN_DIR") from None
    is_private(path)
    return path


def is_private(path: Path) -> bool:
    """Whether the folder is there. Raises `RunDirError` if anybody else can enter it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunDirError(f"cannot use {path}: {error.strerror}; set WACTL_RUN_DIR") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise RunDirError(f"{path} is not a folder of this user; set WACTL_RUN_DIR to one that is")
    if status.st_mode & 0o077:
        raise RunDirError(f"{path} is open to other users; run: chmod 700 '{path}'")
    return True


def claim(path: Path, name: str) -> TextIOWrapper:
    """Hold the lock ``name`` in the folder until the returned file is closed.

    Raises `RunDirError` when another process holds it.
    """
    file = (path / f"{name}.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunDirError(
            f"another {name.split('-')[0]} already uses {path}; "
            "stop it, or set WACTL_RUN_DIR to a folder of its own"
        ) from None
    return file


def records_endpoint(path: Path, rank: int) -> str:
    """Where the engine of a data-parallel rank publishes its records."""
    return f"ipc://{path}/engine-{rank}.records"


def control_endpoint(path: Path, rank: int) -> str:
    """Where the engine of a data-parallel rank takes parameters."""
    return f"ipc://{path}/engine-{rank}.control"


def sidecar_endpoint(path: Path) -> str:
    """Where the sidecar answers ``wactl status`` and ``wactl mode``."""
    return f"ipc://{path}/sidecar"


def engine_ranks(path: Path) -> list[int]:
    """Ranks of the engines that have sockets in the folder, alive or not."""
    names = (file.name for file in path.glob("engine-*.records"))
    ranks = (name.removeprefix("engine-").removesuffix(".records") for name in names)
    return sorted(int(rank) for rank in ranks if rank.isdecimal())
