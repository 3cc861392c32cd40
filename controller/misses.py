"""Misses explained: why blocks of prompts were not in the cache when they were asked for.

A block that is missed was never seen (*cold*), or seen and gone since (*evicted*). Two more
reasons are no fault of the order: the block is held by a request that still runs, so that it
cannot have been evicted and was only not computed yet (*unready*); and the *last* block of a
prompt that fills it to the brim, which vLLM computes in any case, to have something to go on from.

There is no reason "cached, but behind a block that is missing": a key stands for all before it,
whoever uses a block uses those before it as well, and in both orders the last goes first. So
what is behind an evicted block is evicted.

Followed blocks are looked up in the ghost index, and each stands for 2**shift: what is told of a
sample is an estimate, and of a cache whose blocks are all followed the exact count. "Never seen"
means: not by the ghost index, which forgets those idle longest. Admissions after a preemption are
not looked at, nor are requests that do not want to read the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..policies.blocks import Ids
from ..policies.features import LENGTH, Features
from ..policies.messages import Admission
from ..policies.recent import Keys
from .classify import SLOTS
from .status import IDLE_AGES, Missed, Tenant
from .words import PLACES, hear, new_words, place_of

COLD, UNREADY, LAST, SHORT_TOKENS, SHORT_REQUESTS, EVICTED = range(6)
"""Columns of counts; from `EVICTED` on there is one for each span of `IDLE_AGES`."""

COLUMNS = EVICTED + len(IDLE_AGES) + 1

SOME = 1 + PLACES
"""Rows of tenants: 0 of those that have no place, then the places, then of no tenant at all."""

_EDGES = np.array(IDLE_AGES)

Counts = NDArray[np.int64]
"""Followed blocks, or for `SHORT_TOKENS` and `SHORT_REQUESTS` tokens and requests, by column."""


class Misses:
    """Counts of one engine's misses, by the slot of a rule and by tenant.

    ``block_tokens`` is the size of its blocks, of which one in 2**shift is followed.
    """

    def __init__(self, block_tokens: int = 16, shift: int = 0) -> None:
        self.block_tokens = block_tokens
        self.scale = 1 << shift
        self.by_rule = np.zeros((SLOTS, COLUMNS), np.int64)
        self.by_tenant = np.zeros((SOME + 1, COLUMNS), np.int64)
        self.requests = np.zeros(SOME + 1, np.int64)
        self._words = new_words(1)

    def explain(
        self, admission: Admission, positions: Keys, places: Ids, idle: Features, users: Ids
    ) -> Counts:
        """Why the followed blocks of a prompt were missed: shape ``(2, COLUMNS)``, new and carried.

        ``idle`` is for how many seconds nobody had asked for a block, infinite for one never seen;
        ``users`` tells by place how many running requests hold a block, empty if nobody knows.
        """
        found = np.zeros((2, COLUMNS), np.int64)
        if admission.unread:
            return found
        blocks, hits = admission.blocks, admission.hits
        beyond = max(0, int(admission.features[LENGTH]) - blocks * self.block_tokens)
        found[0, SHORT_TOKENS] = beyond
        found[0, SHORT_REQUESTS] = blocks == 0
        last = hits if hits == blocks - 1 and beyond == 0 else -1
        _explain(positions, places, idle, users, hits, admission.carried, last, found)
        return found

    def count(self, missed: Counts, rules: tuple[int, int], tenant: float, now: float) -> None:
        """A request has ended, whose new and carried blocks belong to these rules."""
        for slot, part in zip(rules, missed, strict=True):
            self.by_rule[slot] += part
        if taken := hear(self._words[0], tenant, now):
            self.by_tenant[taken] = self.requests[taken] = 0
        row = place_of(self._words[0], tenant) if tenant else SOME
        self.by_tenant[row] += missed.sum(axis=0)
        self.requests[row] += 1

    def of_rule(self, slot: int) -> Missed:
        """What is known of a rule."""
        return _missed(self.by_rule[slot], self.scale)

    def of_all(self) -> Missed:
        """What is known of all requests that have ended."""
        return _missed(self.by_rule.sum(axis=0), self.scale)

    def tenants(self) -> tuple[Tenant, ...]:
        """What is known of the tenants that have a place, and of all others together."""
        names = ["other", *(f"{int(w['digest']) & 0xFFFFFFFF:08x}" for w in self._words[0]), "none"]
        return tuple(
            Tenant(name, int(self.requests[row]), _missed(self.by_tenant[row], self.scale))
            for row, name in enumerate(names)
            if self.requests[row]
        )


def _missed(row: Counts, scale: int) -> Missed:
    """A row of counts in words; each followed block stands for ``scale``."""
    counts = row.tolist()
    evicted = tuple(scale * count for count in counts[EVICTED:])
    return Missed(
        cold=scale * counts[COLD],
        evicted=sum(evicted),
        unready=scale * counts[UNREADY],
        last=scale * counts[LAST],
        evicted_idle=evicted,
        short_tokens=counts[SHORT_TOKENS],
        short_requests=counts[SHORT_REQUESTS],
    )


@njit(cache=True)
def span_of(idle: float) -> int:
    """Which span of `IDLE_AGES` so many idle seconds lie in, an edge belonging to the one above."""
    found = 0
    for edge in _EDGES:
        found += edge <= idle
    return found


@njit(cache=True)
def _explain(
    positions: Keys,
    places: Ids,
    idle: Features,
    users: Ids,
    hits: int,
    carried: int,
    last: int,
    found: Counts,
) -> None:
    for index in range(len(positions)):
        at = np.int64(positions[index])
        if at < hits:
            continue
        if idle[index] == np.inf:
            column = COLD
        elif at == last:
            column = LAST
        elif len(users) and users[places[index]] > 0:
            column = UNREADY
        else:
            column = EVICTED + span_of(idle[index])
        found[1 if at < carried else 0, column] += 1
