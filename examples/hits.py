"""Hit ratio of a running engine, minute by minute, read off its record stream: docs/stream.md.

    python hits.py /run/user/1000/wactl/engine-0.records

Needs pyzmq and msgspec, not wactl. Stop it with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import zmq

WIRE = 2
TIME, FEATURES, BLOCKS, HITS, CARRIED, REPLAY, UNREAD = range(7)


def messages(path: str) -> Iterator[dict[str, Any]]:
    """Messages of the engine as they come; ZeroMQ connects again when it restarts."""
    socket = zmq.Context().socket(zmq.SUB)
    socket.subscribe(b"")
    socket.connect(f"ipc://{path}")
    while True:
        message = msgspec.msgpack.decode(socket.recv())
        if message["wire"] != WIRE:
            sys.exit(f"the engine speaks wire format {message['wire']}, this client {WIRE}")
        yield message


class Minutes:
    """Counts by the minute, of the engine's clock, and prints each when it is over."""

    def __init__(self, now: float) -> None:
        self.end = now + 60.0
        self.requests = self.blocks = self.hits = self.lost = 0

    def go_on(self, now: float) -> None:
        """It is ``now``, in seconds."""
        while now >= self.end:
            ratio = f"{self.hits / self.blocks:.3f}" if self.blocks else "-"
            lost = f", {self.lost} messages lost" if self.lost else ""
            print(f"{self.requests} requests, hit ratio {ratio}{lost}", flush=True)
            self.end += 60.0
            self.requests = self.blocks = self.hits = self.lost = 0

    def count(self, admission: list[Any]) -> None:
        """Add a request, unless it came back from a preemption or does not read the cache."""
        self.go_on(admission[TIME])
        if not admission[REPLAY] and not admission[UNREAD]:
            self.requests += 1
            self.blocks += admission[BLOCKS]
            self.hits += admission[HITS]


def main(path: str) -> None:
    """Print a line a minute, and one for each engine that begins."""
    engine, expected, minutes = "", 0, Minutes(0.0)
    for message in messages(path):
        if message["engine"] != engine:  # the first one, or restarted: numbers begin anew
            if message["type"] != "heartbeat":  # which tells its time, and comes within a second
                continue
            engine, minutes = message["engine"], Minutes(message["time"])
            expected = message["sequence"]
            print(f"engine {engine}", flush=True)
        minutes.lost += max(0, message["sequence"] - expected)
        expected = message["sequence"] + 1
        if message["type"] == "records":
            for admission in message["admissions"]:
                minutes.count(admission)
        elif message["type"] == "heartbeat":
            minutes.go_on(message["time"])


if __name__ == "__main__":
    main(*sys.argv[1:])
