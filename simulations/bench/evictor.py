"""What the queue of free blocks costs: wactl's against vLLM's own, operation by operation.

The operations are those of a real `KVCacheManager` that serves a trace with wactl's agent on
it, in the order named (`record`). The very same list is then played to both queues, in turns
of a thousand operations, in one process. Nothing else is in the times: neither the table of
hashes, nor the reference counts, nor the requests, which vLLM keeps in either case.

Under parameters the two queues hand out different blocks. So that both can still do the same,
the list names blocks by their part: where one queue hands out a block and the other another,
the two exchange their parts from there on (`tape.cast`). Both queues are asked for as many
blocks, given back as many and relieved of as many in the middle, at the same moments; wactl's
decides on just the chains and categories it decided on when it was recorded. What stays out of
the account is the other half of the matter: that wactl's order leaves more hits, thus more to
take out of the middle and less to hand out, than vLLM's would.

Python's garbage collector is on, after the engine's own habit: what exists when serving begins
is frozen. Whatever it collects meanwhile is in the times and is named as well.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...policies.parameters import ParameterSet
from ..trace import Trace
from .players import OurPlayer, Step, stock_player
from .record import parameters, record
from .tape import Kind, Tape, cast
from .traffic import Moment, made_up

REQUESTS = 1500
"""Requests whose operations are measured."""
TURN = 1000
"""Operations that one queue does before it is the other's turn."""

Times = NDArray[np.int64]


class Side(msgspec.Struct, frozen=True):
    """One queue; microseconds, the clock's own cost taken off."""

    total_ms: float
    """All operations together: the median of the repeats."""
    us_per_evicted: float
    """For each block handed out, the median of the repeats."""
    us_per_freed: float
    """For each block given back."""
    us_per_hit: float
    """For each block taken out of the middle."""
    p999_us: float
    """Of the single operations of all repeats."""
    worst_us: float
    """The dearest operation, each counted at the least it took in any repeat."""
    worst_seen_us: float
    """The dearest operation of any repeat, whatever else the machine did meanwhile."""
    collections: int
    """Of the garbage collector, in all repeats."""


class Cell(msgspec.Struct, frozen=True):
    """A cache size and a number of categories; 0 is vLLM's order, with no parameters in force."""

    trace: str
    blocks: int
    categories: int
    operations: int
    evicted: int
    """Blocks handed out."""
    freed: int
    """Blocks given back."""
    hit: int
    """Blocks taken out of the middle."""
    tagged: int
    repeats: int
    ratio: float
    """Time of wactl's queue over time of vLLM's: the median of the repeats."""
    ratio_low: float
    ratio_high: float
    ratio_with_tags: float
    """The same with wactl's tagging of blocks, which vLLM does not have."""
    tag_us_per_request: float
    stock: Side
    ours: Side


def measure(
    blocks: int,
    categories: int,
    repeats: int,
    trace: Trace | None = None,
    requests: int = REQUESTS,
) -> Cell:
    """Record and play one cell. Raises `BenchError`."""
    trace = trace or made_up(blocks, requests)
    orders = parameters(categories) if categories else None
    tape = record(trace, blocks, orders, requests)
    cast_ids = cast(tape)
    played = [_repeat(tape, cast_ids, orders) for _ in range(repeats)]
    return _cell(trace.name, categories, tape, played)


def _repeat(
    tape: Tape, cast_ids: Any, orders: ParameterSet | None
) -> tuple[Times, Times, tuple[int, int]]:
    """Nanoseconds of each measured operation for vLLM's queue and wactl's; collections."""
    players = (stock_player(tape, cast_ids), OurPlayer(tape, orders))
    for player in players:
        player.play(0, tape.start)
    starts = range(tape.start, len(tape), TURN)
    turns = [
        (side, player.moment, player.steps(first, min(first + TURN, len(tape))))
        for first in starts
        for side, player in enumerate(players)
    ]
    taken: tuple[list[int], list[int]] = ([], [])
    collections = [0, 0]
    with _frozen() as visits:
        for side, moment, steps in turns:
            before = len(visits)
            taken[side].extend(_times(steps, moment))
            collections[side] += len(visits) - before
    return np.array(taken[0]), np.array(taken[1]), (collections[0], collections[1])


def _times(steps: list[Step], moment: Moment) -> list[int]:
    """Nanoseconds of each step, its own look at the clock included."""
    clock = time.perf_counter_ns
    taken = []
    for call, argument, now in steps:
        moment.now = now
        start = clock()
        call(argument)
        taken.append(clock() - start)
    return taken


@contextmanager
def _frozen() -> Iterator[list[int]]:
    """What there is stays out of the garbage collector's sight; yields its later visits."""
    visits: list[int] = []

    def visit(phase: str, details: dict[str, int]) -> None:
        if phase == "start":
            visits.append(details["generation"])

    gc.collect()
    gc.freeze()
    gc.callbacks.append(visit)
    try:
        yield visits
    finally:
        gc.callbacks.remove(visit)
        gc.unfreeze()


def clock_cost() -> int:
    """Nanoseconds between two looks at the clock with nothing between them."""
    clock = time.perf_counter_ns
    looks = []
    for _ in range(10_000):
        start = clock()
        looks.append(clock() - start)
    return int(np.median(looks))


def _cell(
    name: str, categories: int, tape: Tape, played: list[tuple[Times, Times, tuple[int, int]]]
) -> Cell:
    cost = clock_cost()
    kinds = np.frombuffer(bytes(tape.kinds[tape.start :]), np.uint8)
    sizes = tape.sizes()[tape.start :]
    blocks = {kind: int(sizes[kinds == kind].sum()) for kind in Kind}
    stock, ours = (
        np.maximum(0, np.array([repeat[side] for repeat in played]) - cost) for side in (0, 1)
    )
    shared = kinds < Kind.TAG
    ratios = ours[:, shared].sum(axis=1) / stock[:, shared].sum(axis=1)
    tags = ours[:, kinds == Kind.TAG].sum(axis=1)
    with_tags = (ours[:, shared].sum(axis=1) + tags) / stock[:, shared].sum(axis=1)
    tag_operations = max(1, int(np.sum(kinds == Kind.TAG)))
    sides = [
        _side(times, kinds, blocks, sum(repeat[2][side] for repeat in played))
        for side, times in enumerate((stock, ours))
    ]
    return Cell(
        trace=name,
        blocks=tape.blocks,
        categories=categories,
        operations=int(shared.sum()),
        evicted=blocks[Kind.POP],
        freed=blocks[Kind.APPEND] + blocks[Kind.PREPEND],
        hit=blocks[Kind.REMOVE],
        tagged=blocks[Kind.TAG],
        repeats=len(played),
        ratio=float(np.median(ratios)),
        ratio_low=float(ratios.min()),
        ratio_high=float(ratios.max()),
        ratio_with_tags=float(np.median(with_tags)),
        tag_us_per_request=float(np.median(tags)) / 1e3 / tag_operations,
        stock=sides[0],
        ours=sides[1],
    )


def _side(
    times: NDArray[np.int64], kinds: NDArray[np.uint8], blocks: dict[Kind, int], collections: int
) -> Side:
    def per_block(*of: Kind) -> float:
        spent = np.median(times[:, np.isin(kinds, of)].sum(axis=1))
        return float(spent) / 1e3 / max(1, sum(blocks[kind] for kind in of))

    shared = times[:, kinds < Kind.TAG]
    return Side(
        total_ms=float(np.median(shared.sum(axis=1))) / 1e6,
        us_per_evicted=per_block(Kind.POP),
        us_per_freed=per_block(Kind.APPEND, Kind.PREPEND),
        us_per_hit=per_block(Kind.REMOVE),
        p999_us=float(np.quantile(shared, 0.999)) / 1e3,
        worst_us=float(shared.min(axis=0).max()) / 1e3,
        worst_seen_us=float(shared.max()) / 1e3,
        collections=collections,
    )
