"""The base of every error whose text is meant for the operator."""

from __future__ import annotations


class WactlError(Exception):
    """One sentence: what is wrong, where, and how to put it right. Shown without a traceback."""
