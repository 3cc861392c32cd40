"""libCacheSim's oracleGeneral: packed records of one object each, no text.

A record is time (u32, seconds), object id (u64), size (u32) and the number of the next request
for the object (i64; -1 or the largest i64 if there is none), little-endian. An object is taken
for a prompt of one block. Source: libCacheSim, traceReader/customizedReader/oracle.
"""

from __future__ import annotations

import numpy as np

from .columns import Columns
from .errors import TraceError
from .source import Source

RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
BATCH = 65_536
"""Records read at once."""
LONGEST = 2**40
"""Requests a trace can have: a greater ``next`` in the first record means another format."""


def recognised(head: bytes) -> bool:
    """Whether the first bytes of a file are a record."""
    if len(head) < RECORD.itemsize:
        return False
    following = int(np.frombuffer(head, RECORD, 1)["next"][0])
    return 0 < following < LONGEST or following in (-1, 2**63 - 1)


def read(source: Source, columns: Columns, skip_bad: bool, limit: int | None) -> None:
    """Fill the columns from the records. Raises `TraceError` if the last one is cut short."""
    while limit is None or columns.requests < limit:
        count = BATCH if limit is None else min(BATCH, limit - columns.requests)
        data = source.read(count * RECORD.itemsize)
        whole, rest = divmod(len(data), RECORD.itemsize)
        records = np.frombuffer(data, RECORD, whole)
        columns.add_single(records["time"], records["id"])
        if rest and not skip_bad:
            raise TraceError(f"{source.label}: record {columns.requests + 1} is cut short")
        columns.skipped += rest > 0
        if whole < count:
            return
