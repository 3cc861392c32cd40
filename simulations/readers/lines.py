"""Traces of one JSON object a line: which format it is, and its requests."""

from __future__ import annotations

import msgspec

from .capture import Capture
from .columns import Columns
from .errors import CutShort, TraceError
from .published import Published
from .request import Parser
from .source import Source

BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a broken line raises."""


def read(source: Source, columns: Columns, skip_bad: bool, limit: int | None) -> None:
    """Fill the columns from the lines. Raises `TraceError` at the first broken one.

    Where `wactl capture` was killed, what it had written is taken for the whole.
    """
    parser: Parser | None = None
    try:
        for number, line in source.lines():
            try:
                known = parser or _parser(line)
                header = parser is None and isinstance(known, Capture)
                if not header and (request := known.parse(line)) is not None:
                    columns.add(request)
                parser = known
            except BROKEN as error:
                if _unfinished(parser) and not line.endswith(b"\n"):
                    break
                if not skip_bad:
                    raise TraceError(f"{source.label}:{number}: {error}") from None
                columns.skipped += 1
                continue
            columns.block_tokens = parser.block_tokens
            if columns.requests == limit:
                break
    except CutShort:
        if not _unfinished(parser):
            raise
    if isinstance(parser, Capture):
        columns.sample, columns.unseen = parser.sample, parser.unseen
        for remark in parser.remarks() if columns.requests != limit else ():
            columns.warn(remark)


def _unfinished(parser: Parser | None) -> bool:
    return isinstance(parser, Capture) and parser.unfinished


def _parser(line: bytes) -> Parser:
    """The format of which this is the first line."""
    known = line.lstrip().startswith(b"{")
    first = msgspec.json.decode(line, type=dict[str, object]) if known else {}
    if "wactl_capture" in first:
        return Capture(first)
    if "hash_ids" in first or "hash_id_runs" in first:
        return Published(first)
    raise ValueError(
        "is not a Mooncake, Bailian or wactl record, and the file is not oracleGeneral either"
    )
