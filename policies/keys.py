"""Key pairs by which engine and sidecar know each other where a network lies between them.

Each side has a secret key of its own and the public key of the other (CURVE, Curve25519). The
four files are made together and parted afterwards; a secret never appears in a text, a log or
an error.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from .errors import WactlError

KEYS = "WACTL_KEYS"
"""Environment variable: the folder of the key files, on either side."""

ENGINE, SIDECAR = "engine", "sidecar"
"""The two sides, as their files are called."""

LENGTH = 40
"""Characters of a key: 32 bytes in ZeroMQ's Z85."""

SECRET_MODE, PUBLIC_MODE = 0o600, 0o644
"""Permissions of the files; with any more for other users they are not read."""


class KeysError(WactlError):
    """The keys cannot be used; the text says why and what to do, and holds none."""


@dataclass(frozen=True)
class Keys:
    """What one side holds: its own pair, and the public key of the only peer it talks to."""

    secret: bytes = field(repr=False)
    public: bytes
    peer: bytes


def write_keys(folder: Path) -> None:
    """Make a pair for each side in ``folder``, for nobody else to read.

    Raises `KeysError` if the folder cannot be used or holds keys already.
    """
    contents = {}
    for side in (ENGINE, SIDECAR):
        public, secret = zmq.curve_keypair()
        contents[_secret(folder, side)] = secret, SECRET_MODE
        contents[_public(folder, side)] = public, PUBLIC_MODE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in contents:
            if path.exists():
                raise KeysError(f"{path} exists already; remove it first, or name another folder")
        for path, (key, mode) in contents.items():
            path.touch(mode, exist_ok=False)
            path.write_bytes(key + b"\n")
    except OSError as error:
        raise KeysError(f"cannot write keys to {folder}: {error.strerror}") from None


def load_keys(own: str, peer: str) -> Keys:
    """The keys of the side ``own`` from the folder in ``$WACTL_KEYS``.

    Raises `KeysError` if one is missing, broken, or open to other users.
    """
    chosen = os.environ.get(KEYS)
    if not chosen:
        raise KeysError(
            f"a network address needs keys: make them with `wactl keys DIR` and set {KEYS}=DIR"
        )
    folder = Path(chosen)
    secret = _read(_secret(folder, own), SECRET_MODE)
    return Keys(secret, zmq.curve_public(secret), _read(_public(folder, peer), PUBLIC_MODE))


def _secret(folder: Path, side: str) -> Path:
    return folder / f"{side}.secret"


def _public(folder: Path, side: str) -> Path:
    return folder / f"{side}.public"


def _read(path: Path, mode: int) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(LENGTH + 2)
    except OSError as error:
        raise KeysError(f"cannot read the key {path}: {error.strerror}; see {KEYS}") from None
    # Root could change it in any case, and secrets mounted into containers belong to root.
    if status.st_uid not in (0, os.getuid()):
        raise KeysError(f"the key {path} belongs to another user; make your own with `wactl keys`")
    if stat.S_IMODE(status.st_mode) & 0o077 & ~mode:
        raise KeysError(f"the key {path} is open to other users; run: chmod {mode:o} '{path}'")
    key = content.strip()
    try:
        if len(key) != LENGTH:
            raise ValueError(len(key))
        zmq.curve_public(key)
    except (ValueError, zmq.ZMQError):
        raise KeysError(f"{path} holds no key; make new ones with `wactl keys`") from None
    return key
