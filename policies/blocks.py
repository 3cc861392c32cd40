"""The state of every block of a cache, one record a block.

A structured array instead of objects: the compiled kernels of the evictor work on it in
place, in the engine and in the simulator alike, and it costs 56 bytes a block. Whether a
block is free stands apart, a byte each, where Python reads it at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

NONE = -1
"""The block id that means "no block"."""

UNHASHED = 0
"""Category of free blocks nobody can ever hit: they go first."""

LAST_RESORT = 1
"""Category of blocks that are about to be read again (preempted requests): they go last."""

DEFAULT = 2
"""Category of blocks without a known one: scored by the global law."""

FIRST_CATEGORY = 3
"""Id of the first category that comes out of a decision table."""

MAX_CATEGORIES = 512
"""Upper bound of the category ids, the three above included."""

IN_USE = 0
FREE = 1
ASIDE = 2
"""What a flag says: held by a request; free; free but aside, that is chosen to be handed out
next, or given back and not in the orders yet."""

BLOCK = np.dtype(
    [
        ("last_access", np.float64),  # seconds
        # The stock order: a ring of the free blocks, oldest to newest, closed by a sentinel.
        ("older", np.int32),
        ("newer", np.int32),
        # The chain: which block holds the tokens before ours, and how many *free* blocks
        # name us as theirs. `birth` counts the contents a block has had, so that a link to
        # a former content is seen to be stale.
        ("parent", np.int32),
        ("parent_birth", np.int32),
        ("birth", np.int32),
        ("children", np.int32),
        # The heap of the leaves of our category.
        ("left", np.int32),
        ("right", np.int32),
        ("up", np.int32),
        ("depth", np.int32),  # blocks from the start of the prompt, 1 for the first
        # The table that `category` belongs to, see `category_of`; the sentinel has today's.
        ("era", np.int32),
        ("category", np.int16),
        ("rank", np.int16),
    ]
)

Blocks = NDArray[np.void]
Roots = NDArray[np.int32]
Ids = NDArray[np.int64]
Flags = NDArray[np.uint8]


def new_blocks(count: int) -> Blocks:
    """State of ``count`` blocks, none of them free, and the ring's sentinel behind them.

    Returns an array of shape ``(count + 1,)`` and dtype `BLOCK`.
    """
    blocks = np.zeros(count + 1, BLOCK)
    for name in ("parent", "left", "right", "up"):
        blocks[name] = NONE
    blocks["older"] = blocks["newer"] = NONE
    blocks["older"][count] = blocks["newer"][count] = count
    blocks["category"] = DEFAULT
    return blocks


def new_roots() -> Roots:
    """Empty heaps: the root block of each category's leaves, shape ``(MAX_CATEGORIES,)``."""
    return np.full(MAX_CATEGORIES, NONE, np.int32)


@njit(cache=True)
def category_of(blocks: Blocks, block: int) -> int:
    """The category of ``block``; `DEFAULT` if the table that named it is gone."""
    node = blocks[block]
    if node.category > DEFAULT and node.era != blocks[len(blocks) - 1].era:
        return DEFAULT
    return node.category
