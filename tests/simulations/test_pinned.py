"""Requests in flight: they queue, hold their blocks, and give every one of them back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer
from typer.testing import CliRunner
from wactl.controller.contest import LRU
from wactl.controller.loop import Loop
from wactl.controller.settings import Settings
from wactl.policies.errors import WactlError
from wactl.simulations import service, sweep
from wactl.simulations.cli.replay import replay
from wactl.simulations.controlled import gated
from wactl.simulations.pinned import Make, PinnedServer, Speeds
from wactl.simulations.service import PinnedCell
from wactl.simulations.trace import Trace
from wactl.simulations.workload import BLOCK_TOKENS, generate

AT_ONCE = Speeds(math.inf, math.inf)
BUSY = Speeds(12_000.0, 20.0)

app = typer.Typer()
app.command()(replay)

TraceOf = Callable[[list[list[int]]], Trace]


@pytest.fixture(scope="module")
def workload() -> Trace:
    """Twenty-five minutes of the made-up workload; outputs of 0 tokens, so that prompts are all."""
    prompts = generate(25.0)
    flat = np.array([block for prompt in prompts for block in prompt.blocks])
    distinct, blocks = np.unique(flat, return_inverse=True)
    return Trace(
        name="workload",
        times=np.array([prompt.time for prompt in prompts]),
        offsets=np.cumsum([0, *(len(prompt.blocks) for prompt in prompts)]),
        blocks=blocks.astype(np.int32),
        distinct=len(distinct),
        input_tokens=np.array([prompt.input_length for prompt in prompts], np.int32),
        output_tokens=np.zeros(len(prompts), np.int32),
        block_tokens=BLOCK_TOKENS,
    )


@pytest.fixture(scope="module")
def answered(workload: Trace) -> Trace:
    """The same with answers of 100 to 300 tokens, which overlap."""
    lengths = np.random.default_rng(1).integers(100, 300, workload.requests)
    return dataclasses.replace(workload, output_tokens=lengths.astype(np.int32))


def tokens(trace: Trace, prompt: Sequence[int], output: Sequence[int], block: int = 10) -> Trace:
    """A trace with these lengths."""
    return dataclasses.replace(
        trace,
        input_tokens=np.array(prompt, np.int32),
        output_tokens=np.array(output, np.int32),
        block_tokens=block,
    )


def served(trace: Trace, capacity: int, speeds: Speeds) -> PinnedServer:
    """A plain server that has served it all."""
    server = PinnedServer(trace, capacity, speeds, None)
    while server.step():
        pass
    return server


@pytest.mark.parametrize("make", [None, partial(gated, Settings())])
def test_no_block_is_lost_and_none_of_a_running_request_taken(
    answered: Trace, make: Make | None
) -> None:
    """At every moment each block is free or used, and holders hold what they were given."""
    capacity = 400
    server = PinnedServer(answered, capacity, BUSY, make)
    memory = server.memory
    given: dict[int, list[int]] = {}
    overlap = 0
    while server.step():
        assert memory.queue.length + memory.used == capacity
        held = {request: slots.tolist() for request, slots in memory.held.items()}
        assert all(held[request] == given.get(request, slots) for request, slots in held.items())
        given = held
        overlap = max(overlap, len(held))
        for request, slots in memory.held.items():
            assert not memory.queue.free[slots].any()
            prompt = answered.prompt(request)
            assert (memory.block_of[slots[: len(prompt)]] == prompt).all()
    assert overlap > 5
    assert memory.evictions > 1000
    assert (memory.used, memory.queue.length) == (0, capacity)
    assert sorted(memory.queue.order().tolist()) == list(range(capacity))
    assert len(server.queued) == answered.requests
    assert server.played().orphans == 0


@pytest.mark.parametrize("capacity", [260, 800, 3000])
def test_requests_that_take_no_time_hit_as_in_the_plain_replay(
    workload: Trace, capacity: int
) -> None:
    """LRU agrees at every single block, in hits and evictions alike."""
    server = served(workload, capacity, AT_ONCE)
    plain = sweep.find("lru").run(workload, capacity)
    assert (server.played().hits == plain.hits).all()
    pinned, free = service.replay(workload, "lru", capacity, AT_ONCE), sweep.replay
    assert pinned.hit_blocks == free(workload, "lru", capacity).hit_blocks > 0
    assert pinned.mean_first_token_seconds == 0.0
    # The plain replay makes room after a request, a server before the next one needs it.
    assert pinned.evictions == plain.evictions


@pytest.mark.parametrize("capacity", [260, 800])
def test_scored_requests_that_take_no_time_hit_nearly_as_in_the_plain_replay(
    workload: Trace, capacity: int
) -> None:
    """Ages differ a little, since room is made by the next request and not by the last."""
    pinned = service.replay(workload, "exponential", capacity, AT_ONCE)
    plain = sweep.replay(workload, "exponential", capacity)
    assert pinned.hit_ratio == pytest.approx(plain.hit_ratio, abs=0.02)
    assert pinned.hit_ratio > service.replay(workload, "lru", capacity, AT_ONCE).hit_ratio


def test_adaptive_is_the_whole_loop(answered: Trace) -> None:
    """Shadows see the requests in flight as the server has them, and its queue obeys the gate."""
    loops: list[Loop] = []

    def make(*sizes: int) -> Loop:
        loops.append(gated(Settings(), *sizes))
        return loops[0]

    server = PinnedServer(answered, 400, BUSY, make)
    orders = []
    while server.step():
        if server.memory.queue.orders is not None:
            trusted = server.memory.queue.orders.parameters.trust > 0.0
            orders.append((trusted, loops[0].gate.running != LRU))
    assert len(loops) == 1
    assert all(obeyed == chosen for obeyed, chosen in orders)
    assert any(chosen for _, chosen in orders)
    assert not loops[0].contest.users.any(), "shadows hold what nobody runs any more"
    # Answers take a quarter of the room, which shadows have not: the engine hits less than they.
    assert loops[0].contest.offset.points > 0.01
    assert loops[0].gate.falls <= 1
    assert loops[0].gate.running != LRU


def test_a_smaller_cache_queues_more_and_hits_bring_the_first_token_forward(
    answered: Trace,
) -> None:
    """Over capacities and policies, who hits more waits less."""
    capacities = (400, 800, 1600, 3200)
    cells = [service.replay(answered, "lru", capacity, BUSY) for capacity in capacities]
    queueing = [cell.mean_queue_seconds for cell in cells]
    assert queueing == sorted(queueing, reverse=True)
    assert queueing[0] > 2 * queueing[-1]
    cells.append(service.replay(answered, "exponential", 800, BUSY))
    cells.sort(key=lambda cell: cell.hit_ratio)
    waits = [cell.mean_first_token_seconds for cell in cells]
    assert waits == sorted(waits, reverse=True)
    assert all(c.mean_first_token_seconds > c.mean_queue_seconds for c in cells)
    assert all(c.p95_first_token_seconds > c.mean_first_token_seconds for c in cells)


def test_prompts_are_computed_one_after_the_other(trace_of: TraceOf) -> None:
    """The second waits for the first one's prefill, not for its answer, and hits its block."""
    trace = tokens(trace_of([[1, 2], [1, 3]]), [20, 20], [11, 1])
    server = served(trace, 100, Speeds(prefill=10.0, decode=1.0))
    assert server.queued == [0.0, 1.0]
    assert server.first_token == [2.0, 2.0]
    assert server.played().hits.tolist() == [0, 0, 1, 0]


def test_a_request_waits_for_the_room_of_a_running_one(trace_of: TraceOf) -> None:
    """Two prompt blocks and one of output each: four are too few for both at once."""
    trace = tokens(trace_of([[1, 2], [3, 4]]), [20, 20], [5, 5])
    speeds = Speeds(prefill=10.0, decode=1.0)
    assert served(trace, 6, speeds).queued == [0.0, 1.0]
    assert served(trace, 4, speeds).queued == [0.0, 5.0]


def test_who_waits_at_the_head_is_not_overtaken(trace_of: TraceOf) -> None:
    """The third would fit at once, but is behind the second, which does not."""
    trace = tokens(trace_of([[1, 2, 3], [4, 5], [6]]), [30, 20, 10], [9, 0, 0])
    assert served(trace, 4, Speeds(prefill=1000.0, decode=1.0)).queued == pytest.approx(
        [0.0, 7.03, 6.05]
    )


def test_a_prompt_that_is_cached_whole_still_computes_a_token(trace_of: TraceOf) -> None:
    """As in vLLM, somebody has to give the first one."""
    trace = tokens(trace_of([[1], [1]]), [10, 10], [1, 1])
    assert served(trace, 4, Speeds(prefill=20.0)).first_token == pytest.approx([0.5, 0.05])


def test_output_goes_first_and_cannot_be_hit(trace_of: TraceOf) -> None:
    """Its three blocks make room for the next request before any prompt's does."""
    trace = tokens(trace_of([[1], [2], [1]]), [10, 10, 10], [30, 30, 30])
    server = served(trace, 5, AT_ONCE)
    assert server.played().hits.tolist() == [0, 0, 1]
    assert server.memory.evictions == 0


def test_a_request_bigger_than_the_cache_is_rejected(trace_of: TraceOf) -> None:
    """It is counted, hits nothing, and does not hold up the others."""
    trace = tokens(trace_of([[1], [1, 2], [1]]), [10, 20, 10], [10, 15, 10])
    cell = service.replay(trace, "lru", 3, AT_ONCE)
    assert (cell.rejected, cell.requests, cell.hit_blocks) == (1, 3, 1)
    everything = service.replay(trace, "lru", 1, AT_ONCE)
    assert (everything.rejected, everything.mean_first_token_seconds) == (3, 0.0)


def test_tokens_of_a_block_are_derived_if_the_trace_does_not_say(trace_of: TraceOf) -> None:
    """From all prompts together: 40 tokens in 4 blocks make an output of 20 two blocks more."""
    rows = [[1, 2, 3], [4]]
    known = tokens(trace_of(rows), [30, 10], [20, 20])
    unknown = tokens(trace_of(rows), [30, 10], [20, 20], block=0)
    for capacity, rejected in ((5, 0), (4, 1)):
        assert served(known, capacity, AT_ONCE).rejected == rejected
        assert served(unknown, capacity, AT_ONCE).rejected == rejected
    # Without any lengths a block is a token, and a request as big as its prompt.
    assert served(tokens(trace_of(rows), [0, 0], [0, 0], 0), 3, AT_ONCE).rejected == 0


def test_every_replay_is_the_same_also_on_many_cores(answered: Trace) -> None:
    """Two sweeps agree in everything but how long they took."""

    def cells() -> list[PinnedCell]:
        found = sweep.sweep([answered], ["lru", "adaptive"], lambda _: [400, 800], _busy)
        return sorted(
            (msgspec.structs.replace(cell, seconds=0.0) for cell in found),
            key=lambda cell: (cell.policy, cell.capacity),
        )

    first = cells()
    assert len(first) == 4
    assert first == cells()


def _busy(trace: Trace, policy: str, capacity: int) -> PinnedCell:
    return service.replay(trace, policy, capacity, BUSY)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_speeds_are_more_than_nothing(speed: float) -> None:
    """Otherwise nothing would ever be done."""
    with pytest.raises(WactlError, match="more than 0 tokens"):
        Speeds(prefill=speed)
    with pytest.raises(WactlError, match="more than 0 tokens"):
        Speeds(decode=speed)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A small trace on disk."""
    row = {"timestamp": 0, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({**row, "timestamp": 1000 * n}) + "\n" for n in range(3)))
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pin", "--policy", "lru,belady"], "policies lru, .*adaptive, but not 'belady'"),
        (["--prefill", "100"], "--prefill needs --pin"),
        (["--decode", "100"], "--decode needs --pin"),
        (["--pin", "--decode", "0"], "more than 0 tokens"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    file: str, arguments: list[str], message: str
) -> None:
    """Before anything is read."""
    result = CliRunner().invoke(app, [file, *arguments])
    assert isinstance(result.exception, WactlError)
    assert "\n" not in str(result.exception)
    with pytest.raises(WactlError, match=message):
        raise result.exception


def test_the_command_prints_a_table_or_json(file: str) -> None:
    """With the times as well, in both."""
    arguments = [file, "--pin", "--policy", "lru", "--capacity", "4", "--prefill", "600"]
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 0
    assert "first token" in table.output
    (cell,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert list(cell)[-5:] == [
        "seconds",
        "mean_queue_seconds",
        "mean_first_token_seconds",
        "p95_first_token_seconds",
        "rejected",
    ]
    assert cell["hit_blocks"] == 4
    assert cell["mean_first_token_seconds"] == pytest.approx((1.0 + 2 / 600) / 3)
