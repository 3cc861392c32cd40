"""Grids of (trace, policy, capacity): run on all cores, reported as they come in."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import msgspec

from ..policies.errors import WactlError
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
    seconds: float
    """Of the replay, loading not counted."""


@dataclass(frozen=True)
class Job:
    """A replay to be done: position of the trace in the list, policy, capacity."""

    trace: int
    policy: str
    capacity: int


_traces: Sequence[Trace] = ()
"""The traces of the sweep under way: workers inherit them by forking instead of by copying."""


def replay(trace: Trace, policy: str, capacity: int) -> Cell:
    """Replay one trace through one policy."""
    start = time.perf_counter()
    played = find(policy).run(trace, capacity)
    return cell_of(trace, policy, capacity, played, time.perf_counter() - start)


def cell_of(trace: Trace, policy: str, capacity: int, played: Played, seconds: float) -> Cell:
    """What came out of a replay that took so many seconds."""
    hits = played.prefix_hits(trace.offsets)
    accesses = len(trace.blocks)
    return Cell(
        trace=trace.name,
        policy=policy,
        capacity=capacity,
        requests=trace.requests,
        blocks=accesses,
        hit_blocks=hits,
        hit_ratio=hits / accesses if accesses else 0.0,
        plain_hit_blocks=int(played.hits.sum()),
        evictions=played.evictions,
        orphans=played.orphans,
        seconds=round(seconds, 3),
    )


def sweep(
    traces: Sequence[Trace],
    policies: Sequence[str],
    capacities: Callable[[Trace], Sequence[int]],
    play: Callable[[Trace, str, int], Cell] = replay,
) -> Iterator[Cell]:
    """Yield every cell of the grid as it is done, in no particular order.

    ``play`` makes one; it is pickled on the way to its worker. Raises `WactlError` for an
    unknown policy, before anything runs.
    """
    global _traces
    for policy in policies:
        find(policy)
    jobs = [
        Job(index, policy, capacity)
        for index, trace in enumerate(traces)
        for policy in policies
        for capacity in capacities(trace)
    ]
    workers = min(len(jobs), os.cpu_count() or 1)
    if workers <= 1:
        yield from (play(traces[job.trace], job.policy, job.capacity) for job in jobs)
        return
    _traces = traces
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(_work, job, play) for job in jobs]
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _work(job: Job, play: Callable[[Trace, str, int], Cell]) -> Cell:
    return play(_traces[job.trace], job.policy, job.capacity)


def parse_capacities(text: str, bytes_per_token: float | None) -> Callable[[Trace], list[int]]:
    """What ``--capacity`` says, as a function of the trace: blocks.

    ``1000`` is blocks, ``5%`` a share of the trace's distinct blocks, ``20GiB`` memory, for
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
        found = [
            _blocks(entry, trace.distinct, trace.block_tokens, bytes_per_token or 1.0)
            for entry in entries
        ]
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
