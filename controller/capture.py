"""Live traffic as a trace for replays: the record stream, made anonymous, in bounded files.

A file is a stretch of one engine's life and can be replayed by itself. It says what was lost
on the way where it is missing, and ends with a line without which it was cut short. A request
is written when it has finished, in the order of admissions.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .. import __version__
from ..policies.messages import Admission, EngineState, Heartbeat, Report
from .anonymous import Anonymous
from .parts import CaptureError, Part, part_names
from .waiting import Gap, Waiting

VERSION = 1
"""Of the file's format, see docs/capture.md; a change that an old reader cannot read raises it."""
PATIENCE = 10.0
"""Seconds an engine has to be heard of."""
FLUSH = 1.0
"""Seconds of traffic that a kill may cost, beside the requests that wait for their end."""
RESERVE = 1024
"""Bytes of a file kept for the line it ends with."""


@dataclass(frozen=True)
class Limits:
    """When a capture is over."""

    seconds: float = math.inf
    """From the first word of the engine."""
    size: int = 10**9
    """Bytes on disk, all files together."""
    files: int = 1
    """With more than one, the oldest gives way when the size is reached."""


class File(msgspec.Struct, frozen=True):
    """One file of a capture."""

    path: str
    bytes: int
    requests: int


class Summary(msgspec.Struct, frozen=True):
    """What was captured, files that gave way included."""

    ended: str
    """``seconds``, ``megabytes`` or ``interrupted``; empty while it goes on."""
    seconds: float
    """How long it took."""
    requests: int
    blocks: int
    """Full blocks of their prompts, recorded or not."""
    hits: int
    """How many of them the engine had in its cache."""
    hit_ratio: float | None
    preempted: int
    """Admissions after a preemption, which are no requests of their own and left out."""
    unfinished: int
    """Requests whose end was not heard of, written with 0 output tokens."""
    lost_messages: int
    """Messages of the stream that did not arrive, each of up to 256 records."""
    dropped_records: int
    """Admissions and ends of requests that the engine could not tell of."""
    engines: int
    """1, and one more for each restart."""
    cache_blocks: int
    block_tokens: int
    sample: int
    """One block in this many is recorded."""
    files: tuple[File, ...]
    removed: int
    """Files that gave way."""


class Capture:
    """Writes the reports of one engine's stream to ``out`` until `ended`.

    ``now`` is seconds of any clock that does not jump. Every method may raise `CaptureError`.
    """

    def __init__(self, out: Path, limits: Limits, now: float) -> None:
        self.ended = ""
        self._names = part_names(out)
        self._limits = limits
        self._name = secrets.token_hex(8)
        self._began = self._flushed = self._now = now
        self._part: Part | None = None
        self._parts: deque[Part] = deque()
        self._removed = 0
        self._state: EngineState | None = None
        self._engine = ""
        self._engines = 0
        self._anonymous = Anonymous(0.0)
        self._waiting = Waiting()
        self._next = 0  # number of the message to come
        self._dropped_before = 0
        self._requests = self._blocks = self._hits = 0
        self._preempted = self._unfinished = self._lost = self._dropped = 0

    def take(self, report: Report, now: float) -> None:
        """Write down what the engine said; of one that is new, from its first heartbeat on."""
        if self.ended:
            return
        if report.engine != self._engine:
            if not isinstance(report, Heartbeat):
                return
            self._begin(report, now)
            if self.ended:
                return
        self._miss(report)
        if isinstance(report, Heartbeat):
            self._state = report.state
        else:
            self._preempted += sum(admission.replay for admission in report.admissions)
        self._waiting.hear(report)
        self._write_down()

    def step(self, now: float) -> None:
        """Flush what has waited long enough, and end when it is time."""
        self._now = now
        if self._part is None:
            if now - self._began > PATIENCE:
                raise CaptureError(
                    f"the engine has said nothing for {PATIENCE:.0f} s; is its process alive?"
                )
        elif now - self._began >= self._limits.seconds:
            self.end("seconds")
        elif now - self._flushed >= FLUSH:
            self._flushed = now
            self._part.flush()

    def end(self, reason: str) -> None:
        """Write down who still waits, and close the file with a line that says it is whole."""
        if not self.ended:
            self._write_down(everybody=True)
        if not self.ended:
            self._stop(reason)

    def summary(self) -> Summary:
        """What was captured so far."""
        state = self._state
        parts = self._parts
        return Summary(
            ended=self.ended,
            seconds=round(self._now - self._began, 3),
            requests=self._requests,
            blocks=self._blocks,
            hits=self._hits,
            hit_ratio=self._hits / self._blocks if self._blocks else None,
            preempted=self._preempted,
            unfinished=self._unfinished,
            lost_messages=self._lost,
            dropped_records=self._dropped,
            engines=self._engines,
            cache_blocks=state.blocks if state else 0,
            block_tokens=state.block_tokens if state else 0,
            sample=1 << state.shift if state else 1,
            files=tuple(File(str(part.path), part.size, part.requests) for part in parts),
            removed=self._removed,
        )

    def _begin(self, heartbeat: Heartbeat, now: float) -> None:
        """An engine, the first one or restarted: its cache is empty, and so is what we know."""
        if self._part is None:
            self._began = self._flushed = now
        self._write_down(everybody=True)
        if self.ended:
            return
        self._engine, self._state = heartbeat.engine, heartbeat.state
        self._engines += 1
        self._anonymous = Anonymous(self._anonymous.time)
        self._next, self._dropped_before = heartbeat.sequence, heartbeat.state.dropped
        self._rotate("restarted")

    def _miss(self, report: Report) -> None:
        lost, self._next = max(0, report.sequence - self._next), report.sequence + 1
        dropped = 0
        if isinstance(report, Heartbeat):
            dropped = max(0, report.state.dropped - self._dropped_before)
            self._dropped_before = report.state.dropped
        if lost or dropped:
            self._lost += lost
            self._dropped += dropped
            self._waiting.miss(Gap(lost, dropped))

    def _write_down(self, *, everybody: bool = False) -> None:
        for place in self._waiting.leave(everybody=everybody):
            if isinstance(place.what, Gap):
                gap = place.what
                self._write({"gap": gap.lost, "dropped": gap.dropped, "t": self._anonymous.time})
            else:
                self._request(place.what, place.generated)
            if self.ended:
                return

    def _request(self, admission: Admission, generated: int | None) -> None:
        if self._write(self._anonymous.line(admission, generated or 0)):
            assert self._part is not None
            self._part.requests += 1
            self._requests += 1
            self._unfinished += generated is None
            if not admission.unread:
                self._blocks += admission.blocks
                self._hits += admission.hits

    def _write(self, line: dict[str, object]) -> bool:
        """Write a line; False if it is one too many and the capture has ended."""
        raw = msgspec.json.encode(line) + b"\n"
        assert self._part is not None
        if not self._fits(raw):
            self._part.flush()  # which may make it smaller
        if not self._fits(raw):
            if self._limits.files == 1:
                self._stop("megabytes")
                return False
            if self._part.requests:
                self._rotate("rotated")
        self._part.add(raw)
        return True

    def _fits(self, raw: bytes) -> bool:
        assert self._part is not None
        room = self._limits.size // self._limits.files
        if self._limits.files == 1:  # restarts may have left others
            room -= sum(part.size for part in self._parts if part is not self._part)
        return self._part.largest + len(raw) + RESERVE <= room

    def _rotate(self, reason: str) -> None:
        """Go on in a new file."""
        assert self._state is not None
        self._close(reason)
        self._part = Part(next(self._names))
        self._parts.append(self._part)
        head = {
            "wactl_capture": VERSION,
            "block_tokens": self._state.block_tokens,
            "sample": 1 << self._state.shift,
            "blocks": self._state.blocks,
            "capture": self._name,
            "engine": self._engines,
            "vllm": self._state.version,
            "wactl": __version__,
        }
        self._part.add(msgspec.json.encode(head) + b"\n")
        self._part.flush()
        while 1 < self._limits.files < len(self._parts):
            self._parts.popleft().path.unlink(missing_ok=True)
            self._removed += 1

    def _stop(self, reason: str) -> None:
        self.ended = reason
        self._close(reason)

    def _close(self, reason: str) -> None:
        if self._part is not None:
            end = {"end": reason, "requests": self._part.requests}
            self._part.add(msgspec.json.encode(end) + b"\n")
            self._part.close()
