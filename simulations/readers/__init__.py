"""Traces as users have them, read into a `Trace`.

Mooncake, Bailian (Qwen), the form with runs, wactl's own capture, libCacheSim's oracleGeneral:
plain, gzip or zstd, all told apart by their contents.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ..trace import Trace
from . import lines, oracle
from .columns import Columns
from .errors import TraceError
from .source import Source

__all__ = ["TraceError", "load_trace"]


def load_trace(
    path: str,
    *,
    skip_bad: bool = False,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Trace:
    """Read a trace from a file, ``-`` for standard input. Raises `TraceError`.

    ``limit`` takes only the first requests of the file. ``skip_bad`` counts broken lines in
    `Trace.skipped` instead of stopping at the first. ``progress`` is called with the bytes read
    and the bytes in all, as they lie on disk; 0 if unknown.
    """
    with closing(Source(path, progress)) as source:
        columns = Columns(source.label)
        known = oracle.recognised(source.head(oracle.RECORD.itemsize))
        (oracle if known else lines).read(source, columns, skip_bad, limit)
    return columns.trace(_name(path), source.digest)


def _name(path: str) -> str:
    """What a trace is called: the file without its endings."""
    if path == "-":
        return "stdin"
    name = Path(path)
    return Path(name.stem).stem if name.suffix in (".gz", ".zst") else name.stem
