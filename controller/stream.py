"""The sidecar's end of the record stream of one engine: receive, check, count what is missing."""

from __future__ import annotations

import logging

import zmq

from ..policies.messages import MAX_MESSAGE, Heartbeat, Report, WireError, decode_report
from ..policies.sockets import Place, connect, endpoints, reconnect

BURST = 512
"""Messages taken in one go, so that a flooding engine cannot starve the rest of the loop."""

log = logging.getLogger("wactl")


class Stream:
    """Reports of the engine of one data-parallel rank, old or restarted.

    ``engine`` is the identity of the one heard last (empty at first), ``lost`` counts the
    messages missing in its numbering, ``broken`` those that could not be read.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], place: Place, rank: int) -> None:
        self.engine = ""
        self.lost = 0
        self.broken = 0
        self.heartbeat: Heartbeat | None = None
        self._next: int | None = None
        self.socket = context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.rcvhwm = 10000
        self.socket.maxmsgsize = MAX_MESSAGE
        self.socket.subscribe(b"")
        self._endpoint = endpoints(place, rank)[0]
        connect(self.socket, self._endpoint, place)

    def reports(self) -> list[Report]:
        """What has arrived, in order; never waits."""
        found: list[Report] = []
        for _ in range(BURST):
            try:
                raw = self.socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                break
            try:
                report = decode_report(raw)
            except WireError as error:
                self.broken += 1
                log.warning("an engine sent %s", error)
                continue
            self._number(report)
            found.append(report)
        return found

    def reconnect(self) -> None:
        """Connect anew."""
        reconnect(self.socket, self._endpoint)

    def close(self) -> None:
        """Give the socket back."""
        self.socket.close()

    def _number(self, report: Report) -> None:
        if report.engine != self.engine:
            self.engine, self._next = report.engine, None
        if self._next is not None:
            self.lost += max(0, report.sequence - self._next)
        self._next = report.sequence + 1
        if isinstance(report, Heartbeat):
            self.heartbeat = report
