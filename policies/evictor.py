"""The evictor core: the free blocks in the order they are handed out (`victims`).

Two orders are kept over the same free blocks. The stock order is vLLM's own, freed longest
ago first, and it is followed exactly while no parameters are in force or their trust is 0.
The scored order takes, among the *leaves* of all chains, the one with the lowest score. A
block whose free child is still cached is never a candidate: without the block the child
could not be hit any more (design: "evict leaves only"). Blocks nobody can hit go before all
others, blocks of preempted requests after all others.

A block in use has no free ancestor, since a request holds its whole chain. So it is enough
to count, for each block, the free blocks that name it as their parent.

Blocks can be chosen some ahead of being asked for. They keep their place in the stock order
and are out of the scored one; `sync` puts back those that were not handed out after all.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from . import heap
from .blocks import (
    DEFAULT,
    FREE,
    IN_USE,
    LAST_RESORT,
    NONE,
    UNHASHED,
    Blocks,
    Flags,
    Ids,
    Roots,
)


@njit(cache=True)
def parent_of(blocks: Blocks, block: int) -> int:
    """The block before ours in its chain, if it still holds what it held; else `NONE`."""
    parent = blocks[block].parent
    if parent >= 0 and blocks[parent].birth == blocks[block].parent_birth:
        return parent
    return NONE


@njit(cache=True)
def _show(blocks: Blocks, roots: Roots, free: Flags, block: int) -> None:
    """Enter a free ``block`` into the scored order, in the place of its parent if that is there."""
    parent = parent_of(blocks, block)
    leaf = blocks[block].children == 0
    if parent >= 0:
        blocks[parent].children += 1
        if free[parent] == FREE and blocks[parent].children == 1:
            if leaf:
                heap.replace(blocks, roots, parent, block)
            else:
                heap.delete(blocks, roots, parent)
            return
    if leaf:
        heap.insert(blocks, roots, block)


@njit(cache=True)
def hide(blocks: Blocks, roots: Roots, free: Flags, block: int) -> None:
    """Take ``block`` out of the scored order; its parent may become a leaf."""
    parent = parent_of(blocks, block)
    leaf = blocks[block].children == 0
    if parent >= 0:
        blocks[parent].children -= 1
        if free[parent] == FREE and blocks[parent].children == 0:
            if leaf:
                heap.replace(blocks, roots, block, parent)
            else:
                heap.insert(blocks, roots, parent)
            return
    if leaf:
        heap.delete(blocks, roots, block)


@njit(cache=True)
def _unlink(blocks: Blocks, block: int) -> None:
    """Take ``block`` out of the stock order."""
    node = blocks[block]
    blocks[node.older].newer = node.newer
    blocks[node.newer].older = node.older
    node.older = node.newer = NONE


@njit(cache=True)
def enter(blocks: Blocks, roots: Roots, free: Flags, block: int, after: int) -> None:
    """Make ``block`` free, behind block ``after`` (an id, or the sentinel) in the stock order."""
    node = blocks[block]
    free[block] = FREE
    node.older, node.newer = after, blocks[after].newer
    blocks[node.newer].older = block
    blocks[after].newer = block
    _show(blocks, roots, free, block)


@njit(cache=True)
def leave(blocks: Blocks, roots: Roots, free: Flags, block: int) -> None:
    """Take a free ``block`` out of both orders."""
    free[block] = IN_USE
    _unlink(blocks, block)
    hide(blocks, roots, free, block)


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
def sync(
    blocks: Blocks, roots: Roots, free: Flags, chosen: Ids, handed: int, left: Ids, now: float
) -> None:
    """What Python did meanwhile: ``handed`` of the ``chosen`` are gone, ``left`` were hit.

    The rest of the chosen, the last of them first, become as any other free block.
    """
    free[left] = FREE  # the orders have them still
    for index in range(len(chosen) - 1, handed - 1, -1):
        free[chosen[index]] = FREE
        _show(blocks, roots, free, chosen[index])
    for index in range(handed):
        _unlink(blocks, chosen[index])
        renew(blocks, chosen[index], now)
    for block in left:
        leave(blocks, roots, free, block)


@njit(cache=True)
def append(blocks: Blocks, roots: Roots, free: Flags, ids: Ids, now: float) -> None:
    """Make blocks free as the newest, in the order given; one never tagged was used until now."""
    sentinel = len(blocks) - 1
    for block in ids:
        if blocks[block].depth == 0:
            blocks[block].last_access = now
        enter(blocks, roots, free, block, blocks[sentinel].older)


@njit(cache=True)
def prepend(blocks: Blocks, roots: Roots, free: Flags, ids: Ids, front: float) -> None:
    """Make unhashed blocks free as the oldest, the first of ``ids`` first of all.

    ``front`` is a number below every former one, by which they precede each other.
    """
    after = len(blocks) - 1
    for index, block in enumerate(ids):
        # Cached blocks behind one that lost its hash while in use are its children no more.
        renew(blocks, block, front + index / len(ids))
        blocks[block].category = UNHASHED
        enter(blocks, roots, free, block, after)
        after = block


@njit(cache=True)
def tag(
    blocks: Blocks, free: Flags, ids: Ids, carried: int, categories: Ids, accessed: float
) -> None:
    """Record who used the chain ``ids`` (head first) last, before its blocks are freed.

    The first ``carried`` blocks get ``categories[1]``, those behind ``categories[0]``; a block
    that somebody used since ``accessed`` (seconds) keeps the later tag.
    """
    era = blocks[len(blocks) - 1].era
    parent = NONE
    for index, block in enumerate(ids):
        node = blocks[block]
        if free[block] == FREE:  # a stranger's doing: leave a queued block as it is
            parent = NONE
            continue
        if accessed >= node.last_access or node.depth == 0:
            node.last_access = accessed
            node.category = categories[1] if index < carried else categories[0]
            node.era = era
        node.depth = index + 1
        node.parent = parent if parent != block else NONE  # a hostile record may name it twice
        if node.parent >= 0:
            node.parent_birth = blocks[parent].birth
        parent = block


@njit(cache=True)
def give_back(
    blocks: Blocks,
    roots: Roots,
    free: Flags,
    chosen: Ids,
    handed: int,
    left: Ids,
    tagged: Ids,
    carried: int,
    categories: Ids,
    accessed: float,
    first: Ids,
    front: float,
    last: Ids,
    now: float,
) -> None:
    """`sync`, `tag`, `prepend` of ``first``, `append` of ``last``: a request ends."""
    sync(blocks, roots, free, chosen, handed, left, now)
    tag(blocks, free, tagged, carried, categories, accessed)
    prepend(blocks, roots, free, first, front)
    append(blocks, roots, free, last, now)


@njit(cache=True)
def forget(blocks: Blocks, roots: Roots, free: Flags, ids: Ids, front: float) -> None:
    """Blocks lost their hash: free ones go first in the scored order, their stock place kept.

    The last of ``ids`` is first of all; ``front`` is a number below every former one.
    """
    for index, block in enumerate(ids):
        node = blocks[block]
        older, was_free = node.older, free[block] == FREE
        if was_free:
            leave(blocks, roots, free, block)
        renew(blocks, block, front - index)
        if was_free:
            node.category = UNHASHED
            enter(blocks, roots, free, block, older)


@njit(cache=True)
def demote(blocks: Blocks, roots: Roots, free: Flags, ids: Ids) -> None:
    """Blocks kept as a last resort are ordinary ones again: nobody is about to read them."""
    for block in ids:
        node = blocks[block]
        if node.category == LAST_RESORT:
            queued = free[block] == FREE and node.children == 0
            if queued:
                heap.delete(blocks, roots, block)
            node.category = DEFAULT
            if queued:
                heap.insert(blocks, roots, block)


@njit(cache=True)
def relabel(blocks: Blocks, roots: Roots) -> None:
    """Move every block to the `DEFAULT` category: the table that named the others is gone.

    The queues are melded; the blocks themselves are not gone through, they are of another era.
    """
    blocks[len(blocks) - 1].era += 1
    for category in range(DEFAULT + 1, len(roots)):
        if roots[category] >= 0:
            heap.absorb(blocks, roots, category, DEFAULT)


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
