"""The tape: both queues are asked the same, and hand out as many blocks."""

from __future__ import annotations

import pytest
from wactl.simulations.bench.errors import BenchError
from wactl.simulations.bench.players import OurPlayer, Player, stock_player
from wactl.simulations.bench.record import parameters, push, record
from wactl.simulations.bench.tape import Kind, Tape, cast
from wactl.simulations.bench.traffic import TURNOVER, made_up

BLOCKS = 600
REQUESTS = 60


@pytest.fixture(scope="module", params=[0, 5], ids=["stock order", "5 categories"])
def taped(request: pytest.FixtureRequest) -> tuple[Tape, int]:
    """What a small cache did, and under how many categories."""
    orders = parameters(request.param) if request.param else None
    return record(made_up(BLOCKS, REQUESTS), BLOCKS, orders, REQUESTS), request.param


def player_of(tape: Tape, categories: int) -> OurPlayer:
    """wactl's queue for a tape."""
    return OurPlayer(tape, parameters(categories) if categories else None)


def test_it_holds_what_the_scheduler_asked(taped: tuple[Tape, int]) -> None:
    """All kinds of operations are there, first to fill the cache and then to be measured."""
    tape, categories = taped
    kinds = {kind for kind, _ in tape}
    assert kinds == {*Kind} - (set() if categories else {Kind.PUSH})
    assert 0 < tape.start < len(tape)
    sizes = tape.sizes()
    popped = sum(size for size, kind in zip(sizes, tape.kinds, strict=True) if kind == Kind.POP)
    assert popped > TURNOVER * BLOCKS
    ones = [ids for kind, ids in tape if kind is Kind.POP and len(ids) == 1]
    assert len(ones) > REQUESTS, "what is generated takes its blocks one at a time"


def test_vllms_queue_can_do_all_of_it(taped: tuple[Tape, int]) -> None:
    """With the parts exchanged, what is taken is free and what is given back is not."""
    tape, _ = taped
    free = set(range(1, BLOCKS))
    ids = cast(tape)
    assert len(ids) == len(tape.ids)
    for index, kind in enumerate(tape.kinds):
        named = set(ids[tape.ends[index] : tape.ends[index + 1]])
        assert len(named) == tape.ends[index + 1] - tape.ends[index]
        if kind in (Kind.POP, Kind.REMOVE):
            assert named <= free
            free -= named
        elif kind in (Kind.APPEND, Kind.PREPEND):
            assert not named & free
            free |= named


def test_in_the_stock_order_both_hand_out_the_same_blocks(taped: tuple[Tape, int]) -> None:
    """Nothing is exchanged without parameters; with them, what is handed out differs."""
    tape, categories = taped
    assert (cast(tape) == tape.ids) is (categories == 0)


def test_both_hand_out_what_was_recorded(taped: tuple[Tape, int]) -> None:
    """Played from the start, each queue hands out the blocks of its own list, all along."""
    tape, categories = taped
    players: list[Player] = [stock_player(tape, cast(tape)), player_of(tape, categories)]
    for player in players:
        player.play(0, len(tape))
    assert players[0].queue.num_free_blocks == players[1].queue.num_free_blocks


def test_a_player_says_when_other_blocks_are_handed_out(taped: tuple[Tape, int]) -> None:
    """The check above can fail: a queue that plays another's list is found out."""
    tape, _ = taped
    backwards = stock_player(tape, [tape.blocks - i for i in tape.ids])
    with pytest.raises(AssertionError):
        backwards.play(0, len(tape))


def test_what_cannot_be_measured_is_refused() -> None:
    """Too many categories, a trace too short, parameters the engine would refuse."""
    with pytest.raises(BenchError, match="from 1 to 64"):
        parameters(65)
    with pytest.raises(BenchError, match="too short for a cache of 100000 blocks"):
        record(made_up(BLOCKS, 20), 100_000, None, 20)
    player = player_of(Tape(8), 1)
    push(player._intake, parameters(2), 0.0)
    with pytest.raises(BenchError, match="refused"):
        push(player._intake, parameters(1), 0.0)
