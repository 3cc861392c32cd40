"""Keys of blocks as they leave the engine: renamed, so that nobody can look a prompt up by them.

A block's hash follows from its tokens and those before, and vLLM's seed for it is a fixed one
unless PYTHONHASHSEED is set. Whoever read such hashes could guess a prompt and see whether it
was sent. The sidecar only has to tell blocks apart: it gets a keyed digest of each (BLAKE2, RFC
7693), the key being made in the engine, never told, and gone with it.
"""

from __future__ import annotations

import hashlib
import secrets

KEY = 8
"""Bytes of a block's key, before and after."""


class Veil:
    """One engine's renaming: the same key comes out the same each time.

    >>> veil = Veil()
    >>> veil(b"a block." * 2) == veil(b"a block.") * 2
    True
    >>> Veil()(b"a block.") == veil(b"a block.")
    False
    """

    def __init__(self) -> None:
        self._keyed = hashlib.blake2s(key=secrets.token_bytes(32), digest_size=KEY)

    def __call__(self, keys: bytes) -> bytes:
        """Keys of 8 bytes each, one after another, renamed in order."""
        renamed = []
        for start in range(0, len(keys), KEY):
            digest = self._keyed.copy()
            digest.update(keys[start : start + KEY])
            renamed.append(digest.digest())
        return b"".join(renamed)
