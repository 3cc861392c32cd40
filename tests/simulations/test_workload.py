"""The made-up workload: the same every time, in order, and built of conversations."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from wactl.simulations.traces import Prompt
from wactl.simulations.workload import BLOCK_TOKENS, KINDS, generate


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    """Half an hour of it."""
    return generate(30.0)


def test_the_same_seed_gives_the_same_prompts(prompts: list[Prompt]) -> None:
    """Two runs agree to the last block, and another seed gives others."""
    assert generate(30.0) == prompts
    assert generate(30.0, seed=8) != prompts


def test_prompts_are_in_time_order_and_within_the_time(prompts: list[Prompt]) -> None:
    """Times grow from 0 and end before the half hour does."""
    times = [prompt.time for prompt in prompts]
    assert times == sorted(times)
    assert times[0] >= 0.0
    assert 1700 < times[-1] < 1800


@pytest.fixture(scope="module")
def sessions(prompts: list[Prompt]) -> list[list[Prompt]]:
    """The prompts by conversation: those that share more than their kind's system prompt."""
    found = []
    for kind in _grouped(prompts, 0):
        shared = _shared(kind)
        found += _grouped(kind, shared)
    return found


def _shared(prompts: list[Prompt]) -> int:
    """How many leading blocks all of them have in common."""
    columns = zip(*(prompt.blocks for prompt in prompts), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))


def _grouped(prompts: list[Prompt], at: int) -> list[list[Prompt]]:
    groups: dict[int, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        groups[prompt.blocks[at]].append(prompt)
    return list(groups.values())


def test_the_kinds_have_system_prompts_of_their_own(prompts: list[Prompt]) -> None:
    """All requests of a kind begin alike, for as many blocks as its system prompt has."""
    shared = [_shared(kind) for kind in _grouped(prompts, 0)]
    assert sorted(shared) == sorted(kind.system for kind in KINDS.values())


def test_a_turn_extends_the_turn_before(sessions: list[list[Prompt]]) -> None:
    """A later prompt of a session begins with all of the one before, and adds to it."""
    for turns in sessions:
        for before, after in itertools.pairwise(turns):
            assert before.time < after.time
            assert len(before.blocks) < len(after.blocks)
            assert after.blocks[: len(before.blocks)] == before.blocks


def test_most_requests_never_come_back_and_some_often(sessions: list[list[Prompt]]) -> None:
    """More than half of the sessions are one request, and the longest have many turns."""
    lengths = [len(turns) for turns in sessions]
    assert max(lengths) > 10
    assert lengths.count(1) > len(lengths) / 2


def test_lengths_are_those_of_the_blocks(prompts: list[Prompt]) -> None:
    """A prompt has whole blocks, no block twice, and asks for one token."""
    for prompt in prompts:
        assert prompt.input_length == len(prompt.blocks) * BLOCK_TOKENS
        assert len(set(prompt.blocks)) == len(prompt.blocks)
        assert prompt.output_length == 1


def test_only_system_prompts_are_shared_between_sessions(prompts: list[Prompt]) -> None:
    """A block stands at one place and follows one block, wherever it is seen."""
    before: dict[int, int] = {}
    for prompt in prompts:
        for parent, block in zip((0, *prompt.blocks), prompt.blocks, strict=False):
            assert before.setdefault(block, parent) == parent
