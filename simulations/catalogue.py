"""Every policy of the laboratory, with what it needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..policies.errors import WactlError
from . import controlled, paper
from .baselines import arc, belady, fifo, gdsf, lfu, lru, s3fifo, sieve, wtinylfu
from .played import Played
from .trace import Trace


@dataclass(frozen=True)
class Policy:
    """A policy and its abilities."""

    name: str
    run: Callable[[Trace, int], Played]
    """Replay a trace with a cache of so many blocks."""
    summary: str
    needs_time: bool = False
    needs_categories: bool = False
    needs_future: bool = False
    exact: bool = False
    """Over single accesses it equals libCacheSim to the last miss."""


_LEARNS = {"needs_time": True, "needs_categories": True}

POLICIES = {
    policy.name: policy
    for policy in (
        Policy("lru", lru.run, "vLLM's own order: used longest ago first, tails first", exact=True),
        Policy("fifo", fifo.run, "stored longest ago first", exact=True),
        Policy("lfu", lfu.run, "used least often first", exact=True),
        Policy("gdsf", gdsf.run, "greedy dual with frequency, unit sizes"),
        Policy("s3fifo", s3fifo.run, "three static queues (SOSP'23)", exact=True),
        Policy("sieve", sieve.run, "one queue and a hand (NSDI'24)", exact=True),
        Policy("arc", arc.run, "adaptive replacement cache (FAST'03)", exact=True),
        Policy("wtinylfu", wtinylfu.run, "window and a frequency filter"),
        Policy(
            "belady",
            belady.run,
            "clairvoyant: used again latest first",
            needs_future=True,
            exact=True,
        ),
        Policy("paper", paper.run, "the ATC'25 paper's, fitted once on the beginning", **_LEARNS),
        Policy("exponential", controlled.exponential, "learned online, one exponential", **_LEARNS),
        Policy("mixture", controlled.mixture, "learned online, six exponentials", **_LEARNS),
        Policy("adaptive", controlled.adaptive, "the whole controller as shipped", **_LEARNS),
    )
}


def find(name: str) -> Policy:
    """The policy of that name. Raises `WactlError` naming those there are."""
    if name not in POLICIES:
        raise WactlError(f"no policy {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name]
