"""Golden results: what replays gave when they were recorded, to compare with what they give now.

They are whole numbers, so that equal means equal, in a file with one of them a line, so that a
commit which changes them shows which.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..policies.errors import WactlError
from .sweep import Cell
from .trace import Trace


class GoldenError(WactlError):
    """The golden results cannot be read or written; the text says why."""


class Results(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One trace, and what its replays gave."""

    sha256: str
    requests: int
    blocks: int
    """Block accesses."""
    hits: dict[str, dict[int, int]]
    """Those that hit with all of their prefix, by policy and capacity (blocks)."""

    @property
    def trace(self) -> str:
        """Which trace it is, short enough to be shown."""
        return f"sha256 {self.sha256[:16]}, {self.requests} requests, {self.blocks} blocks"


Golden = dict[str, Results]
"""The results by the name of the trace."""


class Difference(msgspec.Struct, frozen=True):
    """A result that is another one now; None on the side that lacks it.

    Without policy and capacity it is the trace itself, told apart by checksum and size.
    """

    trace: str
    policy: str | None
    capacity: int | None
    golden: int | str | None
    now: int | str | None


def golden_of(traces: Iterable[Trace], cells: Iterable[Cell]) -> Golden:
    """The results of a sweep, sorted by trace, policy and capacity."""
    golden = {
        trace.name: Results(trace.digest, trace.requests, trace.accesses, {})
        for trace in sorted(traces, key=lambda trace: trace.name)
    }
    for cell in sorted(cells, key=lambda cell: (cell.policy, cell.capacity)):
        golden[cell.trace].hits.setdefault(cell.policy, {})[cell.capacity] = cell.hit_blocks
    return golden


def size(golden: Golden) -> int:
    """How many results there are."""
    return sum(len(hits) for results in golden.values() for hits in results.hits.values())


def load_golden(path: Path) -> Golden:
    """The golden results of a file. Raises `GoldenError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Golden)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        reason = f"holds no golden results: {error}"
    raise GoldenError(f"{path}: {reason}; write it with `wactl regress record`") from None


def save_golden(path: Path, golden: Golden) -> None:
    """Write a file of golden results, all or nothing. Raises `GoldenError`."""
    text = msgspec.json.format(msgspec.json.encode(golden)) + b"\n"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            unfinished.write_bytes(text)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise GoldenError(f"{path}: cannot be written: {error.strerror}") from None


def differences(golden: Golden, now: Golden) -> Iterator[Difference]:
    """Whatever differs; of a trace that is another one, only that it is."""
    for name in sorted(golden.keys() | now.keys()):
        old, new = golden.get(name), now.get(name)
        if old is None or new is None or old.trace != new.trace:
            traces = (results.trace if results else None for results in (old, new))
            yield Difference(name, None, None, *traces)
            continue
        for policy in sorted(old.hits.keys() | new.hits.keys()):
            before, after = old.hits.get(policy, {}), new.hits.get(policy, {})
            for capacity in sorted(before.keys() | after.keys()):
                hits, hits_now = before.get(capacity), after.get(capacity)
                if hits != hits_now:
                    yield Difference(name, policy, capacity, hits, hits_now)


def sentence(difference: Difference, now: Golden) -> str:
    """A difference in words, with its size in points of hit ratio where both sides have hits."""
    old, new = difference.golden, difference.now
    which = f"{difference.trace}:"
    if difference.policy is not None:
        which = f"{difference.trace}: {difference.policy} at {difference.capacity} blocks:"
    if old is None:
        return f"{which} new, not in the golden results ({new})"
    if new is None:
        return f"{which} in the golden results ({old}), but not asked for any more"
    if isinstance(old, str) or isinstance(new, str):
        return f"{which} another trace: golden {old}; now {new}"
    points = 100.0 * (new - old) / max(1, now[difference.trace].blocks)
    return f"{which} golden {old} hits, now {new} ({new - old:+d}, {points:+.3f} points)"
