"""A trace in memory: requests as columns, blocks as one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in time order.

    Request ``i`` came ``times[i]`` seconds after the first and asked for the blocks
    ``blocks[offsets[i]:offsets[i + 1]]``, head first. Blocks are numbered densely from 0 to
    ``distinct - 1``; the same number is the same block after the same prefix, so each has one
    predecessor. ``types`` and ``turns`` are what the trace declares, None where it does not.
    """

    name: str
    times: NDArray[np.float64]
    offsets: NDArray[np.int64]
    blocks: NDArray[np.int32]
    distinct: int
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    types: Sequence[str] | None = None
    turns: NDArray[np.int32] | None = None
    sessions: Sequence[str] | None = None
    block_tokens: int = 0
    """Tokens of a block, 0 if the trace does not say."""
    sample: int = 1
    """One block in this many is here, picked by a hash."""
    unseen: int = 0
    """Block accesses of the other blocks, which were counted but not recorded."""
    skipped: int = 0
    """Broken lines left out."""
    digest: str = field(default="", repr=False)
    """SHA-256 of the uncompressed bytes it was read from."""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.times)

    @property
    def accesses(self) -> int:
        """Block accesses of the traffic, recorded or not."""
        return len(self.blocks) + self.unseen

    @property
    def tokens_per_block(self) -> int:
        """Tokens of a block as the trace says, else as follows from the lengths of its prompts."""
        tokens = int(np.sum(self.input_tokens))
        return self.block_tokens or max(1, round(tokens / max(1, self.accesses)))

    def prompt(self, request: int) -> NDArray[np.int32]:
        """The blocks of one request, head first."""
        return self.blocks[self.offsets[request] : self.offsets[request + 1]]

    def parents(self) -> NDArray[np.int32]:
        """The predecessor of each block, -1 for the first of a prompt; shape ``(distinct,)``."""
        parents = np.full(self.distinct, -1, np.int32)
        before = np.empty_like(self.blocks)
        before[1:] = self.blocks[:-1]
        starts = self.offsets[:-1]
        before[starts[starts < len(before)]] = -1
        parents[self.blocks] = before
        return parents
