"""The queue of one category: a leftist heap, against sorted lists."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from wactl.policies import heap
from wactl.policies.blocks import FIRST_CATEGORY, NONE, Blocks, Roots, new_blocks, new_roots

BLOCKS = 48
CATEGORIES = (FIRST_CATEGORY, FIRST_CATEGORY + 1)

# Few different times and depths, so that ties are common.
records = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from(CATEGORIES)),
    min_size=BLOCKS,
    max_size=BLOCKS,
)
moves = st.lists(st.integers(0, BLOCKS - 1), max_size=200)


def filled(values: list[tuple[int, int, int]]) -> tuple[Blocks, Roots]:
    """Block records with these last accesses, depths and categories, none of them queued."""
    blocks = new_blocks(BLOCKS)
    for block, (last_access, depth, category) in enumerate(values):
        blocks[block]["last_access"] = last_access
        blocks[block]["depth"] = depth
        blocks[block]["category"] = category
    return blocks, new_roots()


def place(blocks: Blocks, block: int) -> tuple[float, int, int]:
    """Where a block belongs: the older first, then the deeper, then the lower id."""
    return blocks[block]["last_access"], -blocks[block]["depth"], block


def members(blocks: Blocks, root: int) -> list[int]:
    """All blocks below ``root``, after a check of every link and rank on the way."""
    if root == NONE:
        return []
    found, ranks = [], {NONE: 0}
    stack = [root]
    while stack:
        node = stack.pop()
        found.append(node)
        for side in ("left", "right"):
            child = int(blocks[node][side])
            if child != NONE:
                assert blocks[child]["up"] == node
                assert place(blocks, node) < place(blocks, child)
                stack.append(child)
    for node in reversed(found):
        left, right = int(blocks[node]["left"]), int(blocks[node]["right"])
        assert ranks[left] >= ranks[right]
        ranks[node] = ranks[right] + 1
        assert blocks[node]["rank"] == ranks[node]
    # The rank of the root is the length of the spine that every operation walks.
    assert ranks[root] <= math.log2(len(found) + 1)
    assert blocks[root]["up"] == NONE
    return found


def check(blocks: Blocks, roots: Roots, queued: dict[int, set[int]]) -> None:
    for category, blocks_of in queued.items():
        root = int(roots[category])
        assert sorted(members(blocks, root)) == sorted(blocks_of)
        if blocks_of:
            assert root == min(blocks_of, key=lambda block: place(blocks, block))


@given(records, moves)
def test_it_finds_the_first_of_each_category(
    values: list[tuple[int, int, int]], toggled: list[int]
) -> None:
    """Blocks put in and taken out anywhere leave the least in front and the spine short."""
    blocks, roots = filled(values)
    queued: dict[int, set[int]] = {category: set() for category in CATEGORIES}
    for block in toggled:
        blocks_of = queued[values[block][2]]
        if block in blocks_of:
            heap.delete(blocks, roots, block)
            blocks_of.remove(block)
        else:
            heap.insert(blocks, roots, block)
            blocks_of.add(block)
        check(blocks, roots, queued)


@given(records)
def test_it_empties_in_order(values: list[tuple[int, int, int]]) -> None:
    """Taking the first again and again gives the blocks of a category sorted."""
    blocks, roots = filled(values)
    for block in range(BLOCKS):
        heap.insert(blocks, roots, block)
    for category in CATEGORIES:
        taken = []
        while (root := int(roots[category])) != NONE:
            heap.delete(blocks, roots, root)
            taken.append(root)
        expected = [block for block in range(BLOCKS) if values[block][2] == category]
        assert taken == sorted(expected, key=lambda block: place(blocks, block))


@given(records, st.sets(st.integers(0, BLOCKS - 1), min_size=1), moves)
def test_one_block_replaces_another(
    values: list[tuple[int, int, int]], queued: set[int], others: list[int]
) -> None:
    """After `replace` the queues are as if one had been taken out and the other put in."""
    blocks, roots = filled(values)
    for block in sorted(queued):
        heap.insert(blocks, roots, block)
    for number, new in enumerate(others):
        if new in queued:
            continue
        old = sorted(queued)[number % len(queued)]
        heap.replace(blocks, roots, old, new)
        queued = queued - {old} | {new}
        check(blocks, roots, {c: {b for b in queued if values[b][2] == c} for c in CATEGORIES})


@given(records, st.sets(st.integers(0, BLOCKS - 1)))
def test_one_category_absorbs_another(values: list[tuple[int, int, int]], queued: set[int]) -> None:
    """After `absorb` the target holds the blocks of both categories and the source none."""
    blocks, roots = filled(values)
    for block in sorted(queued):
        heap.insert(blocks, roots, block)
    source, target = CATEGORIES
    heap.absorb(blocks, roots, source, target)
    blocks["category"][blocks["category"] == source] = target
    check(blocks, roots, {source: set(), target: queued})


def test_the_spine_stays_short_for_sorted_input() -> None:
    """Blocks that arrive in rising or falling order leave no long spine either."""
    count = 5000
    for step in (1, -1):
        blocks, roots = new_blocks(count), new_roots()
        blocks["last_access"][:count] = range(count)[::step]
        for block in range(count):
            heap.insert(blocks, roots, block)
        root = int(roots[blocks[0]["category"]])
        assert len(members(blocks, root)) == count
        for block in range(0, count, 2):
            heap.delete(blocks, roots, block)
        root = int(roots[blocks[0]["category"]])
        assert sorted(members(blocks, root)) == list(range(1, count, 2))
