"""What a reader says when it cannot go on."""

from __future__ import annotations

from ...policies.errors import WactlError


class TraceError(WactlError):
    """The trace cannot be read; the text says which file and line, and why."""


class CutShort(TraceError):
    """The compressed trace ends before its end; all before that has been read."""
