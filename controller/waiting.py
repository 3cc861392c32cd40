"""Requests between their admission and their end, which tells how long the answer got.

They leave in the order of their admission, since a trace is in the order of its times. So one
long answer holds up all that came after it: there are bounds, beyond which a request leaves as
if it had generated nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ..policies.messages import Admission, Heartbeat, Report

REQUESTS = 4096
"""Requests that wait at most, ended or not."""
BYTES = 64 << 20
"""Bytes of their keys and positions."""
SECONDS = 600.0
"""Of the engine's clock that a request waits for its end."""


@dataclass(frozen=True)
class Gap:
    """What did not arrive: messages lost on the way, records that the engine dropped."""

    lost: int
    dropped: int


@dataclass
class Place:
    """A place in the order: a request, or something missing, which waits for nothing."""

    what: Admission | Gap
    generated: int | None
    """Output tokens, None until the request has ended."""


class Waiting:
    """The requests of one engine's life, and the gaps between them."""

    def __init__(self) -> None:
        self._places: deque[Place] = deque()
        self._running: dict[int, Place] = {}
        self._bytes = 0
        self._now = -math.inf  # the engine's clock

    def hear(self, report: Report) -> None:
        """Take in who was admitted, but not those that come back from a preemption, and who ended.

        At a heartbeat time goes on.
        """
        if isinstance(report, Heartbeat):
            self._now = max(self._now, report.time)
            return
        for admission in report.admissions:
            self._now = max(self._now, admission.time)
            if not admission.replay:
                place = self._running[admission.number] = Place(admission, None)
                self._places.append(place)
                self._bytes += _size(place)
        for finish in report.finishes:
            self._now = max(self._now, finish.time)
            if ended := self._running.pop(finish.number, None):
                ended.generated = finish.generated

    def miss(self, gap: Gap) -> None:
        """Something is missing here."""
        self._places.append(Place(gap, 0))

    def leave(self, *, everybody: bool = False) -> Iterator[Place]:
        """Those that need not wait any longer, first come first, and out of the order with it."""
        while self._places and (everybody or self._may_leave(self._places[0])):
            place = self._places.popleft()
            self._bytes -= _size(place)
            if isinstance(place.what, Admission) and place.generated is None:
                self._running.pop(place.what.number, None)
            yield place

    def _may_leave(self, first: Place) -> bool:
        return (
            isinstance(first.what, Gap)
            or first.generated is not None
            or len(self._places) > REQUESTS
            or self._bytes > BYTES
            or self._now - first.what.time > SECONDS
        )


def _size(place: Place) -> int:
    return 0 if isinstance(place.what, Gap) else len(place.what.keys) + len(place.what.positions)
