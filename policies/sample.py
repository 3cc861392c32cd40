"""Spatial sampling: follow a fixed share of all blocks, and those in full.

Whether a block is followed depends on its hash alone, as in SHARDS (FAST'15), so each of its
accesses is seen or none is, and reuse times come out true. The share is a power of two, since
then a mask decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from .recent import Keys

TARGET_BLOCKS = 4096
"""Sampled blocks a cache should have: enough to learn from, cheap to follow."""


def shift_for(blocks: int) -> int:
    """The sampling rate for a cache of ``blocks``, as its binary exponent: 1 block in 2**shift.

    >>> shift_for(1000), shift_for(4097), shift_for(1_000_000)
    (0, 1, 8)
    """
    return max(0, (max(1, blocks) - 1) // TARGET_BLOCKS).bit_length()


def keys_of(hashes: Sequence[bytes]) -> Keys:
    """64-bit keys of block hashes (each at least 8 bytes of any good hash), never 0."""
    if not hashes:
        return np.empty(0, np.uint64)
    width = len(hashes[0])
    raw = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), width)
    return np.maximum(np.ascontiguousarray(raw[:, :8]).view(np.uint64).ravel(), np.uint64(1))


@njit(cache=True)
def mix(key: Any) -> Any:
    """Another well-mixed key for a 64-bit key or an array of them (splitmix64), never 0."""
    z = key + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.maximum(z ^ (z >> np.uint64(31)), np.uint64(1))


def sampled(keys: Keys, shift: int) -> tuple[Keys, Keys]:
    """The keys that are followed and their positions, both ascending by position."""
    if shift == 0:
        return keys, np.arange(len(keys), dtype=np.uint64)
    positions = np.flatnonzero(keys & np.uint64((1 << shift) - 1) == 0)
    return keys[positions], positions.astype(np.uint64)
