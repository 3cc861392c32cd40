"""What a policy did with a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Played:
    """Whether each block access of the trace found its block, and what the cache did."""

    hits: NDArray[np.uint8]
    """Per access, in the trace's order: 1 if the block was resident."""
    evictions: int
    orphans: int
    """Blocks evicted while a block behind them in the same prefix was still resident."""

    def prefix_hits(self, offsets: NDArray[np.int64]) -> int:
        """Hits that save prefill: those with every earlier block of the prompt hit too."""
        return int(_prefix_hits(self.hits, offsets))


@njit(cache=True)
def _prefix_hits(hits: NDArray[np.uint8], offsets: NDArray[np.int64]) -> int:
    total = 0
    for request in range(len(offsets) - 1):
        for access in range(offsets[request], offsets[request + 1]):
            if not hits[access]:
                break
            total += 1
    return total
