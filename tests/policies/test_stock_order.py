"""Without parameters, or with trust 0, the queue is vLLM's own: same blocks, same order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.intake import Orders, orders_of
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.table import DecisionTable, Rule
from wactl.policies.vllm.queue import WactlQueue

OPERATIONS = 1_000_000
BLOCKS = 400


def distrusted() -> Orders:
    """Parameters that would reverse everything, with a trust of 0."""
    table = DecisionTable(1, 4, (Rule("any", (), -1),), ())
    laws = tuple(Law((0.9,), (10.0**-i,), 1e5) for i in range(table.categories))
    return orders_of(ParameterSet(1, 60.0, 0.0, Score.HAZARD, 60.0, laws[0], laws, table))


def fail(error: Exception, stock: object) -> None:
    raise error


@pytest.mark.parametrize("orders", [None, distrusted()], ids=["no parameters", "trust 0"])
def test_a_million_random_operations_give_the_stock_order(orders: Orders | None) -> None:
    """Two pools, one with each queue, go through the same operations and never differ."""
    rng = random.Random(7)
    stock_blocks = [KVCacheBlock(i) for i in range(BLOCKS)]
    our_blocks = [KVCacheBlock(i) for i in range(BLOCKS)]
    stock = FreeKVCacheBlockQueue(stock_blocks)
    clock = iter(range(10**9)).__next__
    ours = WactlQueue(FreeKVCacheBlockQueue(our_blocks), our_blocks, clock, lambda now: None, fail)
    ours.core.obey(orders)
    free = set(range(BLOCKS))
    used: set[int] = set()
    operations = 0
    while operations < OPERATIONS:
        operations += 1
        match rng.randrange(8):
            case 0 if free:
                a, b = stock.popleft(), ours.popleft()
                assert a.block_id == b.block_id
                free.remove(a.block_id)
                used.add(a.block_id)
            case 1 if free:
                n = rng.randint(0, min(len(free), 12))
                ids = [block.block_id for block in stock.popleft_n(n)]
                assert ids == [block.block_id for block in ours.popleft_n(n)]
                free -= set(ids)
                used |= set(ids)
            case 2 if free:
                # A hit takes a run of blocks out of the middle.
                for i in rng.sample(sorted(free), min(len(free), rng.randint(1, 6))):
                    stock.remove(stock_blocks[i])
                    ours.remove(our_blocks[i])
                    free.remove(i)
                    used.add(i)
                    operations += 1
            case 3 if used:
                i = rng.choice(sorted(used))
                stock.append(stock_blocks[i])
                ours.append(our_blocks[i])
                used.remove(i)
                free.add(i)
            case 4 | 5 if used:
                ids = rng.sample(sorted(used), min(len(used), rng.randint(1, 12)))
                chain = np.array(ids[::-1])
                category = FIRST_CATEGORY + rng.randrange(4)
                ours.core.tag(chain, len(ids) // 2, np.array([category, 2]), float(clock()))
                stock.append_n([stock_blocks[i] for i in ids])
                ours.append_n([our_blocks[i] for i in ids])
                used -= set(ids)
                free |= set(ids)
            case 6 if used:
                ids = rng.sample(sorted(used), min(len(used), rng.randint(1, 6)))
                stock.prepend_n([stock_blocks[i] for i in ids])
                ours.prepend_n([our_blocks[i] for i in ids])
                used -= set(ids)
                free |= set(ids)
            case 7 if free and operations % 16 == 0:
                cursor = rng.choice([None, *sorted(free)])
                a_list = stock.iter_blocks_after(None if cursor is None else stock_blocks[cursor])
                b_list = ours.iter_blocks_after(None if cursor is None else our_blocks[cursor])
                assert [x.block_id for x in a_list] == [x.block_id for x in b_list]
        assert stock.num_free_blocks == ours.num_free_blocks == len(free)
    assert [b.block_id for b in stock.get_all_free_blocks()] == [
        b.block_id for b in ours.get_all_free_blocks()
    ]


def test_misuse_is_refused_as_the_stock_queue_refuses_it() -> None:
    """Popping from an empty queue and removing a block that is not free raise the same errors."""
    blocks = [KVCacheBlock(i) for i in range(2)]
    ours = WactlQueue(FreeKVCacheBlockQueue(blocks), blocks, lambda: 0.0, lambda now: None, fail)
    ours.popleft_n(2)
    with pytest.raises(ValueError, match="No free blocks"):
        ours.popleft()
    with pytest.raises(AssertionError):
        ours.popleft_n(1)
    with pytest.raises(RuntimeError, match="not free"):
        ours.remove(blocks[0])
