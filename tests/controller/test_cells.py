"""Cells: equal buckets make one, there are never more than fit, and counts leave with a cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.controller.cells import COLUMNS, REFINED, WORDED, Cells, bucket_text, buckets_of
from wactl.controller.reuse import Reuse
from wactl.controller.tree import MOST
from wactl.controller.words import FADING, PLACES, hear, new_words, place_of
from wactl.policies.features import (
    BUCKETS,
    EDGES,
    FEATURES,
    GAP,
    GENERATED,
    LENGTH,
    POPULARITY,
    POSITION,
    TURN,
    TYPE,
    Features,
    blank_features,
    bucket,
    digest,
)
from wactl.policies.recent import find

EDGE = sorted({float(edge) for edges in BUCKETS.values() for edge in edges})
VALUES = st.sampled_from([*EDGE, *(np.nextafter(edge, -np.inf) for edge in EDGE), -1.0, 1e9])
WORDS = st.sampled_from([0.0, *(digest(word) for word in "abcdef")])
VECTORS = st.tuples(
    *(VALUES if feature in BUCKETS else WORDS for feature in range(len(FEATURES)))
).map(np.array)


def column(feature: int) -> int:
    return 1 + REFINED.index(feature)


def request(**values: float) -> Features:
    features = blank_features(0)
    for name, value in values.items():
        features[FEATURES.index(name)] = value
    return features


@settings(deadline=None)
@given(VECTORS, st.integers(0, 255))
def test_the_columns_are_the_rule_the_buckets_and_the_places(features: Features, rule: int) -> None:
    """Each feature that tells cells apart has its column, below the bound of the tree's masks."""
    cells = Cells(8)
    cells.hear(request(type=digest("b"), tenant=digest("a")), 0.0)
    found = buckets_of(cells.words, rule, features)
    assert found[0] == rule
    assert len(found) == COLUMNS
    for at, feature in enumerate(REFINED):
        if WORDED[at]:
            row = at - int(np.argmax(WORDED))
            assert found[1 + at] == place_of(cells.words[row], features[feature])
        else:
            assert found[1 + at] == bucket(EDGES, feature, features[feature])
        assert found[1 + at] < MOST


@settings(max_examples=300, deadline=None)
@given(VECTORS, VECTORS, st.integers(0, 2), st.integers(0, 2))
def test_a_cell_is_one_only_for_equal_buckets(
    one: Features, two: Features, first: int, second: int
) -> None:
    """Two requests share a cell if rule, buckets and words with a place agree, and else not."""
    cells = Cells(64)
    for word in "abcdef":
        cells.hear(request(type=digest(word), lora=digest(word)), 0.0)
    keys = cells.key(first, one, 0.0), cells.key(second, two, 0.0)
    alike = np.array_equal(
        buckets_of(cells.words, first, one), buckets_of(cells.words, second, two)
    )
    assert (keys[0] == keys[1]) == alike
    for key, rule, features in zip(keys, (first, second), (one, two), strict=True):
        row = cells.table[find(cells.table, np.uint64(key))]
        assert row["buckets"].tolist() == buckets_of(cells.words, rule, features).tolist()


def test_the_table_is_bounded() -> None:
    """Twenty thousand requests as different as can be leave it as large as it was."""
    cells = Cells(64)
    sizes = cells.table.nbytes, cells.events.nbytes, cells.words.nbytes
    rng = np.random.default_rng(7)
    for number in range(20_000):
        features = rng.choice(EDGE, len(FEATURES))
        features[TYPE] = digest(str(number))
        cells.hear(features, float(number))
        cells.count(cells.key(number % 256, features, float(number)), 3)
    assert (cells.table.nbytes, cells.events.nbytes, cells.words.nbytes) == sizes
    assert len(cells.table) == 64


def fill(cells: Cells, since: float) -> list[int]:
    """As many cells as there is room for, one a second."""
    room = len(cells.table)
    return [cells.key(1 + n, blank_features(0), since + n) for n in range(room)]


def test_a_cell_that_is_displaced_loses_its_counts_and_no_other_gets_them() -> None:
    """The ghosts of a cell that had to go credit nobody, the one that took its room least."""
    cells = Cells(8)
    reuse = Reuse(cells, 64)
    keys, where = np.array([5, 6], np.uint64), np.array([0, 1], np.uint64)
    gone = cells.key(0, blank_features(0), 0.0)
    cells.count(gone, 2)
    reuse.observe(keys, where, 0, gone, gone, 0.0)
    reuse.observe(keys[:1], where[:1], 0, gone, gone, 1.0)
    assert cells.events.sum() == 1.0
    row = find(cells.table, np.uint64(gone))
    fill(cells, since=2.0)
    assert find(cells.table, np.uint64(gone)) < 0
    assert (cells.table[row]["requests"], cells.table[row]["blocks"]) == (0.0, 0.0)
    assert cells.events.sum() == cells.censored.sum() == 0.0
    reuse.observe(keys, where, 0, gone, gone, 20.0)
    events, censored = reuse.counts(21.0)
    assert events.sum() == censored.sum() == 0.0
    cells.count(gone, 2)  # of a cell that is not there: nobody's
    assert cells.table["requests"].sum() == 0.0


def test_the_cell_not_met_for_longest_has_to_go() -> None:
    """Being met again saves it."""
    cells = Cells(8)
    first, second, *_ = fill(cells, since=0.0)
    assert cells.key(1, blank_features(0), 50.0) == first
    cells.key(100, blank_features(0), 51.0)
    assert find(cells.table, np.uint64(first)) >= 0
    assert find(cells.table, np.uint64(second)) < 0


def test_a_word_that_loses_its_place_takes_its_cells_along() -> None:
    """The word that comes after it starts from nothing, and gets no reuse of the other's blocks."""
    cells = Cells(64)
    reuse = Reuse(cells, 64)
    keys, where = np.array([5, 6], np.uint64), np.array([0, 1], np.uint64)
    names = [digest(str(number)) for number in range(PLACES)]
    for name in names:
        cells.hear(request(type=name), 0.0)
    old, other = (cells.key(0, request(type=name), 0.0) for name in names[:2])
    for key, block in ((old, keys[:1]), (other, keys[1:])):
        cells.count(key, 1)
        reuse.observe(block, where[:1], 0, key, key, 0.0)
    cells.hear(request(type=digest("new")), 10 * FADING)
    new = cells.key(0, request(type=digest("new")), 10 * FADING)
    assert place_of(cells.words[0], digest("new")) == 1
    assert find(cells.table, np.uint64(old)) < 0
    reuse.observe(keys, where, 0, new, new, 10 * FADING)
    rows = [find(cells.table, np.uint64(key)) for key in (new, other)]
    assert cells.events[rows].sum(axis=1).tolist() == [0.0, 1.0]
    assert cells.table[rows]["requests"].tolist() == [0.0, 1.0]


def test_counts_are_taken_back_and_fade() -> None:
    """A request that turns out to belong elsewhere leaves no trace, and none is owed."""
    cells = Cells(64)
    key = cells.key(0, blank_features(0), 0.0)
    cells.count(key, 8)
    cells.count(key, 4)
    cells.count(key, 8, -1.0)
    row = cells.table[find(cells.table, np.uint64(key))]
    assert (row["requests"], row["blocks"]) == (1.0, 4.0)
    cells.fade(0.25)
    assert (row["requests"], row["blocks"]) == (0.25, 1.0)
    cells.count(key, 4, -1.0)
    assert (row["requests"], row["blocks"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("feature", "low", "high", "text"),
    [
        (POSITION, 0, 0, "new"),
        (POSITION, 1, 1, "carried"),
        (TURN, 0, 0, "turn ≤1"),
        (TURN, 1, 1, "turn 2"),
        (TURN, 1, 3, "turn 2-4"),
        (TURN, 7, 7, "turn ≥21"),
        (GAP, 0, 0, "no gap"),
        (GAP, 0, 2, "gap <5"),
        (GAP, 2, 4, "gap 2-60"),
        (GAP, 7, 7, "gap ≥600"),
        (GENERATED, 0, 0, "no generated"),
        (LENGTH, 0, 1, "length <1024"),
        (POPULARITY, 0, 0, "popularity <1.5"),
        (TYPE, 3, 3, f"type {int(digest('c')) & 0xFFFF:04x}"),
        (TYPE, 0, 0, "other type"),
        (TYPE, 0, 14, "other type"),
        (TYPE, 0, 15, "other type"),
    ],
)
def test_buckets_in_words(feature: int, low: int, high: int, text: str) -> None:
    """Numbers as they are written, words by four digits of their digest."""
    words = new_words(4)
    for word in "abc":
        hear(words[0], digest(word), 0.0)
    assert bucket_text(column(feature), low, high, words) == text
