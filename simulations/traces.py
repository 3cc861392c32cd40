"""Prompts one by one, for replays into a real server."""

from __future__ import annotations

from pathlib import Path

import msgspec

from .readers import TraceError, load_trace

__all__ = ["Prompt", "TraceError", "read_trace"]


class Prompt(msgspec.Struct, frozen=True):
    """One request: seconds since the trace began, block ids head first, lengths in tokens."""

    time: float
    blocks: tuple[int, ...]
    input_length: int
    output_length: int


def read_trace(path: Path, limit: int | None = None) -> list[Prompt]:
    """The prompts of a file in time order, at most ``limit``. Raises `TraceError`."""
    trace = load_trace(str(path), limit=limit)
    columns = zip(
        trace.times.tolist(),
        (tuple(trace.prompt(request).tolist()) for request in range(trace.requests)),
        trace.input_tokens.tolist(),
        trace.output_tokens.tolist(),
        strict=True,
    )
    return [Prompt(*column) for column in columns]
