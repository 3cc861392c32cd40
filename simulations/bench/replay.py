"""What a replay costs: reading a trace, and taking it through wactl's policies.

Seconds are the processor's, the median of the repeats: all of it runs on one core and waits for
nothing, so that is the time on the clock, unless others use the core as well. One more goes
before the repeats: it compiles kernels or reads them from disk, and brings the file into memory.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from ..catalogue import find
from ..readers import load_trace
from ..trace import Trace
from ..workload import BLOCK_TOKENS, generate
from .errors import BenchError

POLICIES = ("lru", "exponential", "mixture")
MINUTES, TRAFFIC = 120.0, 4.0
"""The made-up workload: 3.7 million accesses to 0.9 million blocks."""


class Pace(msgspec.Struct, frozen=True):
    """What was done with a trace, and how fast."""

    what: str
    """``load`` or the name of a policy."""
    seconds: float
    accesses_per_second: float


@contextmanager
def trace_file(path: str | None) -> Iterator[str]:
    """The path of a trace to read again and again, without one that of the made-up workload.

    Raises `BenchError`.
    """
    if path == "-":
        raise BenchError("bench replay reads the trace more than once: name a file instead of -")
    if path is not None:
        yield path
        return
    with TemporaryDirectory(prefix="wactl-bench-") as folder:
        made_up = Path(folder) / "workload.jsonl.gz"
        _write(made_up)
        yield str(made_up)


def load(path: str, repeats: int) -> tuple[Trace, Pace]:
    """Read a trace. Raises `TraceError`."""
    trace = load_trace(path)
    return trace, _pace("load", trace, timed(lambda: load_trace(path), repeats))


def replay(trace: Trace, capacity: int, repeats: int, policy: str) -> Pace:
    """Take the trace through a policy with a cache of ``capacity`` blocks."""
    run = find(policy).run
    run(trace, capacity)
    return _pace(policy, trace, timed(lambda: run(trace, capacity), repeats))


def timed(work: Callable[[], object], repeats: int) -> list[float]:
    """The processor's seconds for each repeat."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return found


def _pace(what: str, trace: Trace, seconds: list[float]) -> Pace:
    once = median(seconds)
    return Pace(what, once, len(trace.blocks) / once)


def _write(path: Path) -> None:
    encode = msgspec.json.Encoder().encode
    with gzip.open(path, "wb", compresslevel=1) as file:
        for prompt in generate(MINUTES, traffic=TRAFFIC):
            line = {
                "timestamp": prompt.time,
                "input_length": prompt.input_length,
                "output_length": prompt.output_length,
                "block_size": BLOCK_TOKENS,
                "hash_ids": prompt.blocks,
            }
            file.write(encode(line) + b"\n")
