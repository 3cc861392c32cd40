"""Spatial sampling: a fixed share of all blocks, told by their hash alone."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.policies.sample import TARGET_BLOCKS, keys_of, mix, sampled, shift_for


def hashes(count: int, seed: int = 0) -> list[bytes]:
    """Block hashes as vLLM makes them: 32 good bytes."""
    return [hashlib.sha256(f"{seed} {i}".encode()).digest() for i in range(count)]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=100), st.integers(0, 8))
def test_positions_say_where_the_sampled_stand(numbers: list[int], shift: int) -> None:
    """The sampled keys are those at the positions told, in the order of the prompt."""
    keys = np.array(numbers, np.uint64)
    found, positions = sampled(keys, shift)
    assert len(found) == len(positions) and positions.dtype == np.uint64
    assert (np.diff(positions.astype(np.int64)) > 0).all()
    assert found.tolist() == [numbers[int(position)] for position in positions]
    assert found.tolist() == [number for number in numbers if number % 2**shift == 0]


@pytest.mark.parametrize("shift", [0, 1, 3, 6])
def test_the_share_is_as_told(shift: int) -> None:
    """One block in 2**shift is followed, within four standard deviations."""
    count, share = 50_000, 0.5**shift
    found, _ = sampled(keys_of(hashes(count)), shift)
    assert abs(len(found) - count * share) <= 4.0 * (count * share * (1.0 - share)) ** 0.5


def test_a_block_is_always_followed_or_never() -> None:
    """Whether a block is followed does not depend on the prompt it stands in."""
    known = hashes(2000)
    followed = set(sampled(keys_of(known), 4)[0].tolist())
    for start in range(0, 2000, 70):
        prompt = hashes(start % 50, seed=1) + known[start : start + 200]
        keys = keys_of(prompt)
        expected = [key for key in keys.tolist() if key in followed or key % 16 == 0]
        assert sampled(keys, 4)[0].tolist() == expected
        assert set(keys.tolist()) & followed <= set(expected)


def test_a_higher_rate_follows_more_of_the_same() -> None:
    """What is followed at a low rate is followed at every higher one."""
    keys = keys_of(hashes(5000))
    followed = [set(sampled(keys, shift)[0].tolist()) for shift in range(7)]
    for more, less in itertools.pairwise(followed):
        assert less < more


def test_a_key_is_never_0() -> None:
    """0 stands for an empty slot; keys are the first eight bytes, little-endian, of any width."""
    assert keys_of([]).tolist() == []
    assert keys_of([bytes(32)]).tolist() == [1]
    assert keys_of([b"\x02" + bytes(31), bytes(7) + b"\x01" + b"x" * 24]).tolist() == [2, 2**56]
    assert keys_of([b"\xff" * 8]).tolist() == [2**64 - 1]


@given(st.integers(0, 10**9))
def test_a_cache_has_enough_followed_blocks(blocks: int) -> None:
    """At the chosen rate a cache has at most the target, and half of it unless it is smaller."""
    shift = shift_for(blocks)
    assert blocks / 2**shift <= TARGET_BLOCKS
    assert shift == 0 or blocks / 2**shift > TARGET_BLOCKS / 2


def splitmix64(seed: int) -> int:
    """The generator's next number after this state, in Python's whole numbers (Steele 2014)."""
    z = (seed + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_mixing_is_splitmix64() -> None:
    """The first numbers of the reference implementation, seeded with 1234567."""
    step = np.uint64(0x9E3779B97F4A7C15)
    states = np.uint64(1234567) + np.arange(3, dtype=np.uint64) * step
    assert mix(states).tolist() == [
        *(6457827717110365317, 3203168211198807973, 9817491932198370423)
    ]


@given(st.integers(0, 2**64 - 1))
def test_a_mixed_key_is_a_key(key: int) -> None:
    """One alone and in an array alike, and never 0."""
    expected = max(1, splitmix64(key))
    assert int(mix(np.uint64(key))) == expected
    assert mix(np.array([key], np.uint64)).tolist() == [expected]


def test_what_is_mixed_to_0_is_1() -> None:
    """The one key that splitmix64 takes to 0 is the one that its first step takes there."""
    zero = 2**64 - 0x9E3779B97F4A7C15
    assert splitmix64(zero) == 0
    assert int(mix(np.uint64(zero))) == 1
