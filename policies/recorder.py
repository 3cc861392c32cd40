"""The recorder: what is known of each request in flight, and what the sidecar is told of it.

Engine and simulator share it. It infers the features of an admitted request, looks up the
categories of the two parts of its prompt, and remembers both until the request's blocks
become free and have to be tagged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blocks import DEFAULT, Ids
from .chains import new_chains, visit
from .features import FEATURES, LENGTH, POSITION, SESSION, Features
from .messages import Admission
from .recent import Keys
from .sample import TARGET_BLOCKS, sampled, shift_for
from .table import CompiledTable, DecisionTable, classify, compile_table

IN_FLIGHT = 65536
"""Requests remembered at most; the oldest is forgotten first, and its blocks go untagged."""

CHAIN_ENTRIES = 8 * TARGET_BLOCKS
"""Followed blocks in the index of recent chains: eight times what the cache holds of them."""


@dataclass(frozen=True)
class InFlight:
    """A request whose blocks are in use: when it came, its categories (new, carried)."""

    admitted: float
    carried: int
    categories: Ids


class Recorder:
    """Follows the requests of one engine whose cache has ``blocks`` blocks."""

    def __init__(self, blocks: int) -> None:
        self.shift = shift_for(blocks)
        self.slack = 2 + (3 << self.shift if self.shift else 0)
        self.admitted = 0
        self.table = DecisionTable(())
        self._compiled = compile_table(self.table)
        self._chains = new_chains(CHAIN_ENTRIES)
        self._in_flight: dict[str, InFlight] = {}

    def follow(self, table: DecisionTable, compiled: CompiledTable) -> None:
        """Classify by this table from now on; requests in flight lose their category."""
        self.table, self._compiled = table, compiled
        unknown = np.array([DEFAULT, DEFAULT])
        self._in_flight = {
            name: InFlight(known.admitted, known.carried, unknown)
            for name, known in self._in_flight.items()
        }

    def admit(
        self,
        request: str,
        keys: Keys,
        hits: int,
        features: Features,
        now: float,
        *,
        replay: bool = False,
        unread: bool = False,
    ) -> Admission:
        """A request whose prompt blocks have these keys was admitted and hit ``hits`` of them.

        ``features`` is the vector with everything but turn and gaps filled in; it is changed.
        """
        length = len(keys)
        keys, positions = sampled(keys, self.shift)
        before = self._in_flight.get(request) if replay else None
        if before is not None:
            known = InFlight(now, before.carried, before.categories)
        else:
            known = self._recognise(keys, positions, length, hits, features, now)
        self._remember(request, known)
        self.admitted += 1
        return Admission(
            now,
            tuple(features.tolist()),
            length,
            hits,
            known.carried,
            replay,
            unread,
            keys.tobytes(),
            positions.tobytes(),
        )

    def release(self, request: str, *, preempted: bool = False) -> InFlight | None:
        """What is known of a request whose blocks are about to become free.

        It is forgotten, unless it was only preempted and will be admitted again.
        """
        if preempted:
            return self._in_flight.get(request)
        return self._in_flight.pop(request, None)

    def _recognise(
        self, keys: Keys, positions: Keys, length: int, hits: int, features: Features, now: float
    ) -> InFlight:
        session = np.uint64(features[SESSION])
        known = visit(self._chains, keys, positions, length, self.slack, session, now, features)
        carried = max(known, hits)
        categories = np.empty(2, np.int64)
        for position in (1, 0):
            features[POSITION] = position
            categories[position] = classify(self._compiled, features)
        return InFlight(now, carried, categories)

    def _remember(self, request: str, known: InFlight) -> None:
        if len(self._in_flight) >= IN_FLIGHT:
            del self._in_flight[next(iter(self._in_flight))]
        self._in_flight[request] = known


def blank_features(length: int) -> Features:
    """A feature vector with the prompt's length in tokens set, the rest 0."""
    features = np.zeros(len(FEATURES))
    features[LENGTH] = length
    return features
