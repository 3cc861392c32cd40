"""Push parameters into one engine and keep them alive.

A set is sent when it is new, and again before its time to live has passed. Versions only
grow: they continue from the highest the engine has ever accepted, so a restarted sidecar is
heard, and a leftover one is not.
"""

from __future__ import annotations

import logging

import zmq

from ..policies.messages import WIRE, Ack, Push, WireError, decode_ack, encode
from ..policies.parameters import ParameterSet
from ..policies.sockets import Place, connect, endpoints, reconnect

REFRESH = 3.0
"""A set is sent this many times within its time to live."""

log = logging.getLogger("wactl")


class Pusher:
    """Parameters for the engine of one data-parallel rank."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], place: Place, rank: int) -> None:
        self.pushed = 0
        self.accepted = 0
        self.refusal = ""
        self.current: ParameterSet | None = None
        self._highest = 0
        self._sent_at = 0.0
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndhwm = 16
        self._endpoint = endpoints(place, rank)[1]
        connect(self.socket, self._endpoint, place)

    def next_version(self, newest: int) -> int:
        """The version of a new set, given the highest the engine has accepted."""
        return max(newest, self._highest) + 1

    def push(self, parameters: ParameterSet, now: float) -> None:
        """Send a set at ``now`` (seconds of the engine's clock); it counts from here on."""
        self.current = parameters
        self._highest = parameters.version
        self.pushed += 1
        self._send(now)

    def keep_alive(self, now: float) -> None:
        """Send the current set again if its time to live asks for it."""
        if self.current and now - self._sent_at >= self.current.ttl / REFRESH:
            self._send(now)

    def stop(self) -> None:
        """Let what is in force expire."""
        self.current = None

    def answers(self) -> list[Ack]:
        """What the engine answered; never waits."""
        found: list[Ack] = []
        while True:
            try:
                raw = self.socket.recv(zmq.DONTWAIT)
            except zmq.Again:
                return found
            try:
                ack = decode_ack(raw)
            except WireError as error:
                log.warning("an engine answered %s", error)
                continue
            found.append(ack)
            if ack.accepted:
                self.accepted += 1
                self.refusal = ""
            else:
                self.refusal = ack.reason
                log.warning("the engine refused version %d: %s", ack.version, ack.reason)

    def reconnect(self) -> None:
        """Connect anew."""
        reconnect(self.socket, self._endpoint)

    def close(self) -> None:
        """Give the socket back."""
        self.socket.close()

    def _send(self, now: float) -> None:
        assert self.current is not None
        self._sent_at = now
        try:
            self.socket.send(encode(Push(WIRE, self.current)), zmq.DONTWAIT)
        except zmq.Again:
            log.warning("the engine does not take parameters; trying again")
