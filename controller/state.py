"""The folder where the sidecar keeps what must outlive its process: the mode, and what was learned.

A file is replaced whole or not at all: it is written beside the old one, flushed to the disk, and
renamed. One that cannot be read is set aside under another name and learning starts anew. Writing
what was learned is done in a thread, so that no disk holds up the loop. Without a folder that can
be used the sidecar runs as well; it only forgets.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import threading
import zlib
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Literal

import msgspec

from ..policies.ages import AGES, STEP
from ..policies.errors import WactlError
from ..policies.features import BUCKETS, FEATURES
from ..policies.rundir import RunDirError, claim
from .cells import CELL, ENTRIES, REFINED
from .learned import Kept, Learned
from .learner import GHOSTS
from .reuse import GHOST
from .settings import Mode
from .words import PLACES, WORD

MAGIC = b"wactl state 1\n"
"""What a file begins with; a change that an old reader cannot read raises the number."""

LAYOUT = zlib.crc32(
    repr((FEATURES, REFINED, BUCKETS, CELL, WORD, GHOST, PLACES, ENTRIES, GHOSTS, len(AGES), STEP))
    .encode()
).to_bytes(4, "little")  # fmt: skip
"""How the arrays in it are to be read, which follows from what is counted."""

DIGEST = 16
LARGEST = 1 << 25
"""Bytes of a file at most. With every table full it has 8.5 million."""

ANSWER = 0.5
"""Seconds that writing the mode may take until whoever asked for it is answered."""

FINISH = 10.0
"""Seconds that the last write may take before the process ends without it."""

log = logging.getLogger("wactl")


class StateError(WactlError):
    """A file of the state cannot be used; the text says which and why."""


class Remembered(msgspec.Struct, frozen=True):
    """The mode that was asked for, and the one in the settings at that time."""

    mode: Literal["observe", "shadow", "enforce"]
    settings: str


class Stamped(msgspec.Struct, frozen=True):
    """What was learned, and when that was so (seconds of the wall clock)."""

    wall: float
    learned: Learned


def state_folder(chosen: Path | None, run_dir: Path) -> Path:
    """That of the settings, ``$STATE_DIRECTORY``, or one of the user's for this run folder."""
    if chosen is not None:
        return chosen
    if given := os.environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "wactl" / _plain(str(run_dir))


class State:
    """What is kept in ``folder``, which no two sidecars share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problem = ""
        """Why nothing is kept, or the last save was in vain; empty while all is well."""
        self._writer: threading.Thread | None = None
        self._lock: TextIOWrapper | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = claim(folder, "sidecar")
        except OSError as error:
            self._say(f"nothing is kept: cannot use {folder}: {error.strerror}; set state_dir")
        except RunDirError:
            self._say(f"nothing is kept: another sidecar keeps its own in {folder}; set state_dir")

    def mode(self, settings: Mode) -> Mode | None:
        """The mode that `remember` was told of, unless the settings have changed since."""
        path = self.folder / "mode"
        try:
            raw = _read(path) if self._lock else None
            found = None if raw is None else msgspec.json.decode(raw, type=Remembered)
        except (StateError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._set_aside(path, str(error), "the mode is that of the settings")
            return None
        return Mode(found.mode) if found and found.settings == settings.value else None

    def remember(self, mode: Mode, settings: Mode) -> None:
        """The mode was asked for while the settings have another or the same."""
        raw = msgspec.json.encode(Remembered(mode.value, settings.value))
        writer = threading.Thread(target=self._replace, args=("mode", raw), daemon=True)
        writer.start()
        writer.join(ANSWER)
        if writer.is_alive():
            self._say(f"{self.folder} does not take what is to be kept")

    def load(self, where: str, now: float, wall: float) -> Kept | None:
        """What was learned of the engine at an address, None if nothing.

        ``now`` is the sidecar's clock, and ``wall`` that on the wall, which tells how long ago it
        was; if that was put back, it was just now.
        """
        path = self.folder / _name(where)
        try:
            raw = _read(path) if self._lock else None
            found = None if raw is None else decode(raw)
        except StateError as error:
            self._set_aside(path, str(error), "learning starts anew")
            return None
        return Kept(lambda: found.learned, now - max(0.0, wall - found.wall)) if found else None

    def save(self, kept: Mapping[str, Kept], now: float, wall: float) -> bool:
        """Write what was learned of the engines at these addresses, in a thread; see `load`.

        False, and nothing is written, while the last write has not ended.
        """
        if self._writer is not None and self._writer.is_alive():
            return False

        def write() -> None:
            for where, what in kept.items():
                stamped = Stamped(wall - (now - what.at), what.pack())
                self._replace(_name(where), encode(stamped))

        self._writer = threading.Thread(target=write, name="wactl-state", daemon=True)
        self._writer.start()
        return True

    def finish(self) -> None:
        """Wait for the write under way, but not for ever."""
        if self._writer is not None:
            self._writer.join(FINISH)
            if self._writer.is_alive():
                self._say(f"{self.folder} does not take what is to be kept; ending without")

    def close(self) -> None:
        """Let another sidecar have the folder."""
        self.finish()
        if self._lock is not None:
            self._lock.close()

    def _replace(self, name: str, raw: bytes) -> None:
        if self._lock is None:
            return
        try:
            replace_file(self.folder / name, raw)
        except OSError as error:
            self._say(f"not kept: cannot write into {self.folder}: {error.strerror}")
        else:
            self._say("")

    def _set_aside(self, path: Path, why: str, then: str) -> None:
        aside = path.with_name(f"{path.name}.broken")
        log.warning("%s: %s; it is now %s, and %s", path, why, aside.name, then)
        try:
            path.replace(aside)
        except OSError as error:
            self._say(f"cannot set {path} aside: {error.strerror}")

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            log.warning("%s", problem or f"{self.folder} keeps what was learned again")


def encode(stamped: Stamped) -> bytes:
    """A file's bytes: what it is, how to read it, a digest, and all that was learned."""
    body = msgspec.msgpack.encode(stamped)
    return MAGIC + LAYOUT + hashlib.blake2b(body, digest_size=DIGEST).digest() + body


def decode(raw: bytes) -> Stamped:
    """What a file's bytes say. Raises `StateError`."""
    if raw[: MAGIC.index(b"1")] != MAGIC[: MAGIC.index(b"1")]:
        raise StateError("is not a file of wactl's state")
    head = len(MAGIC) + len(LAYOUT)
    if raw[: len(MAGIC)] != MAGIC or raw[len(MAGIC) : head] != LAYOUT:
        raise StateError("was written by a version of wactl that counts otherwise")
    body = raw[head + DIGEST :]
    if hashlib.blake2b(body, digest_size=DIGEST).digest() != raw[head : head + DIGEST]:
        raise StateError("is damaged or only half written")
    try:
        return msgspec.msgpack.decode(body, type=Stamped)
    except msgspec.MsgspecError as error:
        raise StateError(f"does not hold what it should: {error}") from None


def replace_file(path: Path, raw: bytes) -> None:
    """Put these bytes in the file's place, for this user alone, whole or not at all.

    Raises `OSError`, and then leaves nothing behind.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _read(path: Path) -> bytes | None:
    """The contents of a file that is ours and not too large, None if there is none."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot be read: {error.strerror}") from None
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise StateError("is not a file of this user")
        if status.st_size > LARGEST:
            raise StateError(f"has {status.st_size} bytes, more than wactl ever writes")
        return file.read(LARGEST)


def _name(where: str) -> str:
    """The file of an engine's address: ``engine-0.state``, ``tcp-10.0.0.5-5700.state``."""
    local = where.startswith("ipc://")
    return f"{Path(where).stem if local else _plain(where)}.state"


def _plain(text: str) -> str:
    """A text as the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "root"
