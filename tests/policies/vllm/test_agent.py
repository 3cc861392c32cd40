"""The agent on vLLM's real cache manager: same blocks when off, better ones when told, safe."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY, LAST_RESORT, UNHASHED
from wactl.policies.features import GENERATED, TYPE, digest
from wactl.policies.messages import WIRE, Admission, Finish, Push, encode
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.table import Condition, DecisionTable, Node, Rule
from wactl.policies.vllm.agent import Agent, NotSupported

BLOCK = 16

TAGGED = DecisionTable(
    1,
    2,
    (Rule("keep", (Condition(TYPE, digest("keep"), digest("keep")),), -1), Rule("drop", (), -2)),
    (),
)
ANSWERED = DecisionTable(
    1, 2, (Rule("any", (), 0),), (Node(Condition(GENERATED, 0.0, 10.0), -1, -2),)
)
"""Short answers and long ones."""
KEEP = Law((0.9,), (0.01,), 1e5)
DROP = Law((0.01,), (0.01,), 1e5)


def push(agent: Agent, version: int = 1, trust: float = 1.0, table: DecisionTable = TAGGED) -> None:
    """Parameters under which requests tagged `keep` are worth more than all others."""
    parameters = ParameterSet(version, 60.0, trust, Score.HAZARD, 60.0, DROP, (KEEP, DROP), table)
    ack = agent.intake.consider(encode(Push(WIRE, parameters)), agent.clock())
    assert ack.accepted, ack.reason


def prompt(rng: random.Random, blocks: int) -> list[int]:
    """Tokens of so many blocks and one more."""
    return [rng.randrange(1000) for _ in range(BLOCK * blocks + 1)]


def test_observing_changes_no_block_and_no_hit(cache, control, clock) -> None:
    """Through thousands of requests, two at a time, the engine with the agent does the same."""
    stock, ours = cache(200), cache(200)
    agent = control(ours)
    rng = random.Random(3)
    chains = [prompt(rng, rng.randint(1, 20)) for _ in range(60)]
    running: list[tuple] = []
    for _ in range(3000):
        clock.now += rng.random()
        tokens = rng.choice(chains)[: BLOCK * rng.randint(1, 20) + 1] + prompt(rng, 2)
        pair = stock.request(tokens), ours.request(tokens)
        hits = stock.admit(pair[0]), ours.admit(pair[1])
        assert hits[0] == hits[1]
        if hits[0] is not None:
            assert stock.ids(pair[0]) == ours.ids(pair[1])
            running.append(pair)
        if len(running) > 3 or hits[0] is None:
            a, b = running.pop(rng.randrange(len(running)))
            how = rng.choice(["finish", "finish", "preempt"])
            getattr(stock, how)(a)
            getattr(ours, how)(b)
    assert agent.errors == 0 and agent.recorder.admitted > 2000
    assert agent.state().order == "lru"


def test_parameters_keep_what_is_likely_to_be_reused(cache, control, clock) -> None:
    """A tagged conversation survives a flood of prompts that LRU would let push it out."""
    ours = cache(100)
    agent = control(ours)
    push(agent)
    rng = random.Random(1)
    precious = prompt(rng, 20)
    request = ours.request(precious, arguments={"wactl_category": "keep"})
    ours.admit(request)
    ours.finish(request)
    for _ in range(50):
        clock.now += 1.0
        flood = ours.request(prompt(rng, 10))
        ours.admit(flood)
        ours.finish(flood)
    assert ours.admit(ours.request(precious)) == 20 * BLOCK
    assert agent.state().active == 1 and agent.state().order == "scored"
    assert agent.queue.core.orphans == 0


@pytest.mark.parametrize("why", ["expired", "distrusted"])
def test_without_parameters_in_force_the_order_is_lru_again(cache, control, clock, why) -> None:
    """After the time to live, or with trust 0, the same conversation is pushed out."""
    ours = cache(100)
    agent = control(ours)
    push(agent, trust=0.0 if why == "distrusted" else 1.0)
    rng = random.Random(1)
    precious = prompt(rng, 20)
    request = ours.request(precious, arguments={"wactl_category": "keep"})
    ours.admit(request)
    ours.finish(request)
    clock.now += 61.0
    for _ in range(50):
        flood = ours.request(prompt(rng, 10))
        ours.admit(flood)
        ours.finish(flood)
    assert ours.admit(ours.request(precious)) == 0
    assert agent.state().order == "lru" and agent.state().active == 0


def test_a_request_is_of_a_category_when_it_has_finished(cache, control, clock) -> None:
    """How much it generated decides where its blocks go, and is told the sidecar."""
    ours = cache(100)
    agent = control(ours)
    sent: list[Admission | Finish] = []
    agent.channel.send = sent.append
    push(agent, table=ANSWERED)
    rng = random.Random(8)
    for blocks, generated in ((12, 10), (20, 11)):
        request = ours.request(prompt(rng, blocks))
        ours.admit(request)
        clock.now += 2.5
        ours.finish(request, generated)
    assert agent.queue.core.cached()[DEFAULT:].tolist() == [0, 12, 20]
    assert [type(record) for record in sent] == [Admission, Finish] * 2
    assert [record.number for record in sent] == [0, 0, 1, 1]
    assert sent[1::2] == [Finish(102.5, 0, 10), Finish(105.0, 1, 11)]


def test_numbers_keep_their_meaning_within_a_lineage(cache, control, clock) -> None:
    """Blocks stay in their category from table to table, and in none under another lineage."""
    ours = cache(100)
    agent = control(ours)
    push(agent, 1)
    rng = random.Random(9)
    request = ours.request(prompt(rng, 12), arguments={"wactl_category": "keep"})
    ours.admit(request)
    ours.finish(request)

    def counted() -> list[int]:
        """Cached blocks of no category, of the first, …; after a request that caches none."""
        other = ours.request([1])
        ours.admit(other)
        ours.finish(other)
        return agent.queue.core.cached()[DEFAULT:].tolist()

    assert counted() == [0, 12]
    push(agent, 2, table=ANSWERED)
    assert counted() == [0, 12]
    clock.now += 61.0  # expired: the numbers are still theirs when it is pushed again
    assert counted() == [0, 12]
    push(agent, 3, table=msgspec.structs.replace(ANSWERED, lineage=2))
    assert counted() == [12]
    assert agent.errors == 0


def test_a_preempted_request_finishes_once(cache, control, clock) -> None:
    """Its end is told when it is one, under the number of its first admission."""
    ours = cache(60)
    agent = control(ours)
    sent: list[Admission | Finish] = []
    agent.channel.send = sent.append
    request = ours.request(prompt(random.Random(2), 20))
    ours.admit(request)
    ours.preempt(request)
    ours.admit(request)
    ours.finish(request, 4)
    assert [(type(record), record.number) for record in sent] == [
        *((Admission, 0), (Admission, 0), (Finish, 0))
    ]
    assert [record.replay for record in sent[:2]] == [False, True]
    assert sent[2].generated == 4


def test_blocks_of_preempted_requests_go_last(cache, control, clock) -> None:
    """A preempted request finds its blocks again after others took all that was left."""
    ours = cache(60)
    agent = control(ours)
    push(agent)
    rng = random.Random(2)
    victim = ours.request(prompt(rng, 20))
    ours.admit(victim)
    ours.preempt(victim)
    held = agent.queue.core.blocks["category"][[*range(1, 21)]]
    assert (held == LAST_RESORT).sum() == 20
    for _ in range(5):
        kept = ours.request(prompt(rng, 20), arguments={"wactl_category": "keep"})
        ours.admit(kept)
        ours.finish(kept)
    assert ours.admit(victim) == 20 * BLOCK
    ours.finish(victim)
    assert agent.recorder.admitted == 6
    assert not (agent.queue.core.blocks["category"] == LAST_RESORT).any()


@pytest.mark.parametrize("resumed", [True, False], ids=["resumed", "aborted"])
def test_nothing_is_kept_for_a_preempted_request_that_has_ended(
    cache, control, clock, resumed
) -> None:
    """Whether it came back or was aborted, its blocks are as any others afterwards."""
    ours = cache(60)
    agent = control(ours)
    push(agent)
    rng = random.Random(2)
    victim = ours.request(prompt(rng, 20)[:-1])
    ours.admit(victim)
    ours.preempt(victim)
    if resumed:
        ours.admit(victim)
    ours.finish(victim)
    assert not (agent.queue.core.blocks["category"] == LAST_RESORT).any()
    for _ in range(5):
        kept = ours.request(prompt(rng, 20), arguments={"wactl_category": "keep"})
        ours.admit(kept)
        ours.finish(kept)
    assert ours.admit(ours.request(victim.prompt_token_ids)) == 0
    assert agent.errors == 0 and agent.queue.core.orphans == 0


def test_an_internal_error_stands_the_agent_down_and_the_engine_goes_on(
    cache, control, clock
) -> None:
    """Whatever part fails, the same operation succeeds on a stock queue with all free blocks."""
    for broken in ("pop", "append", "prepend", "tag", "order", "admit", "finish"):
        ours = cache(64)
        agent = control(ours)
        push(agent)
        rng = random.Random(4)
        first = ours.request(prompt(rng, 12))
        ours.admit(first)
        ours.finish(first)
        free = ours.manager.block_pool.get_num_free_blocks()
        assert free == 63

        def fail(*_: object, **__: object) -> None:
            raise ArithmeticError("broken on purpose")

        target = agent.recorder if broken in ("admit", "finish") else agent.queue.core
        setattr(target, broken, fail)
        if broken == "order":
            list(ours.manager.block_pool.free_block_queue.iter_blocks_after(None))
        for _ in range(20):
            request = ours.request(prompt(rng, 12))
            assert ours.admit(request) is not None
            ours.finish(request)
            assert ours.manager.block_pool.get_num_free_blocks() == 63
        state = agent.state()
        assert (state.errors, state.order, state.active) == (1, "lru", 0), broken
        assert "broken on purpose" in state.reason
        assert type(ours.manager.block_pool.free_block_queue).__name__ == "FreeKVCacheBlockQueue"
        assert "free" not in vars(ours.manager), "the patches are still there"


def test_a_reset_of_the_cache_is_followed(cache, control, clock) -> None:
    """After `reset_prefix_cache` nothing is cached, and nothing dead outranks the living."""
    ours = cache(64)
    agent = control(ours)
    push(agent)
    rng = random.Random(5)
    dead = ours.request(prompt(rng, 30), arguments={"wactl_category": "keep"})
    ours.admit(dead)
    ours.finish(dead)
    assert ours.manager.reset_prefix_cache()
    assert agent.queue.core.cached().sum() == 0
    live = prompt(rng, 20)
    for tokens in (live, prompt(rng, 30)):
        request = ours.request(tokens)
        ours.admit(request)
        ours.finish(request)
    assert ours.admit(ours.request(live)) == 20 * BLOCK


def test_blocks_that_lose_their_hash_go_first(cache, control, clock) -> None:
    """A connector's invalid blocks are handed out before anything that can be hit."""
    ours = cache(64)
    agent = control(ours)
    push(agent)
    rng = random.Random(6)
    request = ours.request(prompt(rng, 20), arguments={"wactl_category": "keep"})
    ours.admit(request)
    ids = ours.ids(request)
    ours.finish(request)
    ours.manager.evict_blocks(set(ids[10:12]))
    assert (agent.queue.core.blocks["category"][ids[10:12]] == UNHASHED).all()
    assert agent.errors == 0


def test_other_attention_keeps_the_stock_order_and_is_counted(cache, control, clock) -> None:
    """In a hybrid model only the full-attention group is tagged."""
    ours = cache(200, sliding=True)
    agent = control(ours)
    push(agent)
    rng = random.Random(7)
    for _ in range(30):
        request = ours.request(prompt(rng, 12), arguments={"wactl_category": "keep"})
        assert ours.admit(request) is not None
        ours.finish(request)
        clock.now += 1.0
    assert agent.state().exempt_groups == 1 and agent.errors == 0
    categories = agent.queue.core.blocks["category"][:-1]
    assert set(np.unique(categories)) <= {UNHASHED, DEFAULT, FIRST_CATEGORY}


def test_what_it_does_not_understand_it_leaves_alone(cache, run_dir, clock) -> None:
    """A pool that somebody else replaced, or no prefix caching, is refused with a reason."""
    ours = cache(64)
    ours.manager.block_pool.free_block_queue = object()
    with pytest.raises(NotSupported, match="replaced"):
        Agent(ours.manager, 0, run_dir, clock)
    other = cache(64)
    other.manager.enable_caching = False
    with pytest.raises(NotSupported, match="prefix caching is off"):
        Agent(other.manager, 0, run_dir, clock)
    assert not vars(other.manager).get("free")
