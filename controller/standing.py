"""How the contest stands, as the status tells it."""

from __future__ import annotations

from .contest import LONG, LRU
from .loop import Loop
from .status import Contestant, Gate


def gate_report(loop: Loop, block_tokens: int, now: float) -> Gate:
    """The gate of an engine with blocks of so many tokens, at ``now`` (seconds)."""
    contest, gate = loop.contest, loop.gate
    window = next(window for window in contest.windows if window.seconds == LONG)
    found = []
    for index, name in enumerate(contest.names):
        lead = contest.lead(name, LRU, LONG)
        ratio = float(window.hits[index] / window.blocks) if window.blocks else None
        hits = float(contest.total_hits[index])
        known = name, ratio, lead.points, lead.noise, hits
        if (shadow := contest.shadows.get(name)) is None:
            found.append(Contestant(*known))
            continue
        idle = tuple((contest.scale * shadow.evicted_idle).tolist())
        found.append(Contestant(*known, sum(idle), idle, contest.scale * shadow.regretted))
    return Gate(
        phase=gate.phase.value,
        running=gate.running,
        since_seconds=max(0.0, now - gate.since),
        reason=gate.reason,
        falls=gate.falls,
        saved_tokens=round(loop.saved_blocks * block_tokens),
        contestants=tuple(found),
        engine_offset=-contest.offset.points if contest.calibrated else None,
    )
