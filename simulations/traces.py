"""Request traces: when a prompt came and which blocks it was made of.

Two published formats are read, JSON Lines, plain or gzipped. Mooncake: ``timestamp`` in
milliseconds, ``input_length``, ``output_length``, ``hash_ids``. Bailian (Qwen): ``timestamp``
in seconds, with ``chat_id`` and the like. Either may give ``hash_id_runs``, inclusive ranges,
in place of ``hash_ids``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import msgspec

from ..policies.errors import WactlError

LONGEST_PROMPT = 1_000_000
"""Blocks a prompt may have; more is a broken line."""


class TraceError(WactlError):
    """The trace cannot be read; the text says which line and why."""


class Prompt(msgspec.Struct, frozen=True):
    """One request: seconds since the trace began, block ids head first, lengths in tokens."""

    time: float
    blocks: tuple[int, ...]
    input_length: int
    output_length: int


class _Line(msgspec.Struct):
    timestamp: float
    input_length: int = 0
    output_length: int = 0
    hash_ids: list[int] | None = None
    hash_id_runs: list[tuple[int, int]] | None = None
    chat_id: int | str | None = None
    session_id: str | None = None
    block_size: int | None = None

    def blocks(self) -> tuple[int, ...]:
        if self.hash_ids is not None:
            return tuple(self.hash_ids)
        runs = self.hash_id_runs or []
        if sum(max(0, last - first + 1) for first, last in runs) > LONGEST_PROMPT:
            raise ValueError(f"has more than {LONGEST_PROMPT} blocks")
        return tuple(block for first, last in runs for block in range(first, last + 1))


def read_trace(path: Path, limit: int | None = None) -> list[Prompt]:
    """The prompts of a file in time order, at most ``limit``. Raises `TraceError`."""
    prompts: list[Prompt] = []
    for prompt in _prompts(path):
        if limit is not None and len(prompts) >= limit:
            break
        prompts.append(prompt)
    if not prompts:
        raise TraceError(f"{path}: holds no requests")
    prompts.sort(key=lambda prompt: prompt.time)
    start = prompts[0].time
    return [msgspec.structs.replace(prompt, time=prompt.time - start) for prompt in prompts]


def _prompts(path: Path) -> Iterator[Prompt]:
    decoder = msgspec.json.Decoder(_Line)
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, start=1):
                if not raw.strip():
                    continue
                try:
                    line = decoder.decode(raw)
                    blocks = line.blocks()
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    raise TraceError(f"{path}:{number}: {error}") from None
                # Only Mooncake's own files count milliseconds, and they hold nothing else.
                seconds = line.chat_id is not None or line.session_id or line.block_size
                time = line.timestamp if seconds else line.timestamp / 1000.0
                yield Prompt(time, blocks, line.input_length, line.output_length)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TraceError(f"{path}: cannot be read: {reason}") from None


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
