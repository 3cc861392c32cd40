"""A day of mixed traffic through engine's side and sidecar's side, in compressed time.

Run it as ``python -m wactl.simulations.soak --hours 24``. What may not grow is watched: resident
memory, the time of a refit, the numbers that categories use up. Every record and every parameter
set goes over the wire's encoding. The engine is restarted every six hours, its sidecar going on
from what it had learned, and the rules are edited in between. Ends with 1 if a promise was broken.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..controller.learned import Kept, Origin, go_on, snapshot
from ..controller.loop import Loop
from ..controller.numbering import NUMBERS
from ..controller.rules import Rule, Rules, load_rules
from ..controller.settings import Settings
from ..policies.errors import WactlError
from ..policies.features import LENGTH
from ..policies.intake import Intake
from ..policies.messages import WIRE, Push, Records, decode_report, encode
from ..policies.table import Condition
from .cache import SimulatedCache
from .generate.plan import Plan
from .generate.presets import generate
from .trace import Trace

CAPACITY = 1000
RATE = 2.0
"""Requests a second."""
GROWTH = 0.05
"""By which share memory of the last quarter may exceed that of the first."""
SLOWER = 1.5
"""By which factor refits of the last quarter may be slower than those of the first."""

EDITED = Rule("long", (Condition(LENGTH, 4096.0, 1e9),))
"""The rule that comes and goes."""


class SoakError(WactlError):
    """A promise was broken; the text says which."""


@dataclass(frozen=True)
class Pace:
    """When what is done, in seconds of the traffic's time."""

    row: float = 3600.0
    """Between two looks at what may not grow."""
    restart: float = 6 * 3600.0
    """Between two restarts of the engine."""
    edit: float = 5 * 3600.0
    """Between two edits of the rules."""
    settled: float = 2 * 3600.0
    """After which memory may not grow."""


@dataclass(frozen=True)
class Row:
    """What was seen at the end of a stretch."""

    time: float
    """Seconds."""
    requests: int
    resident_mb: float
    refit_ms: float
    """Processor time, the median of this stretch."""
    version: int
    free_numbers: int
    hit_ratio: float


class Soak:
    """Engine's and sidecar's side over a trace."""

    def __init__(self, trace: Trace, pace: Pace) -> None:
        self.trace = trace
        self.pace = pace
        self.settings = Settings()
        self.rules: tuple[Rules, Rules] = _rules(self.settings)
        self.rows: list[Row] = []
        self.edits = self.restarts = 0
        self._highest = 0
        self._sequence = 0
        self._start()

    def run(self) -> None:
        """Serve the whole trace, a row at a time. Raises `SoakError`."""
        refits: list[float] = []
        pace, times = self.pace, self.trace.times
        free, hits, blocks, due = NUMBERS, 0, 0, pace.row
        for request in range(self.trace.requests):
            now = float(times[request])
            if now >= due:
                self._note(due, request, refits, free, hits / max(1, blocks))
                refits, free, hits, blocks, due = [], NUMBERS, 0, 0, due + pace.row
            if now >= pace.restart * (self.restarts + 1):
                self._restart(now)
            if now >= pace.edit * (self.edits + 1):
                self.edits += 1
                self.loop.learner.follow(self.rules[self.edits % 2])
            hits += self._serve(request)
            blocks += int(self.trace.offsets[request + 1] - self.trace.offsets[request])
            started = time.thread_time()
            if self.loop.step(now):
                refits.append(time.thread_time() - started)
                self._push(now)
            numbering = self.loop.learner.categories.numbering
            free = min(free, NUMBERS - len(numbering.numbers()) - len(numbering.retired))
        self._note(float(times[-1]), self.trace.requests, refits, free, hits / max(1, blocks))

    def _start(self) -> None:
        self.intake = Intake()
        self.cache = SimulatedCache(self.trace, CAPACITY)
        shift, tokens = self.cache.recorder.shift, self.trace.tokens_per_block
        lineage, rules = 1 + self.restarts, self.rules[self.edits % 2]
        self.loop = Loop(self.settings, rules, CAPACITY, shift, lineage, tokens)
        self.origin = Origin(f"soak {self.restarts}", tokens, shift)

    def _restart(self, now: float) -> None:
        """The engine is gone with its cache; another one begins, the same sidecar beside it."""
        kept = Kept(snapshot(self.loop, self.origin, None, now).pack, now)
        del self.loop, self.cache  # before there are new ones, as the engine's end comes first
        self.restarts += 1
        self._start()
        go_on(self.loop, kept.pack(), self.origin, self.intake.version, now, 0.0)

    def _serve(self, request: int) -> int:
        admission, finish = self.cache.serve(request)
        records = Records(WIRE, self.origin.engine, self._sequence, (admission,), (finish,))
        self._sequence += 1
        report = decode_report(encode(records))
        assert isinstance(report, Records)
        for heard in report.admissions:
            self.loop.admit(heard)
        for ended in report.finishes:
            self.loop.finish(ended)
        return admission.hits

    def _push(self, now: float) -> None:
        version = max(self._highest, self.intake.version) + 1
        if (parameters := self.loop.parameters(version)) is None:
            return
        ack = self.intake.consider(encode(Push(WIRE, parameters)), now)
        if not ack.accepted:
            raise SoakError(f"at {now:.0f} s the engine refused version {version}: {ack.reason}")
        if ack.version <= self._highest:
            raise SoakError(f"version {ack.version} came after {self._highest}")
        self._highest = ack.version
        orders = self.intake.in_force(now)
        assert orders is not None, "it was accepted just now"
        self.cache.obey(orders)
        self.loop.ran(self.loop.gate.running, now)
        self.loop.drained(self.cache.queue.cached().tolist())

    def _note(
        self, now: float, requests: int, refits: Sequence[float], free: int, ratio: float
    ) -> None:
        gc.collect()
        refit = 1e3 * float(np.median(refits)) if refits else 0.0
        row = Row(now, requests, resident_mb(), refit, self._highest, free, ratio)
        self.rows.append(row)
        print(
            f"| {row.time / 3600.0:.1f} | {row.requests} | {row.resident_mb:.0f} "
            f"| {row.refit_ms:.1f} | {row.version} | {row.free_numbers} | {row.hit_ratio:.3f} |",
            flush=True,
        )


def broken(rows: Sequence[Row]) -> list[str]:
    """Which promises were broken that no clock and no allocator has a part in, as sentences."""
    found = []
    if (free := min(row.free_numbers for row in rows)) < 1:
        found.append(f"category numbers ran out: {free} free")
    versions = [row.version for row in rows]
    if any(b <= a for a, b in pairwise(versions)):
        found.append("a stretch went by without a newer version")
    return found


def grown(rows: Sequence[Row], settled: float) -> list[str]:
    """What grew after ``settled`` seconds, as sentences: memory, or the time that a refit takes.

    The medians of the first and the last quarter are compared. What a single row says moves by
    more than is allowed here with each restart, as the allocator places a new cache elsewhere.
    """
    later = [row for row in rows if row.time >= settled]
    if len(later) < 4:
        return ["it was too short to tell what grows"]
    quarter = len(later) // 4
    before, after = _medians(later[:quarter]), _medians(later[-quarter:])
    found = []
    if after[0] > (1.0 + GROWTH) * before[0]:
        found.append(f"memory grew from {before[0]:.0f} to {after[0]:.0f} MB")
    if after[1] > SLOWER * before[1]:
        found.append(f"a refit takes {after[1]:.1f} ms instead of {before[1]:.1f}")
    return found


def _medians(rows: Sequence[Row]) -> tuple[float, float]:
    """Resident megabytes and milliseconds a refit."""
    seen = np.array([(row.resident_mb, row.refit_ms) for row in rows])
    memory, refit = np.median(seen, axis=0)
    return float(memory), float(refit)


def resident_mb() -> float:
    """What the kernel says this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _rules(settings: Settings) -> tuple[Rules, Rules]:
    shipped = load_rules(settings.rules)
    return shipped, (EDITED, *shipped)


def soak(seconds: float, rate: float, pace: Pace) -> Soak:
    """Run so much traffic; the rows are printed as they come. Raises `SoakError`."""
    trace = generate("mixed", Plan(seconds=seconds, rate=rate))
    print(f"{trace.requests} requests, {trace.accesses} block accesses, {CAPACITY} blocks\n")
    print("| hour | requests | resident MB | refit ms | version | free numbers | hit ratio |")
    print("|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    run = Soak(trace, pace)
    run.run()
    return run


def main(
    hours: Annotated[int, typer.Option(min=6, help="Hours of the traffic's time.")] = 24,
    rate: Annotated[float, typer.Option(min=0.1, help="Requests a second.")] = RATE,
) -> None:
    """Serve hours of mixed traffic in compressed time; 1 if something grew."""
    start = time.monotonic()
    pace = Pace()
    run = soak(3600.0 * hours, rate, pace)
    wrong = broken(run.rows) + grown(run.rows, pace.settled)
    print(
        f"\n{run.restarts} restarts of the engine, {run.edits} edits of the rules, "
        f"{time.monotonic() - start:.0f} s"
    )
    if wrong:
        raise SoakError("; ".join(wrong))
    print("memory flat, refits as fast as before, numbers left, versions rising")


if __name__ == "__main__":
    try:
        typer.run(main)
    except WactlError as error:
        print(f"wactl: {error}", file=sys.stderr)
        sys.exit(1)
