"""The engine's end of the wire: a thread that sends records and takes parameters.

The scheduler only appends to a bounded queue and reads a reference; sockets, encoding and
checking live here. Whatever the other side does (nothing, nonsense, a flood, a stop) costs
the scheduler nothing: records that do not fit are dropped and counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq
from msgspec.structs import replace

from .doorkeeper import Doorkeeper
from .intake import Intake
from .messages import WIRE, Admission, EngineState, Finish, Heartbeat, Records, encode
from .network import Network
from .sockets import Place, bind, endpoints
from .veil import Veil

QUEUE = 8192
"""Records that may wait to be sent."""
QUEUE_BYTES = 64 << 20
"""Bytes of keys and positions that may wait with them."""
BATCH = 256
"""Records in one message."""
BATCH_BYTES = 256 << 10
"""Bytes of keys and positions after which a message is full."""
TICK = 0.05
"""Longest wait between two looks at the queue, in seconds of the wall clock."""
HEARTBEAT = 10
"""Ticks between two heartbeats."""
CONTROL_BURST = 16
"""Control messages handled in one tick; a flood waits in the socket, which is bounded."""
LARGEST = 32 << 20
"""Bytes of a message the socket still receives, to refuse it with a reason."""

log = logging.getLogger("wactl")


class Channel:
    """Starts its thread at once; `close` ends it. Raises `AddressError`."""

    def __init__(
        self,
        place: Place,
        rank: int,
        engine: str,
        clock: Callable[[], float],
        intake: Intake,
        state: Callable[[], EngineState],
    ) -> None:
        self.dropped = 0
        self._engine = engine
        self._clock = clock
        self._intake = intake
        self._state = state
        self._sequence = 0
        self._queue: deque[Admission | Finish] = deque()
        # Bytes put by the scheduler's thread and taken by ours: one writer each.
        self._put = self._taken = 0
        self._closing = threading.Event()
        self._veil = Veil()
        self._context = zmq.Context(1)
        self._endpoints = endpoints(place, rank)
        try:
            self._doorkeeper = (
                Doorkeeper(self._context, place.keys) if isinstance(place, Network) else None
            )
            self._records = self._bind(zmq.PUB, self._endpoints[0], place)
            self._control = self._bind(zmq.ROUTER, self._endpoints[1], place)
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self._thread = threading.Thread(target=self._run, name="wactl-channel", daemon=True)
        self._thread.start()

    def send(self, record: Admission | Finish) -> None:
        """Queue a record; never waits."""
        size = _size(record)
        if len(self._queue) < QUEUE and self._put - self._taken + size <= QUEUE_BYTES:
            self._queue.append(record)
            self._put += size
        else:
            self.dropped += 1

    def close(self) -> None:
        """End the thread and remove the sockets."""
        self._closing.set()
        self._thread.join()
        for endpoint in self._endpoints:
            if endpoint.startswith("ipc://"):  # ZeroMQ leaves their files behind
                Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)

    def _bind(self, kind: int, endpoint: str, place: Place) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.sndhwm = 256
        socket.rcvhwm = 4
        socket.maxmsgsize = LARGEST
        bind(socket, endpoint, place)
        return socket

    def _run(self) -> None:
        ticks = 0
        while not self._closing.is_set():
            try:
                if self._doorkeeper is not None:
                    self._doorkeeper.answer()
                self._answer()
                self._publish()
                if ticks % HEARTBEAT == 0:
                    now = self._clock()
                    beat = Heartbeat(WIRE, self._engine, self._sequence, now, self._state())
                    self._emit(encode(beat))
            except Exception:
                # Nothing here may end the thread: without it, the engine falls back to LRU
                # when the time to live has passed, and nobody learns why.
                log.exception("wactl: the channel to the sidecar failed and goes on")
                self._closing.wait(TICK)
            ticks += 1
        self._context.destroy(linger=0)

    def _answer(self) -> None:
        if not self._control.poll(int(TICK * 1000)):
            return
        for _ in range(CONTROL_BURST):
            try:
                sender, *parts = self._control.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            ack = self._intake.consider(parts[-1] if parts else b"", self._clock())
            try:
                self._control.send_multipart([sender, encode(ack)], zmq.DONTWAIT)
            except zmq.Again:
                log.debug("wactl: a sender of parameters does not read the answers")

    def _publish(self) -> None:
        while self._queue:
            admissions: list[Admission] = []
            finishes: list[Finish] = []
            start, count = self._taken, 0
            while self._queue and self._taken - start < BATCH_BYTES and count < BATCH:
                record = self._queue.popleft()
                self._taken += _size(record)
                count += 1
                if isinstance(record, Finish):
                    finishes.append(record)
                else:
                    admissions.append(replace(record, keys=self._veil(record.keys)))
            batch = tuple(admissions), tuple(finishes)
            self._emit(encode(Records(WIRE, self._engine, self._sequence, *batch)))

    def _emit(self, raw: bytes) -> None:
        # A PUB socket drops for a reader that does not keep up; the numbers tell it so.
        self._records.send(raw, zmq.DONTWAIT)
        self._sequence += 1


def _size(record: Admission | Finish) -> int:
    """Bytes of keys and positions in a record."""
    return 0 if isinstance(record, Finish) else len(record.keys) + len(record.positions)
