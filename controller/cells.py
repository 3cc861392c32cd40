"""Cells: what is counted apart, so that any division of the traffic can be weighed afterwards.

The features of a request fall into buckets (`wactl.policies.features.BUCKETS`, words by
`words`), and equal buckets make a cell. Each cell counts its requests and, over the ages of
reuse, its events and its censored waits. A category is a set of cells, so its counts are sums,
and the tree can be grown anew at any time from all that was seen.

The table is bounded: a new cell takes the room of one not met for long, whose counts are lost.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.ages import AGES
from ..policies.features import (
    BUCKETS,
    EDGES,
    FEATURES,
    GAP,
    GENERATED,
    LENGTH,
    LORA,
    MODALITY,
    POPULARITY,
    POSITION,
    PREVIOUS_GAP,
    PRIORITY,
    STRUCTURED,
    TENANT,
    TURN,
    TYPE,
    Features,
)
from ..policies.recent import Table, find, new_table, place
from .words import Words, hear, new_words, place_of

ENTRIES = 8192
"""Cells kept: with their counts, 8.9 MB."""

REFINED = (
    *(POSITION, TURN, GAP, PREVIOUS_GAP, GENERATED, LENGTH, POPULARITY, STRUCTURED, PRIORITY),
    *(TYPE, TENANT, LORA, MODALITY),
)
"""Features that tell cells apart, in the order of their columns; column 0 is the rule."""

WORDED = np.array([feature not in BUCKETS for feature in REFINED])
"""Which of them are words."""

COLUMNS = 1 + len(REFINED)

CELL = np.dtype(
    [
        ("key", np.uint64),
        ("last", np.float64),  # seconds
        ("requests", np.float64),  # older ones count less
        ("blocks", np.float64),  # followed ones of these requests
        ("buckets", np.uint8, (COLUMNS,)),
    ]
)

_REFINED = np.array(REFINED)
_FIRST_WORD = int(np.argmax(WORDED))

Buckets = NDArray[np.uint8]
Counts = NDArray[np.float64]


class Cells:
    """The cells of one engine's traffic; row ``r`` of the counts belongs to ``table[r]``.

    ``events`` and ``censored`` have shape ``(entries, len(AGES))`` and count blocks.
    """

    def __init__(self, entries: int = ENTRIES) -> None:
        self.table = new_table(entries, CELL)
        self.events = np.zeros((len(self.table), len(AGES)))
        self.censored = np.zeros((len(self.table), len(AGES)))
        self.words = new_words(COLUMNS - 1 - _FIRST_WORD)

    def hear(self, features: Features, now: float) -> None:
        """Note the words of a request, see `words.hear`; a word that goes takes its cells along."""
        for row, feature in enumerate(REFINED[_FIRST_WORD:]):
            if taken := hear(self.words[row], features[feature], now):
                gone = self.table["buckets"][:, 1 + _FIRST_WORD + row] == taken
                self.table[gone] = new_table(1, CELL)[0]

    def key(self, rule: int, features: Features, now: float) -> int:
        """The cell of these features under a rule's number; made if it is new."""
        return _enter(self.table, self.events, self.censored, self.words, rule, features, now)

    def count(self, key: int, blocks: int, requests: float = 1.0) -> None:
        """So many followed blocks of a request are a cell's; with ``requests`` −1, no more."""
        if (row := find(self.table, np.uint64(key))) >= 0:
            cell = self.table[row]
            cell["requests"] = max(0.0, cell["requests"] + requests)
            cell["blocks"] = max(0.0, cell["blocks"] + requests * blocks)

    def fade(self, factor: float) -> None:
        """All counts weigh less from now on."""
        self.events *= factor
        self.censored *= factor
        self.table["requests"] *= factor
        self.table["blocks"] *= factor


@njit(cache=True)
def buckets_of(words: Words, rule: int, features: Features) -> Buckets:
    """The columns of a request: its rule, then the bucket of each of `REFINED`."""
    found = np.empty(COLUMNS, np.uint8)
    found[0] = rule
    for column in range(1, COLUMNS):
        feature = _REFINED[column - 1]
        if column - 1 >= _FIRST_WORD:
            found[column] = place_of(words[column - 1 - _FIRST_WORD], features[feature])
        else:
            number = 0
            for edge in EDGES[feature]:
                number += edge <= features[feature]
            found[column] = number
    return found


@njit(cache=True)
def _key(buckets: Buckets, features: Features) -> np.uint64:
    """A well-mixed key of the columns and words (FNV-1a, then a finaliser), never 0.

    With the words themselves, since another may have a place tomorrow.
    """
    key = np.uint64(0xCBF29CE484222325)
    for bucket in buckets:
        key = (key ^ np.uint64(bucket)) * np.uint64(0x100000001B3)
    for column in range(1 + _FIRST_WORD, COLUMNS):
        if buckets[column]:
            word = np.uint64(features[_REFINED[column - 1]])
            key = (key ^ word) * np.uint64(0x100000001B3)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return max(key ^ (key >> np.uint64(31)), np.uint64(1))


@njit(cache=True)
def _enter(
    table: Table,
    events: Counts,
    censored: Counts,
    words: Words,
    rule: int,
    features: Features,
    now: float,
) -> np.uint64:
    buckets = buckets_of(words, rule, features)
    key = _key(buckets, features)
    row = place(table, key)
    cell = table[row]
    if cell.key != key:
        cell.key, cell.requests, cell.blocks = key, 0.0, 0.0
        cell.buckets[:] = buckets
        events[row] = 0.0
        censored[row] = 0.0
    cell.last = now
    return key


def bucket_text(column: int, low: int, high: int, words: Words) -> str:
    """The buckets from ``low`` to ``high`` of a column, which are not all of it, in words.

    >>> bucket_text(1 + REFINED.index(TURN), 1, 2, new_words(4))
    'turn 2-3'
    """
    feature = REFINED[column - 1]
    name = FEATURES[feature]
    if feature not in BUCKETS:
        if low != high or low == 0:
            return f"other {name}"
        return f"{name} {int(words[column - 1 - _FIRST_WORD, low - 1]['digest']) & 0xFFFF:04x}"
    edges = BUCKETS[feature]
    if feature == POSITION:
        return "carried" if low else "new"
    if high == 0 and feature in (GAP, PREVIOUS_GAP, GENERATED):  # the bucket of -1
        return f"no {name}"
    return f"{name} {_range(edges, low, high)}"


def _range(edges: tuple[float, ...], low: int, high: int) -> str:
    """Values in the buckets from ``low`` to ``high``."""
    start = edges[low - 1] if low else None
    end = edges[high] if high < len(edges) else None
    if all(edge % 1 == 0.5 for edge in edges):  # between whole numbers
        first = None if start is None else int(start + 0.5)
        last = None if end is None else int(end - 0.5)
        if first == last:
            return f"{first}"
        return f"≤{last}" if first is None else f"≥{first}" if last is None else f"{first}-{last}"
    return f"<{end:g}" if start is None else f"≥{start:g}" if end is None else f"{start:g}-{end:g}"
