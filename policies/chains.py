"""What a request continues, inferred from block hashes alone.

A bounded index of the blocks seen lately remembers when each was touched, in which turn, and
how long that prompt was. A prompt whose known part reaches (almost) to the end of the prompt
that touched it last is the next turn of that conversation; one that leaves it earlier shares
a prefix, say a system prompt, and starts a conversation of its own. The index outlives the
blocks: turns and gaps are known also of what was evicted.

Beside the blocks it holds sessions that clients name, and templates: how many requests of the
last minutes began alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .features import GAP, POPULARITY, PREVIOUS_GAP, TURN, Features
from .recent import Keys, Table, find, new_table, place

CHAIN = np.dtype(
    [
        ("key", np.uint64),
        ("last", np.float64),  # seconds, when a prompt with this block was admitted
        ("gap", np.float32),  # seconds between that and the time before, -1 if it was the first
        ("turn", np.int32),
        ("length", np.int32),  # blocks of that prompt
        ("uses", np.float32),  # of a template: how many prompts began so, old ones counting less
    ]
)

FADING = 600.0
"""Seconds after which the use of a template counts 1/e."""


def new_chains(entries: int) -> Table:
    """An empty index of ``entries`` blocks, 32 bytes each."""
    return new_table(entries, CHAIN)


@njit(cache=True)
def visit(
    chains: Table,
    keys: Keys,
    positions: Keys,
    length: int,
    slack: int,
    session: int,
    template: int,
    now: float,
    features: Features,
) -> int:
    """Fill in turn, gaps and popularity of a request admitted ``now``, and remember it.

    ``keys`` are the sampled blocks of a prompt of ``length`` full blocks and ``positions``
    (from 0) where they stand in it, ascending; ``slack`` is by how many blocks a next turn may
    fall short of the former prompt's end. ``session`` is a key of its own, 0 if the client
    names none: a known session tells turn and gap beyond doubt. ``template`` is the key of how
    the prompt begins, 0 if it is too short to tell. Returns how many leading blocks were seen
    before.
    """
    turn, gap, previous, known = 1, -1.0, -1.0, 0
    for index in range(len(keys) - 1, -1, -1):
        slot = find(chains, keys[index])
        if slot >= 0:
            entry = chains[slot]
            known = int(positions[index]) + 1
            if entry.length - known <= slack:
                turn = entry.turn + 1
            gap, previous = now - entry.last, entry.gap
            break
    if session:
        slot = find(chains, session)
        if slot >= 0:
            entry = chains[slot]
            turn, gap, previous = entry.turn + 1, now - entry.last, entry.gap
        else:
            turn = 1
        _remember(chains, session, now, gap, turn, length)
    if template:
        features[POPULARITY] = _popularity(chains, template, now)
    for key in keys:
        _remember(chains, key, now, gap, turn, length)
    features[TURN], features[GAP], features[PREVIOUS_GAP] = turn, gap, previous
    return known


@njit(cache=True)
def _popularity(chains: Table, template: int, now: float) -> float:
    """Count one more use of a template; how many there are, older ones counting less."""
    slot = find(chains, template)
    uses = 1.0
    if slot >= 0:
        uses += chains[slot].uses * np.exp(min(0.0, chains[slot].last - now) / FADING)
    _remember(chains, template, now, -1.0, 0, 0)
    chains[find(chains, template)].uses = uses
    return uses


@njit(cache=True)
def _remember(chains: Table, key: int, now: float, gap: float, turn: int, length: int) -> None:
    entry = chains[place(chains, key)]
    entry.key, entry.last, entry.gap, entry.turn, entry.length = key, now, gap, turn, length
