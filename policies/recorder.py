"""The recorder: what is known of each request in flight, and what the sidecar is told of it.

Engine and simulator share it. It infers the features of an admitted request and remembers them
until the request has finished and its blocks become free. Only then the categories of the two
parts of its prompt are looked up: by then it is known how much was generated, which tells the
turns of an agent from its last answer, and no block could have been evicted before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .blocks import Ids
from .chains import new_chains, visit
from .features import (
    CARRIED,
    GENERATED,
    POSITION,
    SESSION,
    TEMPLATE,
    Features,
    digest_of,
)
from .messages import Admission, Finish
from .recent import Keys
from .sample import TARGET_BLOCKS, mix, sampled, shift_for
from .table import EMPTY, CompiledTable, classify, compile_table

IN_FLIGHT = 65536
"""Requests remembered at most; the oldest is forgotten first, and its blocks go untagged."""

CHAIN_ENTRIES = 8 * TARGET_BLOCKS
"""Followed blocks in the index of recent chains: eight times what the cache holds of them."""

TEMPLATE_TOKENS = 64
"""Tokens at the head of a prompt that tell its template, rounded up to whole blocks."""


class InFlight(NamedTuple):
    """A request whose blocks are in use: its number, when it came, what is known of it."""

    number: int
    admitted: float
    carried: int
    features: Features


class Released(NamedTuple):
    """How to tag the blocks of a request that become free: see `FreeQueue.tag`."""

    admitted: float
    carried: int
    categories: Ids


class Recorder:
    """Follows the requests of one engine whose cache has ``blocks`` blocks of ``block_tokens``.

    ``salt`` is a number nobody else knows, with which templates are named.
    """

    def __init__(self, blocks: int, block_tokens: int = 16, salt: int = 0) -> None:
        self.shift = shift_for(blocks)
        self.slack = 2 + (3 << self.shift if self.shift else 0)
        self.admitted = 0
        self._head = -(-TEMPLATE_TOKENS // block_tokens)
        self._salt = np.uint64(salt)
        self._table = compile_table(EMPTY)
        self._chains = new_chains(CHAIN_ENTRIES)
        self._in_flight: dict[str, InFlight] = {}

    def follow(self, table: CompiledTable) -> None:
        """Classify by this table from now on."""
        self._table = table

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

        ``features`` is the vector with what the request declares; the rest is filled in.
        """
        length = len(keys)
        template = self._template(keys)
        keys, positions = sampled(keys, self.shift)
        before = self._in_flight.get(request) if replay else None
        if before is not None:
            known = before._replace(admitted=now)
            features = before.features
        else:
            session = np.uint64(features[SESSION])
            features[TEMPLATE] = digest_of(int(template)) if template else 0.0
            slack, chains = self.slack, self._chains
            seen = visit(chains, keys, positions, length, slack, session, template, now, features)
            carried = max(seen, hits)
            features[CARRIED] = min(1.0, carried / max(1, length))
            known = InFlight(self.admitted, now, carried, features)
            self.admitted += 1
        self._remember(request, known)
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
            known.number,
        )

    def preempt(self, request: str) -> InFlight | None:
        """What is known of a request whose blocks become free though it is to go on later."""
        return self._in_flight.get(request)

    def finish(self, request: str, generated: int, now: float) -> tuple[Released, Finish] | None:
        """A request has finished with so many output tokens, and is forgotten.

        How to tag its blocks, and what the sidecar is told; None if it was not known.
        """
        known = self._in_flight.pop(request, None)
        if known is None:
            return None
        features = known.features
        features[GENERATED] = generated
        categories = np.empty(2, np.int64)
        for position in (1, 0):
            features[POSITION] = position
            categories[position] = classify(self._table, features)
        released = Released(known.admitted, known.carried, categories)
        return released, Finish(now, known.number, generated)

    def _template(self, keys: Keys) -> np.uint64:
        """A key for how the prompt begins, 0 if it fills no block."""
        if not len(keys):
            return np.uint64(0)
        return np.uint64(mix(keys[min(self._head, len(keys)) - 1] ^ self._salt))

    def _remember(self, request: str, known: InFlight) -> None:
        if len(self._in_flight) >= IN_FLIGHT:
            del self._in_flight[next(iter(self._in_flight))]
        self._in_flight[request] = known
