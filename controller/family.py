"""The shapes a time-to-reuse law may have."""

from __future__ import annotations

from enum import Enum


class Family(Enum):
    """How many rates a law has: one of its own, or six that all categories share."""

    EXPONENTIAL = "exponential"
    MIXTURE = "mixture"
