"""The evictor core: which free block is handed out next.

Two orders are kept over the same free blocks. The stock order is vLLM's own, freed longest
ago first, and it is followed exactly while no parameters are in force or their trust is 0.
The scored order takes, among the *leaves* of all chains, the one with the lowest score. A
block whose free child is still cached is never a candidate: without the block the child
could not be hit any more (design: "evict leaves only"). Blocks nobody can hit go before all
others, blocks of preempted requests after all others.

A block in use has no free ancestor, since a request holds its whole chain. So it is enough
to count, for each block, the free blocks that name it as their parent.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from . import heap
from .blocks import DEFAULT, LAST_RESORT, NONE, UNHASHED, Blocks, Ids, Roots
from .score import Laws, trusted_score


@njit(cache=True)
def _parent(blocks: Blocks, block: int) -> int:
    """The block before ours in its chain, if it still holds what it held; else `NONE`."""
    parent = blocks[block].parent
    if parent >= 0 and blocks[parent].birth == blocks[block].parent_birth:
        return parent
    return NONE


@njit(cache=True)
def enter(blocks: Blocks, roots: Roots, block: int, after: int) -> None:
    """Make ``block`` free, behind block ``after`` (an id, or the sentinel) in the stock order."""
    node = blocks[block]
    node.free = 1
    node.older, node.newer = after, blocks[after].newer
    blocks[node.newer].older = block
    blocks[after].newer = block
    parent = _parent(blocks, block)
    if parent >= 0:
        if blocks[parent].free and blocks[parent].children == 0:
            heap.delete(blocks, roots, parent)
        blocks[parent].children += 1
    if node.children == 0:
        heap.insert(blocks, roots, block)


@njit(cache=True)
def leave(blocks: Blocks, roots: Roots, block: int) -> None:
    """Take a free ``block`` out of both orders; its parent may become a leaf."""
    node = blocks[block]
    node.free = 0
    blocks[node.older].newer = node.newer
    blocks[node.newer].older = node.older
    node.older = node.newer = NONE
    if node.children == 0:
        heap.delete(blocks, roots, block)
    parent = _parent(blocks, block)
    if parent >= 0:
        blocks[parent].children -= 1
        if blocks[parent].free and blocks[parent].children == 0:
            heap.insert(blocks, roots, parent)


@njit(cache=True)
def renew(blocks: Blocks, block: int, now: float) -> int:
    """Forget what a block that is not free held; returns how many children that orphans."""
    node = blocks[block]
    orphans = node.children
    node.birth += 1
    node.children = 0
    node.parent = NONE
    node.depth = 0
    node.category = DEFAULT
    node.last_access = now
    return orphans


@njit(cache=True)
def append(blocks: Blocks, roots: Roots, ids: Ids, now: float) -> None:
    """Make blocks free as the newest, in the order given; one never tagged was used until now."""
    sentinel = len(blocks) - 1
    for block in ids:
        if blocks[block].depth == 0:
            blocks[block].last_access = now
        enter(blocks, roots, block, blocks[sentinel].older)


@njit(cache=True)
def prepend(blocks: Blocks, roots: Roots, ids: Ids, front: float) -> None:
    """Make unhashed blocks free as the oldest, the first of ``ids`` first of all.

    ``front`` is a number below every former one, by which they precede each other.
    """
    after = len(blocks) - 1
    for index, block in enumerate(ids):
        # Cached blocks behind one that lost its hash while in use are its children no more.
        renew(blocks, block, front + index / len(ids))
        blocks[block].category = UNHASHED
        enter(blocks, roots, block, after)
        after = block


@njit(cache=True)
def remove(blocks: Blocks, roots: Roots, ids: Ids) -> None:
    """Blocks that were hit are free no more."""
    for block in ids:
        leave(blocks, roots, block)


@njit(cache=True)
def tag(blocks: Blocks, ids: Ids, carried: int, categories: Ids, accessed: float) -> None:
    """Record who used the chain ``ids`` (head first) last, before its blocks are freed.

    The first ``carried`` blocks get ``categories[1]``, those behind ``categories[0]``; a block
    that somebody used since ``accessed`` (seconds) keeps the later tag.
    """
    parent = NONE
    for index, block in enumerate(ids):
        node = blocks[block]
        if node.free:  # a stranger's doing: leave a queued block as it is
            parent = NONE
            continue
        if accessed >= node.last_access or node.depth == 0:
            node.last_access = accessed
            node.category = categories[1] if index < carried else categories[0]
        node.depth = index + 1
        node.parent = parent
        if parent >= 0:
            node.parent_birth = blocks[parent].birth
        parent = block


@njit(cache=True)
def pop_stock(blocks: Blocks, roots: Roots, now: float, out: Ids) -> int:
    """Take the ``len(out)`` oldest free blocks; returns how many cached children that orphans."""
    sentinel = len(blocks) - 1
    orphans = 0
    for index in range(len(out)):
        block = blocks[sentinel].newer
        leave(blocks, roots, block)
        orphans += renew(blocks, block, now)
        out[index] = block
    return orphans


@njit(cache=True)
def _head_score(
    blocks: Blocks, roots: Roots, laws: Laws, trust: float, category: int, now: float
) -> float:
    head = roots[category]
    if head < 0:
        return np.inf
    age = max(0.0, now - blocks[head].last_access)
    return trusted_score(laws, trust, category, age)


@njit(cache=True)
def _lowest(blocks: Blocks, roots: Roots, scores: NDArray[np.float64]) -> tuple[int, float]:
    """The category whose head has the lowest score (ties to the deeper), and the next score.

    `NONE` if no category has a leaf.
    """
    best, lowest, second = NONE, np.inf, np.inf
    for category in range(DEFAULT, len(scores)):
        score = scores[category]
        if score > lowest or roots[category] < 0:
            second = min(second, score)
        elif (
            best < 0 or score < lowest or blocks[roots[category]].depth > blocks[roots[best]].depth
        ):
            best, lowest, second = category, score, lowest
        else:
            second = score
    return best, second


@njit(cache=True)
def pop_scored(blocks: Blocks, roots: Roots, laws: Laws, trust: float, now: float, out: Ids) -> int:
    """Take ``len(out)`` free blocks, least likely to be reused first; returns the orphans made.

    Unhashed blocks go before all others and those of last resort after them. Chains cannot
    form a circle, so some free block always is a leaf. Should that ever fail, the stock order
    decides and the orphans are counted.
    """
    scores = np.empty(len(laws))
    for category in range(DEFAULT, len(laws)):
        scores[category] = _head_score(blocks, roots, laws, trust, category, now)
    orphans = 0
    best, second = NONE, np.inf
    for index in range(len(out)):
        if roots[UNHASHED] >= 0:
            block = roots[UNHASHED]
        else:
            # Most of the time the next leaf of the same chain is the next to go, and a look
            # at all the other categories can be spared.
            if best < 0 or not scores[best] < second:
                best, second = _lowest(blocks, roots, scores)
            block = roots[best] if best >= 0 else roots[LAST_RESORT]
        if block < 0:
            block = blocks[len(blocks) - 1].newer
        category, accessed = blocks[block].category, blocks[block].last_access
        parent = _parent(blocks, block)
        leave(blocks, roots, block)
        orphans += renew(blocks, block, now)
        out[index] = block
        head = roots[category]
        if category >= DEFAULT and (head < 0 or blocks[head].last_access != accessed):
            scores[category] = _head_score(blocks, roots, laws, trust, category, now)
        if parent >= 0 and blocks[parent].category >= DEFAULT:
            changed = blocks[parent].category
            if changed != category:
                scores[changed] = _head_score(blocks, roots, laws, trust, changed, now)
                best = NONE
    return orphans


@njit(cache=True)
def forget(blocks: Blocks, roots: Roots, block: int, front: float) -> None:
    """``block`` lost its hash: if free, it goes first in the scored order, its stock place kept."""
    node = blocks[block]
    older, free = node.older, node.free
    if free:
        leave(blocks, roots, block)
    renew(blocks, block, front)
    if free:
        node.category = UNHASHED
        enter(blocks, roots, block, older)


@njit(cache=True)
def demote(blocks: Blocks, roots: Roots, ids: Ids) -> None:
    """Blocks kept as a last resort are ordinary ones again: nobody is about to read them."""
    for block in ids:
        node = blocks[block]
        if node.category == LAST_RESORT:
            queued = node.free and node.children == 0
            if queued:
                heap.delete(blocks, roots, block)
            node.category = DEFAULT
            if queued:
                heap.insert(blocks, roots, block)


@njit(cache=True)
def relabel(blocks: Blocks, roots: Roots) -> None:
    """Move every block to the `DEFAULT` category: the table that named the others is gone."""
    for category in range(DEFAULT + 1, len(roots)):
        heap.absorb(blocks, roots, category, DEFAULT)
    for block in range(len(blocks)):
        if blocks[block].category > DEFAULT:
            blocks[block].category = DEFAULT


@njit(cache=True)
def order(blocks: Blocks, after: int) -> Ids:
    """Ids of the free blocks in the stock order, those behind block ``after`` (or all)."""
    sentinel = len(blocks) - 1
    out = np.empty(sentinel, np.int64)
    count = 0
    block = blocks[sentinel if after < 0 else after].newer
    while block != sentinel and block >= 0:
        out[count] = block
        count += 1
        block = blocks[block].newer
    return out[:count]
