"""wactl's own capture of live traffic, see docs/capture.md for every field.

The first line is ``{"wactl_capture": 1, "block_tokens": N}`` and may say more; then comes a line
a request: ``{"t": seconds, "in": tokens, "out": tokens, "b": [block ids]}`` and, where known,
``"type"``, ``"turn"`` (from 1) and ``"session"``. Between them `wactl capture` notes what was
lost, and a last line says that the file is whole. Files of one capture may be joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from .request import Clock, Count, Request, from_ids

VERSION = 1


class _Header(msgspec.Struct, frozen=True):
    wactl_capture: int
    block_tokens: Count
    sample: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    capture: str = ""
    """Names the capture; only `wactl capture` gives one, and only it ends files with a line."""


class _Line(
    msgspec.Struct,
    rename={
        **{"time": "t", "input_tokens": "in", "output_tokens": "out", "blocks": "b"},
        "full_blocks": "n",
    },
):
    time: Clock
    input_tokens: Count
    output_tokens: Count
    blocks: list[int]
    type: str = ""
    turn: Count = 0
    session: str = ""
    full_blocks: Count | None = None


class _Note(msgspec.Struct):
    """Whatever is no request."""

    wactl_capture: int | None = None
    gap: Count | None = None
    """Messages of the stream that did not arrive."""
    dropped: Count = 0
    """Requests that the engine could not tell of."""
    end: str | None = None


class Capture:
    """Reads the lines after the header."""

    def __init__(self, header: dict[str, object]) -> None:
        self._header = msgspec.convert(header, _Header)
        if self._header.wactl_capture != VERSION:
            raise ValueError(f"is a capture of version {self._header.wactl_capture}, not {VERSION}")
        self.block_tokens = self._header.block_tokens
        self.sample = self._header.sample
        self.unfinished = bool(self._header.capture)
        """A last line is still to come."""
        self.unseen = 0
        """Blocks of the prompts so far that were not recorded."""
        self._lost = self._dropped = 0
        self._lines = msgspec.json.Decoder(_Line)
        self._notes = msgspec.json.Decoder(_Note)

    def parse(self, line: bytes) -> Request | None:
        """The request of a line, None if it holds a note."""
        try:
            record = self._lines.decode(line)
        except msgspec.ValidationError:
            if not self._noted(line):
                raise
            return None
        if self.sample > 1:
            self.unseen += _unseen(record, self.sample)
        return Request(
            record.time,
            from_ids(record.blocks),
            record.input_tokens,
            record.output_tokens,
            record.type,
            record.turn,
            record.session,
        )

    def remarks(self) -> Iterator[str]:
        """What is wrong with the file as a whole."""
        if self._lost or self._dropped:
            yield (
                f"lacks {self._lost} messages of the stream and {self._dropped} records that were "
                "lost while it was captured"
            )
        if self.unfinished:
            yield "was cut short, or is still being captured; its complete lines are used"

    def _noted(self, line: bytes) -> bool:
        note = self._notes.decode(line)
        if note.wactl_capture is not None:
            header = msgspec.json.decode(line, type=_Header)
            if header != self._header or not header.capture:
                raise ValueError("begins another capture; replay that on its own")
            self.unfinished = True
        elif note.gap is not None:
            self._lost += note.gap
            self._dropped += note.dropped
        elif note.end is not None:
            self.unfinished = False
        else:
            return False
        return True


def _unseen(record: _Line, sample: int) -> int:
    """How many blocks the prompt has that are not in the line; a guess if it does not say."""
    seen = len(record.blocks)
    full = seen * sample if record.full_blocks is None else record.full_blocks
    if full < seen:
        raise ValueError(f"has {seen} blocks of {full}")
    return full - seen
