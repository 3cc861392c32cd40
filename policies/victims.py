"""Which free blocks go next: those asked for, and some ahead of being asked for.

A kernel hears first of what Python did since the last one (`evictor.sync`).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .blocks import (
    ASIDE,
    DEFAULT,
    LAST_RESORT,
    NONE,
    UNHASHED,
    Blocks,
    Flags,
    Ids,
    Roots,
    category_of,
)
from .evictor import hide, leave, parent_of, renew, sync
from .score import Laws, log_score


@njit(cache=True)
def pop_stock(
    blocks: Blocks,
    roots: Roots,
    free: Flags,
    chosen: Ids,
    handed: int,
    left: Ids,
    now: float,
    count: int,
    out: Ids,
) -> tuple[int, int]:
    """`sync`; then the ``count`` oldest free blocks into ``out``, behind them those chosen ahead.

    Returns how many were taken or chosen, and how many cached children those taken orphan.
    """
    sync(blocks, roots, free, chosen, handed, left, now)
    sentinel = len(blocks) - 1
    orphans = 0
    for index in range(count):
        block = blocks[sentinel].newer
        leave(blocks, roots, free, block)
        orphans += renew(blocks, block, now)
        out[index] = block
    block = blocks[sentinel].newer
    for index in range(count, len(out)):
        if blocks[block].children > 0:
            return index, orphans
        free[block] = ASIDE
        hide(blocks, roots, free, block)
        out[index] = block
        block = blocks[block].newer
    return len(out), orphans


@njit(cache=True)
def _head_score(blocks: Blocks, roots: Roots, laws: Laws, category: int, now: float) -> float:
    head = roots[category]
    if head < 0:
        return np.inf
    age = max(0.0, now - blocks[head].last_access)
    return log_score(laws, category, age)


@njit(cache=True)
def _lowest(
    blocks: Blocks, roots: Roots, scores: NDArray[np.float64], live: NDArray[np.int16]
) -> tuple[int, float]:
    """The category whose head has the lowest score, and the next score.

    Ties go to the deeper head, then to the lower category. `NONE` if none of ``live`` has a leaf.
    """
    best, lowest, second = NONE, np.inf, np.inf
    for category in live:
        score = scores[category]
        if score > lowest or roots[category] < 0:
            second = min(second, score)
            continue
        if best >= 0 and score == lowest:
            second = score
            depth, other = blocks[roots[category]].depth, blocks[roots[best]].depth
            if depth < other or (depth == other and category > best):
                continue
        second = lowest
        best, lowest = category, score
    return best, second


@njit(cache=True)
def pop_scored(
    blocks: Blocks,
    roots: Roots,
    free: Flags,
    chosen: Ids,
    handed: int,
    left: Ids,
    laws: Laws,
    now: float,
    count: int,
    out: Ids,
) -> tuple[int, int]:
    """As `pop_stock`, those least likely to be reused first.

    Unhashed blocks go before all others and those of last resort after them. Chains cannot
    form a circle, so some free block always is a leaf. Should that ever fail, the stock order
    decides and the orphans are counted.
    """
    sync(blocks, roots, free, chosen, handed, left, now)
    scores = np.empty(len(laws))
    seen = np.zeros(len(laws), np.bool_)
    live = np.empty(len(laws), np.int16)
    lives = 0
    for category in range(DEFAULT, len(laws)):
        if roots[category] >= 0:
            seen[category] = True
            scores[category] = _head_score(blocks, roots, laws, category, now)
            live[lives] = category
            lives += 1
    orphans = 0
    best, second = NONE, np.inf
    for index in range(len(out)):
        if roots[UNHASHED] >= 0:
            block = roots[UNHASHED]
        else:
            # Most of the time the next leaf of the same chain is the next to go, and a look
            # at all the other categories can be spared.
            if best < 0 or not scores[best] < second:
                best, second = _lowest(blocks, roots, scores, live[:lives])
            block = roots[best] if best >= 0 else roots[LAST_RESORT]
        if block < 0:
            if index >= count:
                return index, orphans
            block = blocks[len(blocks) - 1].newer
        category, accessed = category_of(blocks, block), blocks[block].last_access
        parent = parent_of(blocks, block)
        if index < count:
            leave(blocks, roots, free, block)
            orphans += renew(blocks, block, now)
        else:
            free[block] = ASIDE
            hide(blocks, roots, free, block)
        out[index] = block
        head = roots[category]
        if DEFAULT <= category < len(laws) and (head < 0 or blocks[head].last_access != accessed):
            scores[category] = _head_score(blocks, roots, laws, category, now)
        if parent >= 0:
            changed = category_of(blocks, parent)
            if DEFAULT <= changed < len(laws) and changed != category:
                if not seen[changed]:
                    seen[changed] = True
                    live[lives] = changed
                    lives += 1
                scores[changed] = _head_score(blocks, roots, laws, changed, now)
                best = NONE
    return len(out), orphans
