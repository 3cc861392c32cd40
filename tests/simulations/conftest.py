"""Traces made up by a test."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from wactl.simulations.trace import Trace

# A first call may compile a kernel, whatever deadline there is.
settings.register_profile("wactl", deadline=None)
settings.load_profile("wactl")


CHATS = 40
TURNS = 6
PAUSE = 20.0
DOCUMENTS = 200
SECONDS = 900.0


@pytest.fixture(scope="session")
def trace_of() -> Callable[[list[list[int]]], Trace]:
    """A trace of requests a second apart for these blocks, which it numbers densely."""

    def make(rows: list[list[int]]) -> Trace:
        flat = np.array([block for row in rows for block in row], np.int64)
        distinct, blocks = np.unique(flat, return_inverse=True)
        none = np.zeros(len(rows), np.int32)
        return Trace(
            name="test",
            times=np.arange(len(rows), dtype=np.float64),
            offsets=np.cumsum([0, *map(len, rows)]),
            blocks=blocks.astype(np.int32),
            distinct=len(distinct),
            input_tokens=none,
            output_tokens=none,
        )

    return make


@pytest.fixture(scope="session")
def chats() -> Trace:
    """A quarter of an hour of chats that come back, and of documents that do not.

    Requests of two types; each turn of a chat is longer than the one before.
    """
    rng = random.Random(5)
    rows: list[tuple[float, str, str, list[tuple[str, int]]]] = []
    for chat in range(CHATS):
        time = rng.uniform(0.0, SECONDS - 2 * PAUSE * TURNS)
        for turn in range(1, TURNS + 1):
            blocks = [(f"chat {chat}", block) for block in range(3 * turn)]
            rows.append((time, "chat", f"chat {chat}", blocks))
            time += rng.expovariate(1.0 / PAUSE)
    for document in range(DOCUMENTS):
        name = f"document {document}"
        time = rng.uniform(0.0, SECONDS)
        rows.append((time, "document", name, [(name, block) for block in range(8)]))
    rows.sort()
    numbers: dict[tuple[str, int], int] = {}
    blocks = [numbers.setdefault(block, len(numbers)) for row in rows for block in row[3]]
    lengths = [len(row[3]) for row in rows]
    return Trace(
        name="chats",
        times=np.array([row[0] - rows[0][0] for row in rows]),
        offsets=np.cumsum([0, *lengths]),
        blocks=np.array(blocks, np.int32),
        distinct=len(numbers),
        input_tokens=np.array([16 * length for length in lengths], np.int32),
        output_tokens=np.full(len(rows), 40, np.int32),
        types=[row[1] for row in rows],
        sessions=[row[2] for row in rows],
        block_tokens=16,
    )
