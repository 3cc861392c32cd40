"""One queue a category: its free leaves, ordered by last access.

A leftist heap threaded through the block records. Leaves arrive in almost any order (a
parent becomes a leaf long after its own last access), and a hit takes one out of the middle;
both cost O(log n) at worst here, with no step that is dear now and then, and no memory
beyond three links a block.
"""

from __future__ import annotations

from numba import njit

from .blocks import NONE, Blocks, Roots, category_of


@njit(cache=True)
def before(blocks: Blocks, a: int, b: int) -> bool:
    """Whether block ``a`` goes before ``b``: older first, then the deeper, then the lower id."""
    x, y = blocks[a], blocks[b]
    if x.last_access != y.last_access:
        return x.last_access < y.last_access
    if x.depth != y.depth:
        return x.depth > y.depth
    return a < b


@njit(cache=True)
def _rank(blocks: Blocks, node: int) -> int:
    return blocks[node].rank if node >= 0 else 0


@njit(cache=True)
def _settle(blocks: Blocks, node: int) -> bool:
    """Keep the longer spine on the left of ``node``; says whether its rank changed."""
    left, right = blocks[node].left, blocks[node].right
    if _rank(blocks, left) < _rank(blocks, right):
        blocks[node].left, blocks[node].right = right, left
    rank = _rank(blocks, blocks[node].right) + 1
    changed = rank != blocks[node].rank
    blocks[node].rank = rank
    return changed


@njit(cache=True)
def _meld(blocks: Blocks, a: int, b: int) -> int:
    """The root of the two heaps ``a`` and ``b`` made one; both must be roots or `NONE`."""
    if a < 0:
        return b
    if b < 0:
        return a
    if before(blocks, b, a):
        a, b = b, a
    root = a
    while True:
        right = blocks[a].right
        if right < 0 or before(blocks, b, right):
            blocks[a].right = b
            blocks[b].up = a
            a, b = b, right
            if b < 0:
                break
        else:
            a = right
    node = blocks[a].up
    while node >= 0:
        _settle(blocks, node)
        node = blocks[node].up
    return root


@njit(cache=True)
def insert(blocks: Blocks, roots: Roots, block: int) -> None:
    """Add ``block`` to the queue of its category."""
    node = blocks[block]
    node.left = node.right = node.up = NONE
    node.rank = 1
    category = category_of(blocks, block)
    root = _meld(blocks, roots[category], block)
    blocks[root].up = NONE
    roots[category] = root


@njit(cache=True)
def delete(blocks: Blocks, roots: Roots, block: int) -> None:
    """Take ``block`` out of the queue of its category, wherever it stands."""
    node = blocks[block]
    left, right, up = node.left, node.right, node.up
    if left >= 0:
        blocks[left].up = NONE
    if right >= 0:
        blocks[right].up = NONE
    rest = _meld(blocks, left, right)
    if rest >= 0:
        blocks[rest].up = up
    if up < 0:
        roots[category_of(blocks, block)] = rest
        return
    if blocks[up].left == block:
        blocks[up].left = rest
    else:
        blocks[up].right = rest
    while up >= 0 and _settle(blocks, up):
        up = blocks[up].up


@njit(cache=True)
def replace(blocks: Blocks, roots: Roots, old: int, new: int) -> None:
    """Take ``old`` out of the queue of its category and add ``new`` to that of its own.

    A leaf and the block before it in its chain mostly follow each other in the order too; then
    one steps into the place of the other, in constant time.
    """
    node = blocks[old]
    left, right, up = node.left, node.right, node.up
    category = category_of(blocks, old)
    if (
        category != category_of(blocks, new)
        or (up >= 0 and before(blocks, new, up))
        or (left >= 0 and before(blocks, left, new))
        or (right >= 0 and before(blocks, right, new))
    ):
        delete(blocks, roots, old)
        insert(blocks, roots, new)
        return
    heir = blocks[new]
    heir.left, heir.right, heir.up, heir.rank = left, right, up, node.rank
    if left >= 0:
        blocks[left].up = new
    if right >= 0:
        blocks[right].up = new
    if up < 0:
        roots[category] = new
    elif blocks[up].left == old:
        blocks[up].left = new
    else:
        blocks[up].right = new


@njit(cache=True)
def absorb(blocks: Blocks, roots: Roots, source: int, target: int) -> None:
    """Meld the queue of category ``source`` into that of ``target``.

    The caller relabels the blocks; the queue of ``source`` is empty afterwards.
    """
    roots[target] = _meld(blocks, roots[source], roots[target])
    if roots[target] >= 0:
        blocks[roots[target]].up = NONE
    roots[source] = NONE
