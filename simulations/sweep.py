"""Grids of (trace, policy, capacity), reported as they come in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ..policies.errors import WactlError
from . import pool
from .catalogue import find
from .played import Played
from .trace import Trace


class Cell(msgspec.Struct, frozen=True):
    """One replay: which trace, policy and capacity (blocks), and what came out."""

    trace: str
    policy: str
    capacity: int
    requests: int
    blocks: int
    """Block accesses of the trace."""
    hit_blocks: int
    """Those found in the cache with every earlier block of their prompt."""
    hit_ratio: float
    plain_hit_blocks: int
    """Those found in the cache, whatever was before them."""
    evictions: int
    orphans: int
    """Blocks evicted before a block behind them."""
    sample: int
    """The trace holds one block in so many: with more than 1 all counts are estimates."""
    seconds: float
    """Of the replay, loading not counted."""


def replay(trace: Trace, policy: str, capacity: int) -> Cell:
    """Replay one trace through one policy.

    A sample of the blocks meets a cache smaller by as much, as in SHARDS (FAST'15); so the
    capacity is at least ``trace.sample``.
    """
    start = time.perf_counter()
    played = find(policy).run(trace, capacity // trace.sample)
    return cell_of(trace, policy, capacity, played, time.perf_counter() - start)


def cell_of(trace: Trace, policy: str, capacity: int, played: Played, seconds: float) -> Cell:
    """What came out of a replay that took so many seconds.

    Counts of a sample are scaled up. Accesses that are then missing, or too many, are those of
    a few blocks that everybody asks for, left out or picked by chance: they are hits under any
    policy. So SHARDS-adj (FAST'15) has it.
    """
    accesses, sample = trace.accesses, trace.sample
    popular = accesses - sample * len(trace.blocks)

    def scaled(hits: int) -> int:
        return min(max(0, sample * hits + popular), accesses)

    hits = scaled(played.prefix_hits(trace.offsets))
    return Cell(
        trace=trace.name,
        policy=policy,
        capacity=capacity,
        requests=trace.requests,
        blocks=accesses,
        hit_blocks=hits,
        hit_ratio=hits / accesses if accesses else 0.0,
        plain_hit_blocks=scaled(int(played.hits.sum())),
        evictions=sample * played.evictions,
        orphans=sample * played.orphans,
        sample=trace.sample,
        seconds=round(seconds, 3),
    )


def sweep(
    traces: Sequence[Trace],
    policies: Sequence[str],
    capacities: Callable[[Trace], Sequence[int]],
    play: pool.Play[Cell] = replay,
    run: pool.Run = pool.run,
) -> Iterator[Cell]:
    """Yield every cell of the grid as it is done, in no particular order.

    ``play`` makes one, and ``run`` says where. Raises `WactlError` for an unknown policy, before
    anything runs.
    """
    for policy in policies:
        find(policy)
    jobs = [
        pool.Job(index, policy, capacity)
        for index, trace in enumerate(traces)
        for policy in policies
        for capacity in capacities(trace)
    ]
    yield from run(play, traces, jobs)


def parse_capacities(text: str, bytes_per_token: float | None) -> Callable[[Trace], list[int]]:
    """What ``--capacity`` says, as a function of the trace: blocks.

    ``1000`` is blocks, ``5%`` a share of the distinct blocks of the traffic, ``20GiB`` memory, for
    which the bytes of a token must be known. Raises `WactlError`.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries:
        raise WactlError("--capacity needs at least one number of blocks")
    for entry in entries:
        _blocks(entry, 1, 1, bytes_per_token or 1.0)
    if any(entry.endswith("iB") for entry in entries) and bytes_per_token is None:
        raise WactlError("a capacity in bytes needs --bytes-per-token, say 57344 for Qwen2-7B")

    def of(trace: Trace) -> list[int]:
        distinct = trace.distinct * trace.sample
        found = [
            _blocks(entry, distinct, trace.block_tokens, bytes_per_token or 1.0)
            for entry in entries
        ]
        if min(found) < trace.sample:
            raise WactlError(
                f"capacity {min(found)} is too small for {trace.name}, which holds one block in "
                f"{trace.sample}; that many blocks are the least"
            )
        return sorted(set(found))

    return of


_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def _blocks(entry: str, distinct: int, block_tokens: int, bytes_per_token: float) -> int:
    try:
        if entry.endswith("%"):
            blocks = round(float(entry[:-1]) / 100.0 * distinct)
        elif entry[-3:] in _UNITS:
            if not block_tokens:
                raise WactlError("the trace does not say how many tokens a block has")
            size = block_tokens * bytes_per_token
            blocks = int(float(entry[:-3]) * _UNITS[entry[-3:]] / size)
        else:
            blocks = int(entry)
    except (ValueError, OverflowError):
        raise WactlError(
            f"capacity {entry!r} is neither blocks (1000), a share (5%) nor memory (20GiB)"
        ) from None
    if entry[0] == "-" or (blocks < 1 and entry[-1] not in "%B"):
        raise WactlError(f"capacity {entry!r} is less than one block")
    return max(1, blocks)
