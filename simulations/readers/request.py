"""One request as every format gives it, and the bounds its values must keep.

Whatever breaks a bound raises ``ValueError`` or ``msgspec.MsgspecError`` with the reason; the
caller adds file and line.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

MAX_BLOCKS = 10_000_000
"""Blocks a prompt may have: ten times the longest context there is, in one-token blocks."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A number of tokens or of turns: what the columns of a trace can hold."""
Clock = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
"""Seconds or milliseconds: up to here, differences between two of them are exact enough."""


class Request(NamedTuple):
    """Seconds on the trace's own clock, block ids head first, and what is declared of it."""

    time: float
    blocks: NDArray[np.uint64]
    input_tokens: int
    output_tokens: int
    type: str = ""
    turn: int = 0
    session: str = ""


class Parser(Protocol):
    """A format of one request a line."""

    @property
    def block_tokens(self) -> int:
        """Tokens of a block."""

    def parse(self, line: bytes) -> Request | None:
        """The request of a line, None if it tells of something else."""


def from_ids(ids: Sequence[int]) -> NDArray[np.uint64]:
    """The ids as a column."""
    if len(ids) > MAX_BLOCKS:
        raise ValueError(f"has more than {MAX_BLOCKS} blocks")
    try:
        return np.asarray(array("Q", ids))
    except OverflowError:
        raise ValueError("has a block id outside 0 to 2^64 - 1") from None


def from_runs(runs: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """The ids of inclusive ranges, one after the other; one that ends before it begins has none."""
    pairs = from_ids(list(chain.from_iterable(runs))).reshape(-1, 2)
    first, last = pairs[:, 0], pairs[:, 1]
    one = np.uint64(1)
    lengths = np.where(last < first, 0, np.minimum(last - first, MAX_BLOCKS) + one).astype(np.int64)
    if lengths.sum() > MAX_BLOCKS:
        raise ValueError(f"has more than {MAX_BLOCKS} blocks")
    # What to add to 0, 1, 2, … so that each run starts at its first; modulo 2^64, as all here.
    shifts = first - (np.cumsum(lengths) - lengths).astype(np.uint64)
    return np.arange(lengths.sum(), dtype=np.uint64) + np.repeat(shifts, lengths)
