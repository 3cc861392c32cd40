"""Block numbers: dense, and equal only where the whole prefix is equal.

A trace names a block by an id of its contents (Bailian) or of its whole prefix (Mooncake).
Here a block is its id after a given predecessor, which makes of the first what the second
already is: two blocks share a number if and only if all ids up to them are the same. The
numbers come from a hash table that holds the pairs themselves, so no two are ever confused.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FIRST_SIZE = 1 << 16
"""Slots to begin with, a power of two; half of them may be filled."""


@njit(cache=True)
def number(blocks: NDArray[np.uint64], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int32], int]:
    """Number the blocks of prompts ``blocks[offsets[i]:offsets[i + 1]]`` as they first appear.

    Gives the numbers, in the shape of ``blocks``, and how many there are.
    """
    numbers = np.empty(len(blocks), np.int32)
    slots = np.full(FIRST_SIZE, -1, np.int32)
    parents = np.empty(FIRST_SIZE // 2, np.int32)
    ids = np.empty(FIRST_SIZE // 2, np.uint64)
    count = 0
    for request in range(len(offsets) - 1):
        parent = -1
        for access in range(offsets[request], offsets[request + 1]):
            if count == len(ids):
                slots, parents, ids = _doubled(slots, parents, ids)
            block = blocks[access]
            guess = parent + 1  # Where the prompt that numbered the parent went on.
            if guess < count and parents[guess] == parent and ids[guess] == block:
                parent = guess
            else:
                slot = _slot(slots, parents, ids, parent, block)
                if slots[slot] < 0:
                    slots[slot] = count
                    parents[count] = parent
                    ids[count] = block
                    count += 1
                parent = slots[slot]
            numbers[access] = parent
    return numbers, count


@njit(cache=True)
def _slot(
    slots: NDArray[np.int32],
    parents: NDArray[np.int32],
    ids: NDArray[np.uint64],
    parent: int,
    block: np.uint64,
) -> np.int64:
    """Where the pair is in the table, or the free place where it belongs."""
    # The finish of splitmix64 (Steele et al., OOPSLA '14), over both parts of the pair.
    mixed = block + np.uint64(parent + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mask = np.int64(len(slots) - 1)
    slot = np.int64(mixed ^ (mixed >> np.uint64(31))) & mask
    while slots[slot] >= 0:
        held = slots[slot]
        if parents[held] == parent and ids[held] == block:
            break
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _doubled(
    slots: NDArray[np.int32], parents: NDArray[np.int32], ids: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    count = len(ids)
    more_slots = np.full(2 * len(slots), -1, np.int32)
    more_parents = np.empty(2 * count, np.int32)
    more_ids = np.empty(2 * count, np.uint64)
    more_parents[:count] = parents
    more_ids[:count] = ids
    for held in range(count):
        slot = _slot(more_slots, more_parents, more_ids, parents[held], ids[held])
        more_slots[slot] = held
    return more_slots, more_parents, more_ids
