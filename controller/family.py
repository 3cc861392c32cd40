"""The shapes a time-to-reuse law may have."""

from __future__ import annotations

from enum import Enum


class Family(Enum):
    """What is fitted to the ages of reuse of a category."""

    EXPONENTIAL = "exponential"  # one rate of its own
    MIXTURE = "mixture"  # six rates that all categories share
    LIFE_TABLE = "life-table"  # a hazard for each span of age, never rising
