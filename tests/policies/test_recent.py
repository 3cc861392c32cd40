"""The bounded table of recent keys, against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from wactl.policies.recent import WAYS, Table, find, new_table, place

RECORD = np.dtype([("key", np.uint64), ("last", np.float64), ("value", np.int64)])
BUCKETS = 4

# Few different high halves fill the buckets; few low halves make keys come again.
keys = st.builds(
    lambda high, low: np.uint64((high << 32) | low), st.integers(0, 11), st.integers(1, 6)
)


def write(table: Table, key: np.uint64, now: float, value: int) -> None:
    slot = place(table, key)
    table[slot] = (key, now, value)


@given(st.lists(st.tuples(keys, st.booleans()), max_size=300))
def test_it_holds_the_latest_of_each_bucket(steps: list[tuple[np.uint64, bool]]) -> None:
    """A key is found until eight others of its bucket were written after it, and never else."""
    table = new_table(BUCKETS * WAYS, RECORD)
    model: list[dict[int, int]] = [{} for _ in range(BUCKETS)]
    size = table.nbytes
    for now, (key, writes) in enumerate(steps):
        bucket = model[(int(key) >> 32) % BUCKETS]
        slot = find(table, key)
        assert (slot >= 0) == (int(key) in bucket)
        if slot >= 0:
            assert table[slot]["value"] == bucket[int(key)]
        if writes:
            write(table, key, float(now), now)
            bucket.pop(int(key), None)
            if len(bucket) == WAYS:
                del bucket[next(iter(bucket))]  # the oldest comes first
            bucket[int(key)] = now
    held = table["key"][table["key"] != 0].tolist()
    assert sorted(held) == sorted(key for bucket in model for key in bucket)
    assert table.nbytes == size


def test_a_key_keeps_its_slot() -> None:
    """Written again, a key stays where it is and costs no other key its place."""
    table = new_table(WAYS, RECORD)
    for key in range(1, WAYS + 1):
        write(table, np.uint64(key), float(key), key)
    slot = find(table, np.uint64(3))
    for now in range(100, 200):
        assert place(table, np.uint64(3)) == slot
        write(table, np.uint64(3), float(now), now)
    assert sorted(table["key"].tolist()) == list(range(1, WAYS + 1))


def test_it_never_grows() -> None:
    """A hundred thousand keys leave it the size it was, full of the latest."""
    table = new_table(1024, RECORD)
    size, numbers = table.nbytes, np.random.default_rng(1).integers(1, 2**63, 100_000)
    for now, key in enumerate(numbers.astype(np.uint64)):
        write(table, key, float(now), now)
    assert (table.nbytes, len(table)) == (size, 1024)
    assert (table["last"] > 100_000 - 5 * 1024).all()
    assert find(table, np.uint64(numbers[-1])) >= 0


def test_it_has_room_for_what_was_asked() -> None:
    """The number of slots is the next power of two, at least one bucket."""
    for entries, slots in ((0, 8), (1, 8), (8, 8), (9, 16), (17, 32), (1000, 1024), (1024, 1024)):
        assert len(new_table(entries, RECORD)) == slots
