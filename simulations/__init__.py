"""Traces in, replays and comparisons out: the laboratory around policies and controller."""

from __future__ import annotations
