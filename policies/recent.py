"""A bounded table of recent keys: who was seen lately, in fixed memory.

Eight-way set associative, like a processor's cache: a key lives in one of the eight slots of
its bucket, and a new key takes the slot idle longest. Nothing grows, nothing is rehashed, and
a lookup reads eight neighbouring records. Keys are well-mixed 64-bit numbers; callers define
the record, which needs the fields ``key`` (uint64, 0 for empty) and ``last`` (seconds).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

WAYS = 8

Table = NDArray[np.void]
Keys = NDArray[np.uint64]


def new_table(entries: int, dtype: np.dtype[Any]) -> Table:
    """An empty table of at least ``entries`` slots (rounded up to a power of two)."""
    buckets = 1 << max(0, (max(1, entries) - 1) // WAYS).bit_length()
    table = np.zeros(buckets * WAYS, dtype)
    table["last"] = -np.inf
    return table


@njit(cache=True)
def _bucket(table: Table, key: int) -> int:
    # The high half of the key: sampling has used up the low bits.
    return int((key >> np.uint64(32)) % np.uint64(len(table) // WAYS)) * WAYS


@njit(cache=True)
def find(table: Table, key: int) -> int:
    """Slot of ``key``, or -1."""
    first = _bucket(table, key)
    for slot in range(first, first + WAYS):
        if table[slot].key == key:
            return slot
    return -1


@njit(cache=True)
def place(table: Table, key: int) -> int:
    """The slot for ``key``: its own, else an empty one, else the one idle longest.

    The caller overwrites the record, after a look at what it displaces.
    """
    first = _bucket(table, key)
    oldest = first
    for slot in range(first, first + WAYS):
        if table[slot].key == key:
            return slot
        # An empty slot was last used before all time.
        if table[slot].last < table[oldest].last:
            oldest = slot
    return oldest
