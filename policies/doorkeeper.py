"""Who may connect over a network: the one peer whose public key we hold.

By itself a CURVE socket lets in whoever knows its public key. ZeroMQ asks whether a client's key
is welcome by its authentication protocol (ZAP, RFC 27); this answers. It has no thread of its
own, so that there is none to die: where nobody answers, nobody gets in.
"""

from __future__ import annotations

import zmq
from zmq.utils import z85

from .keys import Keys

QUESTIONS = 16
"""Questions answered in one go; those of a flood wait in the socket, which is bounded."""


class Doorkeeper:
    """Answers for all sockets of a context, whenever `answer` is called."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: Keys) -> None:
        self._welcome = z85.decode(keys.peer)
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind("inproc://zeromq.zap.01")

    def answer(self) -> None:
        """Let in or turn away those who wait; never waits itself."""
        for _ in range(QUESTIONS):
            try:
                question = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            version, request, _domain, _address, _identity, mechanism, *credentials = question
            known = mechanism == b"CURVE" and credentials == [self._welcome]
            verdict = (b"200", b"welcome") if known else (b"400", b"unknown key")
            self._socket.send_multipart([version, request, *verdict, b"", b""])
