"""The scored queue against a model of an engine in plain Python, whatever happens to both.

Contents are paths in a tree: the prompt (0, 1, 1) shares its first two blocks with (0, 1, 0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from wactl.policies.blocks import DEFAULT, FIRST_CATEGORY, IN_USE, LAST_RESORT, UNHASHED, Ids
from wactl.policies.intake import Orders, orders_of
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.queue import FreeQueue
from wactl.policies.score import log_score
from wactl.policies.table import DecisionTable, Rule

BLOCKS = 12
TABLE = DecisionTable(
    1, 4, tuple(Rule(name, (), ~number) for number, name in enumerate("abcd")), ()
)
CATEGORIES = range(DEFAULT, FIRST_CATEGORY + TABLE.categories)

laws = st.builds(
    Law,
    st.sampled_from([(0.5, 0.3), (0.9, 0.0), (1.0, 0.0), (0.0, 0.0)]),
    st.sampled_from([(1.0, 0.01), (0.1, 0.1), (0.001, 0.5)]),
    st.sampled_from([5.0, 50.0, 1e6]),
)
# Two laws for four categories, so that scores tie.
parameter_sets = st.builds(
    lambda trust, score, of, default: ParameterSet(
        1, 9.0, trust, score, 20.0, default, (*of, *of), TABLE
    ),
    st.sampled_from([1.0, 1.0, 0.3, 0.3, 0.0]),
    st.sampled_from(Score),
    st.tuples(laws, laws),
    laws,
)
gaps = st.sampled_from([0.0, 0.0, 0.5, 3.0, 20.0])
prompts = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple)
numbers = st.integers(0, 1000)


@dataclass
class Block:
    """What the model knows of a block; ``parent`` is the block before, and which life of it."""

    content: tuple[int, ...] | None = None
    users: int = 0
    category: int = UNHASHED
    access: float = 0.0
    depth: int = 0
    life: int = 0
    parent: tuple[int, int] | None = None


@dataclass
class Request:
    chain: list[int]
    admitted: float
    carried: int
    categories: tuple[int, int]


class Ahead(FreeQueue):
    """Hands out blocks chosen ahead as long as it may, as the engine's adapter does."""

    def pop(self, count: int, now: float, ahead: int = 4) -> Ids:
        """Take ``count`` blocks, out of `ready` if that holds them and nothing has happened."""
        if count > len(self.ready) or self.leaving or now > self.at or self.until < now:
            self.at = now
            return super().pop(count, now, ahead)
        found = [self.ready.pop() for _ in range(count)]
        for block in found:
            self.flags[block] = IN_USE
        return np.array(found, np.int64)

    at = -np.inf


class Engine(RuleBasedStateMachine):
    """Admits and frees requests like vLLM; three queues obey it and have to agree with it."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = FreeQueue(BLOCKS), FreeQueue(BLOCKS), Ahead(BLOCKS)
        self.now, self.front = 100.0, -float(BLOCKS)
        self.orders: Orders | None = None
        self.blocks = [Block(access=i - BLOCKS) for i in range(BLOCKS)]
        self.free = list(range(BLOCKS))  # in the stock order
        self.holders: dict[tuple[int, ...], list[int]] = {}
        self.running: list[Request] = []
        self.forgot = False

    @rule(
        gap=gaps,
        prompt=prompts,
        tail=st.sampled_from([0, 0, 0, 1, 2]),
        extra=st.sampled_from([0, 0, 1, 2]),
        data=st.data(),
    )
    def admit(
        self, gap: float, prompt: tuple[int, ...], tail: int, extra: int, data: st.DataObject
    ) -> None:
        """Hit the longest cached prefix, pop the rest; who came last makes room if need be."""
        self.now += gap
        while True:
            chain = self.hits(prompt, len(prompt) - (tail == 0 and extra > 0))
            idle = [b for b in chain if self.blocks[b].users == 0]
            need = len(prompt) + tail - len(chain)
            if need + len(idle) <= len(self.free):
                break
            self.release(0.0, -1, preempted=extra == 0)
        for b in idle[:: data.draw(st.sampled_from([1, -1]))]:
            self.free.remove(b)
            for queue in self.queues:
                queue.remove(b)
        hits = len(chain)
        if need:
            chain += self.take(need)
        for end in range(hits, len(prompt)):
            self.blocks[chain[end]].content = prompt[: end + 1]
            self.holders.setdefault(prompt[: end + 1], []).append(chain[end])
        for b in chain:
            self.blocks[b].users += 1
        tags = data.draw(st.tuples(st.sampled_from(CATEGORIES), st.sampled_from(CATEGORIES)))
        self.running.append(Request(chain, self.now, hits + extra, tags))

    def hits(self, prompt: tuple[int, ...], most: int) -> list[int]:
        chain: list[int] = []
        while len(chain) < most and (held := self.holders.get(prompt[: len(chain) + 1])):
            chain.append(held[0])
        return chain

    @precondition(lambda self: self.running)
    @rule(gap=gaps, which=numbers, preempted=st.sampled_from([False, False, False, True]))
    def release(self, gap: float, which: int, preempted: bool) -> None:
        """A request ends or is preempted: tag its chain, then free it tail first."""
        self.now += gap
        request = self.running.pop(which % len(self.running))
        tags = (LAST_RESORT, LAST_RESORT) if preempted else request.categories
        for queue in self.queues:
            queue.tag(np.array(request.chain), request.carried, np.array(tags), request.admitted)
        for index, b in enumerate(request.chain):
            block = self.blocks[b]
            if request.admitted >= block.access or block.depth == 0:
                block.access, block.category = request.admitted, tags[index < request.carried]
            block.depth = index + 1
            before = request.chain[index - 1]
            block.parent = (before, self.blocks[before].life) if index else None
            block.users -= 1
        freed = [b for b in reversed(request.chain) if self.blocks[b].users == 0]
        unhashed = [b for b in freed if self.blocks[b].content is None]
        cached = [b for b in freed if self.blocks[b].content is not None]
        self.renew(unhashed[::-1], UNHASHED)
        self.free = unhashed + self.free + cached
        for queue in self.queues:
            queue.prepend(np.array(unhashed, np.int64))
            queue.append(np.array(cached, np.int64), self.now)

    @initialize(parameters=parameter_sets)
    def start(self, parameters: ParameterSet) -> None:
        self.obey(parameters)

    @rule(parameters=parameter_sets | st.none() | parameter_sets | parameter_sets)
    def obey(self, parameters: ParameterSet | None) -> None:
        """Other parameters come into force, or none."""
        self.orders = None if parameters is None else orders_of(parameters)
        for queue in self.queues:
            queue.obey(self.orders)

    @rule(often=numbers)
    def relabel(self, often: int) -> None:
        """Once in a while the categories lose their meaning."""
        if often % 8 == 7:
            for block in self.blocks:
                block.category = min(block.category, DEFAULT)
            for queue in self.queues:
                queue.relabel()

    def forget(self, ids: Sequence[int]) -> None:
        """Blocks lose their hash, in use or not."""
        self.forgot = True
        self.renew(ids, UNHASHED)
        for queue in self.queues:
            queue.forget(np.array(ids, np.int64))

    def renew(self, ids: Sequence[int], category: int) -> None:
        """Blocks hold nothing now; the last of them is the first to go."""
        for b in ids:
            self.front -= 1.0
            old = self.blocks[b]
            if old.content is not None:
                self.holders[old.content].remove(b)
                if not self.holders[old.content]:
                    del self.holders[old.content]
            self.blocks[b] = Block(
                users=old.users, category=category, access=self.front, life=old.life + 1
            )

    def take(self, count: int) -> list[int]:
        """Pop blocks; they must be the model's victims, and no mistake by the design's rules."""
        expected = []
        for _ in range(count):
            victim = self.victim()
            gone = self.blocks[victim].content
            if self.scored and any(self.blocks[b].content is None for b in self.free):
                assert gone is None
            self.free.remove(victim)
            self.renew([victim], DEFAULT)
            self.blocks[victim].access = self.now
            if gone is not None and gone not in self.holders and not self.forgot:
                assert not any(held[: len(gone)] == gone for held in self.holders)
            expected.append(victim)
        for queue in self.queues:
            assert queue.pop(count, self.now).tolist() == expected
        return expected

    @property
    def scored(self) -> bool:
        return self.orders is not None and self.orders.parameters.trust > 0.0

    def victim(self) -> int:
        """The free block to go next, by the sentences of the design."""
        if not self.scored:
            return self.free[0]
        unhashed = [b for b in self.free if self.blocks[b].category == UNHASHED]
        if unhashed:
            return min(unhashed, key=lambda b: self.blocks[b].access)
        parents = {self.blocks[b].parent for b in self.free}
        leaves = [b for b in self.free if (b, self.blocks[b].life) not in parents]
        oldest: dict[int, int] = {}
        for b in sorted(leaves, key=lambda b: (self.blocks[b].access, -self.blocks[b].depth, b)):
            oldest.setdefault(self.blocks[b].category, b)
        last = oldest.pop(LAST_RESORT, -1)
        return min(oldest.values(), key=self.worth) if oldest else last

    def worth(self, b: int) -> tuple[float, int, int]:
        assert self.orders is not None
        block = self.blocks[b]
        score = log_score(self.orders.laws, block.category, self.now - block.access)
        return score, -block.depth, block.category

    @invariant()
    def agrees(self) -> None:
        """Counts always agree; the first queue is asked for its order at every step."""
        assert {queue.length for queue in self.queues} == {len(self.free)}
        assert self.queues[0].order().tolist() == self.free
        counts = np.bincount([self.blocks[b].category for b in self.free], minlength=FIRST_CATEGORY)
        cached = self.queues[1].cached()
        assert cached.tolist() == [0, *counts[1:]]
        if not self.forgot:
            assert [queue.orphans for queue in self.queues] == [0, 0, 0]

    def teardown(self) -> None:
        """The other queues, asked only now, have the same order."""
        for queue in self.queues[1:]:
            assert queue.order().tolist() == self.free


class ForgetfulEngine(Engine):
    """Also loses contents without an eviction, as a failed transfer or a reset does."""

    @rule(ids=st.lists(st.integers(0, BLOCKS - 1), max_size=4, unique=True))
    def lose(self, ids: list[int]) -> None:
        """Hashed blocks, free or in use, lose their hash."""
        self.forget([b for b in ids if self.blocks[b].content is not None])

    @precondition(lambda self: not self.running)
    @rule()
    def reset(self) -> None:
        """All free blocks do."""
        self.forget(self.free.copy())


@pytest.mark.parametrize("engine", [Engine, ForgetfulEngine])
def test_the_queue_does_what_the_model_says(engine: type[Engine]) -> None:
    """Every victim is the model's, no block is lost or given twice, no prefix goes too early."""
    run_state_machine_as_test(engine, settings=settings(max_examples=100, stateful_step_count=50))


def test_no_block_is_behind_itself(example: Callable[..., ParameterSet]) -> None:
    """A hostile record may name a block twice in a row; it is handed out once all the same."""
    queue = FreeQueue(3, np.empty(0, np.int64))
    queue.obey(orders_of(example()))
    queue.append(np.array([0, 1]), 0.0)
    queue.tag(np.array([2, 2]), 0, np.array([DEFAULT, DEFAULT]), 0.0)
    queue.append(np.array([2]), 1.0)
    assert sorted(queue.pop(3, 2.0)) == [0, 1, 2]
