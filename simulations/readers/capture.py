"""wactl's own capture of live traffic.

The first line is ``{"wactl_capture": 1, "block_tokens": N}`` and may say more; then comes a line
a request: ``{"t": seconds, "in": tokens, "out": tokens, "b": [block ids]}`` and, where known,
``"type"``, ``"turn"`` (from 1) and ``"session"``.
"""

from __future__ import annotations

import msgspec

from .request import Clock, Count, Request, from_ids

VERSION = 1


class _Header(msgspec.Struct):
    wactl_capture: int
    block_tokens: Count


class _Line(
    msgspec.Struct,
    rename={"time": "t", "input_tokens": "in", "output_tokens": "out", "blocks": "b"},
):
    time: Clock
    input_tokens: Count
    output_tokens: Count
    blocks: list[int]
    type: str = ""
    turn: Count = 0
    session: str = ""


class Capture:
    """Reads the lines after the header."""

    def __init__(self, header: dict[str, object]) -> None:
        known = msgspec.convert(header, _Header)
        if known.wactl_capture != VERSION:
            raise ValueError(f"is a capture of version {known.wactl_capture}, not {VERSION}")
        self.block_tokens = known.block_tokens
        self._decoder = msgspec.json.Decoder(_Line)

    def parse(self, line: bytes) -> Request:
        """The request of a line."""
        record = self._decoder.decode(line)
        return Request(
            record.time,
            from_ids(record.blocks),
            record.input_tokens,
            record.output_tokens,
            record.type,
            record.turn,
            record.session,
        )
