"""The published forms: Mooncake's, Bailian's (Qwen) and the one with runs.

All are JSON Lines with the same few names. Mooncake (FAST '25) counts milliseconds and blocks
of 512 tokens; Bailian seconds and blocks of 16, with the chat each request continues. The third
says ``block_size`` and may give ``hash_id_runs``, inclusive ranges, in place of ``hash_ids``.
"""

from __future__ import annotations

import msgspec

from .request import Clock, Count, Request, from_ids, from_runs

MOONCAKE_BLOCK = 512
BAILIAN_BLOCK = 16

SECONDS = ("chat_id", "session_id", "block_size", "hash_id_runs")
"""Any of these in a record tells that it is not Mooncake's, and that time is in seconds."""


class _Line(msgspec.Struct):
    timestamp: Clock
    input_length: Count = 0
    output_length: Count = 0
    hash_ids: list[int] | None = None
    hash_id_runs: list[tuple[int, int]] | None = None
    block_size: Count | None = None
    type: str = ""
    turn: Count = 0
    session_id: str = ""
    chat_id: int | str | None = None
    parent_chat_id: int | str | None = None


class Published:
    """Reads the lines of one file, whose first record says which form it is."""

    def __init__(self, first: dict[str, object]) -> None:
        seconds = any(name in first for name in SECONDS)
        self._unit = 1.0 if seconds else 1e-3
        self._decoder = msgspec.json.Decoder(_Line)
        self._roots: dict[int | str, int | str] = {}
        size = first.get("block_size")
        default = BAILIAN_BLOCK if "chat_id" in first else 0 if seconds else MOONCAKE_BLOCK
        self.block_tokens = size if isinstance(size, int) else default

    def parse(self, line: bytes) -> Request:
        """The request of a line."""
        record = self._decoder.decode(line)
        if record.block_size not in (None, self.block_tokens):
            raise ValueError(f"has block_size {record.block_size}, others {self.block_tokens}")
        if record.hash_ids is not None:
            blocks = from_ids(record.hash_ids)
        elif record.hash_id_runs is not None:
            blocks = from_runs(record.hash_id_runs)
        else:
            raise ValueError("has neither hash_ids nor hash_id_runs")
        return Request(
            record.timestamp * self._unit,
            blocks,
            record.input_length,
            record.output_length,
            record.type,
            record.turn,
            record.session_id or self._session(record),
        )

    def _session(self, record: _Line) -> str:
        """The chat that the request's conversation began with."""
        if record.chat_id is None:
            return ""
        parent = record.parent_chat_id
        root = record.chat_id if parent in (None, -1) else self._roots.get(parent, parent)
        self._roots[record.chat_id] = root
        return str(root)
