"""How the sockets of an engine are bound and connected, and who gets in.

In a private folder the kernel says who connects: this user's processes get in, no others, also
when somebody has opened the folder since. Over a network each side proves that it holds its
secret key, and everything said is encrypted (CURVE); without keys there is no such socket.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import zmq

from .network import AddressError, Network
from .rundir import claim, control_endpoint, private_dir, records_endpoint

PULSE = 3000
"""Milliseconds of silence on a network after which a sidecar connects anew: the other machine
may have gone without a word."""

Place = Path | Network
"""Where engine and sidecar meet: the private folder, or an address."""


def endpoints(place: Place, rank: int) -> tuple[str, str]:
    """Where the engine of a rank publishes records, and where it takes parameters."""
    if isinstance(place, Network):
        return place.records, place.control
    return records_endpoint(place, rank), control_endpoint(place, rank)


def reserve(place: Place, rank: int) -> ExitStack:
    """Keep the rank's name in a folder for this process until closed; a port keeps itself.

    Raises `RunDirError` when another engine has it or the folder is not private.
    """
    held = ExitStack()
    if isinstance(place, Path):
        held.enter_context(claim(private_dir(place), f"engine-{rank}"))
    return held


def bind(socket: zmq.Socket[bytes], endpoint: str, place: Place) -> None:
    """Bind a socket of ``place`` that only its own may connect to. Raises `AddressError`."""
    if isinstance(place, Network):
        socket.curve_server = True
        socket.curve_secretkey = place.keys.secret
        socket.zap_domain = b"wactl"
        # Without a doorkeeper ZeroMQ would let everybody in; so it lets nobody in.
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)
    else:
        socket.set(zmq.IPC_FILTER_UID, os.getuid())
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise AddressError(f"cannot listen on {endpoint}: {error.strerror}") from None


def connect(socket: zmq.Socket[bytes], endpoint: str, place: Place) -> None:
    """Connect a socket to one of ``place``."""
    if isinstance(place, Network):
        socket.curve_serverkey = place.keys.peer
        socket.curve_publickey = place.keys.public
        socket.curve_secretkey = place.keys.secret
        socket.heartbeat_ivl = PULSE
    socket.connect(endpoint)


def reconnect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect anew: ZeroMQ gives an endpoint up for good that turned it away once."""
    try:
        socket.disconnect(endpoint)
    except zmq.ZMQError as error:
        if error.errno != errno.ENOENT:  # it was given up
            raise
    socket.connect(endpoint)
