"""What is asked of every preset, and the errors of asking."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from ...policies.errors import WactlError

BLOCK_TOKENS = 256
"""Tokens of a block: short prompts still have a few, and long contexts only hundreds."""
WARM = 7200.0
"""Seconds before the trace in which conversations begin that it finds under way."""
MAX_REQUESTS = 1_000_000
"""Requests of a trace and the time before it, so that the columns take no gigabyte."""
MAX_ACCESSES = 20_000_000
"""Block accesses of a trace, so that its blocks stay below a gigabyte while they are numbered."""


class GenerateError(WactlError):
    """No such trace can be made or written; the text says why."""


@dataclass(frozen=True)
class Plan:
    """How much of a preset: ``seconds`` of it, ``rate`` requests a second in the mean.

    ``blocks`` is the cache that adversaries aim at. Raises `GenerateError` for a trace that
    would be empty or too big.
    """

    seconds: float = 3600.0
    rate: float = 3.0
    blocks: int = 1000
    seed: int = 7

    def __post_init__(self) -> None:
        for option, value in (("--seconds", self.seconds), ("--rate", self.rate)):
            if not (math.isfinite(value) and value > 0.0):
                raise GenerateError(f"{option} must be a number above 0, not {value:g}")
        if (self.seconds + WARM) * self.rate > MAX_REQUESTS:
            raise GenerateError(
                f"{self.seconds:g} seconds, and {WARM:g} before them, of {self.rate:g} requests a "
                f"second are more than {MAX_REQUESTS} requests; lower --seconds or --rate"
            )

    def rng(self, name: str) -> np.random.Generator:
        """Randomness for the part of that name: the others may change, it stays the same."""
        return np.random.default_rng((self.seed, zlib.crc32(name.encode())))
