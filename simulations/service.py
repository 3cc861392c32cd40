"""Replays with requests in flight, as cells of a sweep: hits and what they do to waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from ..controller.family import Family
from ..controller.settings import Settings
from ..policies.errors import WactlError
from .controlled import gated, ungated
from .pinned import Make, PinnedServer, Speeds
from .sweep import Cell, cell_of
from .trace import Trace

POLICIES: dict[str, Make | None] = {
    "lru": None,
    "exponential": partial(ungated, Family.EXPONENTIAL),
    "mixture": partial(ungated, Family.MIXTURE),
    "adaptive": partial(gated, Settings()),
}
"""Those whose order is the engine's own queue, with what their sidecar learns with."""


class PinnedCell(Cell, frozen=True):
    """A replay with requests in flight; seconds are means and the like over requests served."""

    mean_queue_seconds: float
    """From coming to being admitted."""
    mean_first_token_seconds: float
    """From coming to the first token: that, and the time for what was not cached."""
    p95_first_token_seconds: float
    rejected: int
    """Requests bigger than the whole cache; their blocks count as not hit."""


def check(policies: Sequence[str]) -> None:
    """Raise `WactlError` for the first policy that cannot hold blocks."""
    for policy in policies:
        if policy not in POLICIES:
            raise WactlError(f"--pin knows the policies {', '.join(POLICIES)}, but not {policy!r}")


def replay(trace: Trace, policy: str, capacity: int, speeds: Speeds) -> PinnedCell:
    """Replay one trace through one policy on a server of these speeds.

    Raises `WactlError` if it is a sample: how much memory a request holds is not known then.
    """
    if trace.sample > 1:
        raise WactlError(
            f"--pin needs every block, and {trace.name} holds one in {trace.sample}; leave it out"
        )
    start = time.perf_counter()
    server = PinnedServer(trace, capacity, speeds, POLICIES[policy])
    while server.step():
        pass
    cell = cell_of(trace, policy, capacity, server.played(), time.perf_counter() - start)
    first_token = server.first_token or [0.0]
    return PinnedCell(
        **msgspec.structs.asdict(cell),
        mean_queue_seconds=float(np.mean(server.queued or [0.0])),
        mean_first_token_seconds=float(np.mean(first_token)),
        p95_first_token_seconds=float(np.quantile(first_token, 0.95)),
        rejected=server.rejected,
    )
