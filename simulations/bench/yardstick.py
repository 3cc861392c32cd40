"""LRU against libCacheSim's, on the same accesses one by one, in one process.

Both replay the blocks of all prompts in a row, head first, each as a request of its own, which
makes wactl's LRU the textbook's; both must miss just as often. wactl has the trace in memory,
libCacheSim in a file of its own oracleGeneral records that the system holds in memory: that is
the fastest it replays from. Opening the file and making the hash table is not in its time.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from ..baselines import lru
from ..readers.oracle import RECORD
from ..trace import Trace
from .errors import BenchError
from .replay import timed

ROOM = 3
"""Bits by which libCacheSim's hash table is larger than the cache: fewer and more are slower."""


class Yardstick(msgspec.Struct, frozen=True):
    """Nanoseconds an access, medians of the repeats."""

    misses: int
    """Accesses that missed, in either's replay."""
    ns_per_access: float
    libcachesim_ns_per_access: float
    ratio: float
    """Time of wactl's over that of libCacheSim's, one right after the other: below 1 is faster."""
    ratio_low: float
    """The least of the repeats."""
    ratio_high: float


def installed() -> bool:
    """Whether there is something to compare with; it is under GPL-3, so no part of wactl."""
    return importlib.util.find_spec("libcachesim") is not None


def measure(trace: Trace, capacity: int, repeats: int) -> Yardstick:
    """Replay the accesses of a trace with both. Raises `BenchError` if they differ."""
    accesses = len(trace.blocks)
    single = dataclasses.replace(trace, offsets=np.arange(accesses + 1))
    with TemporaryDirectory(prefix="wactl-bench-") as folder:
        path = Path(folder) / "accesses.oracleGeneral"
        _write(trace, path)
        misses = accesses - int(lru.run(single, capacity).hits.sum())
        _, missed = _theirs(path, capacity)
        if round(missed * accesses) != misses:
            raise BenchError(
                f"lru misses {misses} of the {accesses} accesses of {trace.name}, libcachesim "
                f"{missed * accesses:.0f}: one of the two is wrong, please report it"
            )
        pairs = []
        for _ in range(repeats):
            (ours,) = timed(lambda: lru.run(single, capacity), 1)
            theirs, _ = _theirs(path, capacity)
            pairs.append((ours, theirs))
    ratios = [ours / theirs for ours, theirs in pairs]
    return Yardstick(
        misses,
        1e9 * median(ours for ours, _ in pairs) / accesses,
        1e9 * median(theirs for _, theirs in pairs) / accesses,
        median(ratios),
        min(ratios),
        max(ratios),
    )


def _theirs(path: Path, capacity: int) -> tuple[float, float]:
    """Seconds and miss ratio of libCacheSim's replay of a file."""
    import libcachesim

    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = libcachesim.LRU(cache_size=capacity, hashpower=capacity.bit_length() + ROOM)
    start = time.process_time()
    missed, _ = cache.process_trace(reader)
    return time.process_time() - start, missed


def _write(trace: Trace, path: Path) -> None:
    """The accesses as records of one byte; LRU looks neither at the time nor at the next access."""
    records = np.zeros(len(trace.blocks), RECORD)
    records["id"] = trace.blocks + 1  # 0 is a poor hash key
    records["size"] = 1
    records["next"] = -1
    try:
        records.tofile(path)
    except OSError as error:
        raise BenchError(f"{path}: cannot be written: {error}; set TMPDIR") from None
