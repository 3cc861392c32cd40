"""The error of a bench, apart from what measures: some of that must not be loaded early."""

from __future__ import annotations

from ...policies.errors import WactlError


class BenchError(WactlError):
    """A bench cannot be run; the text says why and what to do."""
