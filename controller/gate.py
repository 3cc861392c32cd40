"""The gate: which candidate the engine is to run, decided on evidence and nothing else.

A pure function of the state, what the contest says, and the time. LRU runs until there are laws
and the shadows see no candidate behind. From then on LRU is always the safe answer, so what it
takes to change differs: suspicion is enough to fall back to it, over the short window or the
long one, by the shadow or by what the engine really hit; a candidate must look better to return;
and it must be better beyond noise to take the place of another. A candidate that fell without
cause is back soon, for its shadow goes on. After each fall LRU stays twice as long.

             laws, none behind                              one is ahead of LRU
  warming ─────────────────────────▶ steady ◀──────────────────────────────────── fallback
                                        │                                            ▲
                                        └────────────────────────────────────────────┘
                                                    seems to be behind LRU
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from .contest import ENGINE, LONG, LRU, SHORT, Lead

SIGMAS = 3.0
"""Standard errors by which a candidate must be ahead of one that runs, or the engine behind."""

RETURNS = 2.0
"""Standard errors by which it must be ahead of LRU to run after a fall."""

SUSPECT = {SHORT: 2.0, LONG: 1.0}
"""Standard errors by which its shadow must be behind LRU to fall, by window. Over the short one
it falls more often without cause, so that takes more."""

WORTH = 0.001
"""Lead in hit ratio below which nothing changes hands."""

BEHIND = 0.002
"""Arrears in hit ratio below which nothing falls."""

EVIDENCE = 6.0
"""Requests that must have made a difference: few large ones tell nothing, whatever their noise."""

SAMPLING = 0.03
"""Further arrears that the engine may have where shadows follow a sample: blocks that everybody
asks for are in it or not, which moves the hit ratio of all shadows alike."""

REST = 60.0
"""Seconds that LRU stays after a first fall; twice as long after each further one."""

LONGEST_REST = 3600.0


class Phase(Enum):
    """What the gate is doing."""

    WARMING = "warming"  # LRU: there are no laws yet
    STEADY = "steady"  # a candidate runs, and is ahead
    FALLBACK = "fallback"  # LRU: what ran was behind


class Evidence(Protocol):
    """What the gate asks of a contest."""

    @property
    def sampled(self) -> bool:
        """Whether the shadows follow a sample, so that the engine's own hits may differ."""

    @property
    def offset(self) -> Lead:
        """By how much LRU's shadow is ahead of an engine that runs LRU itself."""

    def lead(self, one: str, other: str, window: float) -> Lead:
        """By how much ``one`` is ahead of ``other``."""


@dataclass(frozen=True)
class Gate:
    """The state: what runs, since when (seconds), and why."""

    phase: Phase = Phase.WARMING
    running: str = LRU
    since: float = 0.0
    reason: str = "nothing is known yet"
    falls: int = 0


def decide(
    gate: Gate, evidence: Evidence, candidates: tuple[str, ...], now: float, *, obeyed: bool
) -> Gate:
    """The state after a look at the evidence at ``now``.

    ``obeyed`` says whether the engine has run what the gate chose for the whole short window,
    so that its own hits tell as well.
    """
    if gate.running != LRU:
        if fallen := _fallen(gate, evidence, now, obeyed=obeyed):
            return fallen
    elif gate.phase is Phase.FALLBACK and now - gate.since < rest(gate.falls):
        return gate
    return _promoted(gate, evidence, candidates, now) or _forgiven(gate, now)


def rest(falls: int) -> float:
    """Seconds that LRU stays after so many falls."""
    return min(REST * 2.0 ** min(falls - 1, 10), LONGEST_REST)


def _fallen(gate: Gate, evidence: Evidence, now: float, *, obeyed: bool) -> Gate | None:
    running = gate.running
    checks = [(running, window, sigmas, BEHIND) for window, sigmas in SUSPECT.items()]
    if obeyed and evidence.sampled:
        checks.append((ENGINE, LONG, SIGMAS, BEHIND + SAMPLING))
    elif obeyed:
        checks += [(ENGINE, window, SIGMAS, BEHIND) for window in SUSPECT]
    for who, window, sigmas, least in checks:
        arrears = evidence.lead(LRU, who, window)
        if who == ENGINE:
            arrears = arrears.less(evidence.offset)
        if arrears.told >= EVIDENCE and arrears.beyond(sigmas, least):
            whose = "the engine" if who == ENGINE else "its shadow"
            reason = (
                f"{running} stood down: over {window:.0f} s {whose} is "
                f"{100 * arrears.points:.1f} points behind LRU"
            )
            return Gate(Phase.FALLBACK, LRU, now, reason, gate.falls + 1)
    return None


def _promoted(
    gate: Gate, evidence: Evidence, candidates: tuple[str, ...], now: float
) -> Gate | None:
    sigmas = RETURNS if gate.running == LRU else SIGMAS
    best, most = None, -1.0
    for name in candidates:
        lead = evidence.lead(name, gate.running, LONG)
        lately = evidence.lead(name, LRU, SHORT)
        if gate.phase is Phase.WARMING:
            fit = lead.points >= 0.0
        else:
            fit = lead.told >= EVIDENCE and lead.beyond(sigmas, WORTH)
        if name != gate.running and fit and lately.points >= -lately.noise and lead.points > most:
            best, most = name, lead.points
    if best is None:
        return None
    if gate.phase is Phase.WARMING:
        reason = f"there are laws, and {best} is not behind LRU"
    else:
        reason = f"{best} is {100 * most:.1f} points ahead of {gate.running}"
    return Gate(Phase.STEADY, best, now, reason, gate.falls)


def _forgiven(gate: Gate, now: float) -> Gate:
    """A candidate that has run for as long as the longest rest has made up for earlier falls."""
    if gate.falls and gate.phase is Phase.STEADY and now - gate.since > LONGEST_REST:
        return replace(gate, falls=0)
    return gate
