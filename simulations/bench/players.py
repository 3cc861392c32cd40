"""The two queues of free blocks a tape is played to: vLLM's own, and wactl's in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...policies.intake import Intake
from ...policies.parameters import ParameterSet
from .record import push
from .tape import Kind, Tape
from .traffic import Moment

Step = tuple[Callable[[Any], Any], Any, float]
"""What is called, its argument, and when."""


class Player:
    """Turns the operations of a tape into calls on ``queue``, which holds ``blocks``.

    ``ids`` are the tape's for this queue.
    """

    def __init__(self, tape: Tape, ids: Sequence[int], blocks: Any, queue: Any) -> None:
        self.tape = tape
        self.ids = ids
        self.blocks = blocks
        self.queue = queue
        self.moment = Moment()

    def steps(self, first: int, last: int) -> list[Step]:
        """The calls of operations ``first`` to ``last``, less those that are not the queue's."""
        calls: dict[Kind, Callable[[Any], Any]] = {
            Kind.POP: self.queue.popleft_n,
            Kind.REMOVE: self._remove,
            Kind.APPEND: self.queue.append_n,
            Kind.PREPEND: self.queue.prepend_n,
        }
        steps: list[Step] = []
        ends, blocks, ids = self.tape.ends, self.blocks, self.ids
        for index in range(first, last):
            kind, now = Kind(self.tape.kinds[index]), self.tape.times[index]
            named = ids[ends[index] : ends[index + 1]]
            if kind in calls:
                argument = len(named) if kind is Kind.POP else [blocks[i] for i in named]
                steps.append((calls[kind], argument, now))
            else:
                steps.append(self.own(kind, index, named, now))
        return steps

    def own(self, kind: Kind, index: int, named: Sequence[int], now: float) -> Step:
        """The step of an operation that vLLM does not know."""
        return _nothing, None, now

    def play(self, first: int, last: int) -> None:
        """Do operations ``first`` to ``last`` and check that the tape's blocks are handed out.

        Raises AssertionError if others are.
        """
        for index in range(first, last):
            ((call, argument, now),) = self.steps(index, index + 1)
            self.moment.now = now
            result = call(argument)
            if self.tape.kinds[index] == Kind.POP:
                expected = self.ids[self.tape.ends[index] : self.tape.ends[index + 1]]
                assert [block.block_id for block in result] == [*expected]

    def _remove(self, blocks: Any) -> None:
        # vLLM's BlockPool.touch has this loop.
        remove = self.queue.remove
        for block in blocks:
            remove(block)


def stock_player(tape: Tape, ids: Sequence[int]) -> Player:
    """vLLM's own queue."""
    from ...policies.vllm.bare import stock_queue

    blocks, queue = stock_queue(tape.blocks)
    queue.popleft()  # the null block
    return Player(tape, ids, blocks, queue)


class OurPlayer(Player):
    """wactl's queue as the agent puts it in, with what the agent does around it."""

    def __init__(self, tape: Tape, orders: ParameterSet | None) -> None:
        from ...policies.vllm.bare import stock_queue
        from ...policies.vllm.queue import WactlQueue

        blocks, stock = stock_queue(tape.blocks)
        stock.popleft()
        moment = Moment()
        queue = WactlQueue(stock, blocks, moment.read, self._obey, _fail)
        super().__init__(tape, tape.ids, blocks, queue)
        self.moment = moment
        self._orders = orders
        self._intake = Intake()

    def own(self, kind: Kind, index: int, named: Sequence[int], now: float) -> Step:
        """Tagging, as in `Agent`, and the arrival of parameters."""
        if kind is Kind.PUSH:
            return self._push, None, now
        return self._tag, ([self.blocks[i] for i in named], *self.tape.tags[index]), now

    def _obey(self, now: float) -> None:
        orders = self._intake.in_force(now)
        if orders is not self.queue.core.orders:
            self.queue.core.obey(orders)

    def _tag(self, argument: Any) -> None:
        blocks, carried, categories, accessed = argument
        ids = np.array([block.block_id for block in blocks], np.int64)
        self.queue.core.tag(ids, carried, categories, accessed)

    def _push(self, _: None) -> None:
        assert self._orders is not None
        push(self._intake, self._orders, self.moment.now)


def _nothing(_: Any) -> None:
    """vLLM knows no tags."""


def _fail(error: Exception, stock: Any) -> None:
    raise error
