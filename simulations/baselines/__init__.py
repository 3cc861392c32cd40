"""Evictors to compare with: one textbook policy a file, each with a `run` of the same shape."""

from __future__ import annotations
