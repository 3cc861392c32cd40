"""Serve a trace with wactl's agent on vLLM's cache manager, and keep what its queue was asked."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...controller.mixture import TIMES
from ...policies.blocks import Ids
from ...policies.features import TYPE, digest
from ...policies.intake import Intake
from ...policies.messages import WIRE, Push, encode
from ...policies.parameters import Law, ParameterSet, Score
from ...policies.table import MAX_RULES, Condition, DecisionTable, Rule
from ..trace import Trace
from .errors import BenchError
from .tape import Kind, Tape, Taped
from .traffic import BLOCK_TOKENS, TURNOVER, Moment, Service

REPEATED = 30.0
"""Seconds after which the sidecar sends its parameters again."""


def parameters(categories: int, seed: int = 7) -> ParameterSet:
    """Laws for so many categories, one for each word a client may call its requests by.

    Each is a mixture of six exponentials, as fitted by default. Raises `BenchError`.
    """
    if not 1 <= categories <= MAX_RULES:
        raise BenchError(f"{categories} categories; there can be from 1 to {MAX_RULES}")
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(len(TIMES)), categories + 1)
    reused = rng.uniform(0.1, 0.95, (categories + 1, 1))
    rates = tuple((1.0 / TIMES).tolist())
    laws = [Law(tuple(row), rates, 1e4) for row in (weights * reused).tolist()]
    words = [digest(f"kind {i}") for i in range(categories)]
    rules = tuple(Rule(f"kind {i}", (Condition(TYPE, w, w),), -1 - i) for i, w in enumerate(words))
    table = DecisionTable(1, categories, rules, ())
    return ParameterSet(1, 60.0, 1.0, Score.HAZARD, 60.0, laws[0], tuple(laws[1:]), table)


def push(intake: Intake, orders: ParameterSet, now: float) -> None:
    """The sidecar's parameters arrive, for the first time or again."""
    ack = intake.consider(encode(Push(WIRE, orders)), now)
    if not ack.accepted:
        raise BenchError(f"the engine's side refused the bench's parameters: {ack.reason}")


def record(trace: Trace, blocks: int, orders: ParameterSet | None, requests: int) -> Tape:
    """The operations of a cache of ``blocks`` blocks: until it is warm, then ``requests`` more.

    With ``orders`` wactl's order is in force, without vLLM's. Raises `BenchError` if the trace
    ends too early.
    """
    from ...policies.vllm.agent import Agent
    from ...policies.vllm.bare import BareEngine

    engine, moment, tape = BareEngine(blocks, BLOCK_TOKENS), Moment(), Tape(blocks)
    service = Service(engine, trace, len(orders.laws) if orders else 0, moment)
    last, pushed = math.inf, -math.inf
    with tempfile.TemporaryDirectory(prefix="wactl-bench-", dir="/tmp") as folder:
        agent = Agent(engine.manager, 0, Path(folder), moment.read)
        try:
            _listen(agent, tape, moment)
            for _ in service.run():
                if service.admitted >= last:
                    break
                if last == math.inf and agent.queue.core.evicted >= TURNOVER * blocks:
                    tape.start, last = len(tape), service.admitted + requests
                if orders is not None and moment.now - pushed >= REPEATED:
                    pushed = moment.now
                    push(agent.intake, orders, pushed)
                    tape.note(Kind.PUSH, pushed, ())
            if agent.errors:
                raise BenchError(f"the agent failed: {agent.failure}")
        finally:
            agent.close()
    if service.admitted < last:
        raise BenchError(
            f"{trace.name} is too short for a cache of {blocks} blocks: of its {trace.requests} "
            f"requests {service.admitted} were admitted; name smaller caches with --blocks"
        )
    return tape


def _listen(agent: Any, tape: Tape, moment: Moment) -> None:
    agent.pool.free_block_queue = Taped(agent.queue, tape, moment.read)
    tag = agent.queue.core.tag

    def taped(ids: Ids, carried: int, categories: Ids, accessed: float) -> None:
        tape.tags[len(tape)] = (carried, categories, accessed)
        tape.note(Kind.TAG, moment.now, ids.tolist())
        tag(ids, carried, categories, accessed)

    agent.queue.core.tag = taped
