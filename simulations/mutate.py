"""Hostile messages out of honest ones: bytes cut, flipped and spliced, values made absurd.

Half of the mutations know nothing of the format and mostly end in the decoder. The others take a
message apart, put absurd values of any type into it, and pack it again: these get through to
whatever checks and uses the values. The same seed gives the same messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

ABSURD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 63, 64, 255, 511, 512, 1024, 65536),
    *(2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324, 1e9, 1e18, 2.0**59, 2.0**60, 1e300, -1.0, -1e18),
    *(float("nan"), float("inf"), float("-inf"), True, False, None),
    *("", "x", "\x00", "records", "push", "hazard", "x" * 300),
    *(b"", b"\x00" * 8, b"\xff" * 8, b"\x00" * 16, b"\xff" * 24, b"odd", b"\x01" * 4096),
    *([], {}, [[]], [0.0] * 17, [1e18] * 17, [0.1, 0.1], {"a": 1}),
)
"""Values that no honest message holds in that place."""

LARGEST = 4096
"""Bytes at most that a mutation adds."""


def mutants(honest: Sequence[bytes], seed: int) -> Callable[[], bytes]:
    """Draws one mutated message after the other out of honest ones.

    >>> draw, again = mutants([b"abc"], 7), mutants([b"abc"], 7)
    >>> [draw() for _ in range(100)] == [again() for _ in range(100)]
    True
    """
    rng = random.Random(seed)
    taken_apart = [_unpacked(raw) for raw in honest]

    def draw() -> bytes:
        at = rng.randrange(len(honest))
        if rng.random() < 0.5:
            raw = bytearray(honest[at])
            for _ in range(_few(rng)):
                rng.choice(_BYTES)(rng, raw, honest)
            return bytes(raw)
        value = taken_apart[at]
        for _ in range(_few(rng)):
            value = _changed(rng, value)
        return msgspec.msgpack.encode(value)

    return draw


def _unpacked(raw: bytes) -> Any:
    try:
        return msgspec.msgpack.decode(raw)
    except msgspec.DecodeError:
        return raw


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 1, 2, 3, 8))


def _changed(rng: random.Random, value: Any) -> Any:
    """The value with one of its parts, however deep, another one."""
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        how = rng.random()
        if how < 0.85:
            return [*value[:at], _changed(rng, value[at]), *value[at + 1 :]]
        if how < 0.90:
            return value[:at] + value[at + 1 :]
        if how < 0.95:
            return [*value[:at], value[at], *value[at:]]
        return [*value, rng.choice(value)]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        if rng.random() < 0.95:
            return {**value, name: _changed(rng, value[name])}
        return {key: held for key, held in value.items() if key != name}
    if isinstance(value, bytes) and len(value) >= 16 and rng.random() < 0.5:
        words = [value[at : at + 8] for at in range(0, len(value), 8)]
        rng.shuffle(words)
        words[0] = rng.choice((words[0], words[-1], b"\x00" * 8, b"\xff" * 8))
        return b"".join(words)
    if isinstance(value, float) and rng.random() < 0.4:
        return value * rng.choice((-1.0, 0.5, 2.0, 1e6, 1e-6))
    if isinstance(value, int) and rng.random() < 0.4:
        return max(-(2**63), min(2**64 - 1, value + rng.choice((-1, 1, 2**16, 2**40))))
    if rng.random() < 0.7:  # of its own type, which the decoder lets through
        return rng.choice([one for one in ABSURD if type(one) is type(value)] or ABSURD)
    return rng.choice(ABSURD)


def _flip(rng: random.Random, raw: bytearray, _: Sequence[bytes]) -> None:
    if raw:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, raw: bytearray, _: Sequence[bytes]) -> None:
    if raw:  # all first bytes of msgpack's types are among them
        raw[rng.randrange(len(raw))] = rng.randrange(256)


def _cut(rng: random.Random, raw: bytearray, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(raw) + 1)
    del raw[start : start + rng.choice((1, 2, 8, 64, LARGEST))]


def _double(rng: random.Random, raw: bytearray, _: Sequence[bytes]) -> None:
    start = rng.randrange(len(raw) + 1)
    part = raw[start : start + rng.choice((1, 8, 64, LARGEST))]
    raw[start:start] = part


def _splice(rng: random.Random, raw: bytearray, honest: Sequence[bytes]) -> None:
    other = rng.choice(honest)
    start = rng.randrange(len(other) + 1)
    at = rng.randrange(len(raw) + 1)
    raw[at:] = other[start : start + LARGEST]


_BYTES = (_flip, _flip, _set, _set, _cut, _double, _splice)
