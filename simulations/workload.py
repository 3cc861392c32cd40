"""A made-up workload that ships with the project: chats, agents and one-off documents.

Its parts differ in what production differs in. Chats come back after a minute, agents after
seconds, documents never, and the documents are most of the traffic: under LRU they push out
the conversations that are about to continue.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .readers.numbering import number
from .trace import Trace
from .traces import Prompt

BLOCK_TOKENS = 32
"""Tokens of a block of this workload."""


@dataclass(frozen=True)
class Kind:
    """A kind of conversation; times in seconds, sizes in blocks, all but the first are means."""

    system: int  # blocks of a system prompt shared by all of this kind
    sessions_per_minute: float
    opening: int
    growth: int  # blocks a turn adds
    turns: float
    pause: float


KINDS = {
    "chat": Kind(system=8, sessions_per_minute=9, opening=4, growth=8, turns=6, pause=60.0),
    "agent": Kind(system=24, sessions_per_minute=2, opening=8, growth=6, turns=14, pause=6.0),
    "document": Kind(system=2, sessions_per_minute=55, opening=24, growth=1, turns=1, pause=1.0),
}


def generate(minutes: float, seed: int = 7, traffic: float = 1.0) -> list[Prompt]:
    """Prompts of ``minutes`` of traffic in time order, the same for the same seed.

    There are ``traffic`` times as many conversations as `KINDS` says.
    """
    rng = random.Random(seed)
    fresh = iter(range(1, 1 << 62))
    prompts: list[Prompt] = []
    for kind in KINDS.values():
        system = [next(fresh) for _ in range(kind.system)]
        start, rate = 0.0, traffic * kind.sessions_per_minute / 60.0
        while (start := start + rng.expovariate(rate)) < 60.0 * minutes:
            prompts += _session(kind, system, start, fresh, rng)
    return sorted(
        (prompt for prompt in prompts if prompt.time < 60.0 * minutes),
        key=lambda prompt: prompt.time,
    )


def trace_of(prompts: Sequence[Prompt], name: str) -> Trace:
    """Prompts of this workload, in time order and at least one, as a trace for replays.

    Its digest is over whole microseconds, so that a last bit of a logarithm that is rounded
    differently on another machine does not make it another trace.
    """
    times = np.array([prompt.time for prompt in prompts])
    offsets = np.cumsum([0, *(len(prompt.blocks) for prompt in prompts)])
    ids = itertools.chain.from_iterable(prompt.blocks for prompt in prompts)
    blocks, distinct = number(np.fromiter(ids, np.uint64), offsets)
    columns = (np.rint(1e6 * times).astype("<i8"), offsets.astype("<i8"), blocks.astype("<i4"))
    return Trace(
        name=name,
        times=times - times[0],
        offsets=offsets,
        blocks=blocks,
        distinct=distinct,
        input_tokens=np.array([prompt.input_length for prompt in prompts], np.int32),
        output_tokens=np.array([prompt.output_length for prompt in prompts], np.int32),
        block_tokens=BLOCK_TOKENS,
        digest=hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest(),
    )


def _session(
    kind: Kind, system: list[int], start: float, fresh: Iterator[int], rng: random.Random
) -> Iterator[Prompt]:
    turns = 1 + int(rng.expovariate(1.0 / kind.turns) if kind.turns > 1 else 0)
    blocks = system + [next(fresh) for _ in range(rng.randint(1, 2 * kind.opening - 1))]
    time = start
    for _ in range(turns):
        yield Prompt(time, tuple(blocks), len(blocks) * BLOCK_TOKENS, 1)
        time += rng.expovariate(1.0 / kind.pause)
        blocks += [next(fresh) for _ in range(rng.randint(1, 2 * kind.growth - 1))]
