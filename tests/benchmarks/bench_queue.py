"""Both queues of free blocks on the operations of one recorded cache, in milliseconds a round."""

from __future__ import annotations

from typing import Any

import pytest
from wactl.policies.vllm.warmup import warm_up
from wactl.simulations.bench.players import OurPlayer, Player, Step, stock_player
from wactl.simulations.bench.record import parameters, record
from wactl.simulations.bench.tape import Tape, cast
from wactl.simulations.bench.traffic import made_up

BLOCKS = 20_000
REQUESTS = 500
ROUNDS = 7


@pytest.fixture(scope="module", params=[0, 8, 64], ids=lambda n: f"{n} categories")
def taped(request: pytest.FixtureRequest) -> tuple[Tape, int]:
    """What a cache did; 0 categories is vLLM's own order."""
    warm_up()
    orders = parameters(request.param) if request.param else None
    return record(made_up(BLOCKS, REQUESTS), BLOCKS, orders, REQUESTS), request.param


@pytest.mark.parametrize("queue", ["stock", "wactl"])
def test_queue(benchmark: Any, taped: tuple[Tape, int], queue: str) -> None:
    """All measured operations once, from the same state each round."""
    tape, categories = taped
    ids = cast(tape)
    orders = parameters(categories) if categories else None

    def prepare() -> tuple[tuple[list[Step], Player], dict[str, Any]]:
        player = OurPlayer(tape, orders) if queue == "wactl" else stock_player(tape, ids)
        player.play(0, tape.start)
        return (player.steps(tape.start, len(tape)), player), {}

    benchmark.pedantic(play, setup=prepare, rounds=ROUNDS)


def play(steps: list[Step], player: Player) -> None:
    """What is timed."""
    moment = player.moment
    for call, argument, now in steps:
        moment.now = now
        call(argument)
