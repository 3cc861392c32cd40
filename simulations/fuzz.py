"""Feed both ends of the wire hostile messages, and see that neither believes nor breaks.

Run it as ``python -m wactl.simulations.fuzz --messages 1000000``. Half of the messages are pushes,
for an engine's intake and queue; half are records and heartbeats, for a sidecar's loop and its
status. They are mutated from honest ones (`mutate`), the same for the same seed. Whatever is wrong
ends it with a sentence: an error where only a refusal is allowed, parameters applied that must not
be, an order of blocks that is none, a loop that grows.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
import zmq

from ..controller.learner import RUNNING
from ..controller.link import Link
from ..controller.rules import load_rules
from ..controller.settings import Mode, Settings
from ..controller.status import Status, as_json
from ..policies.blocks import DEFAULT
from ..policies.errors import WactlError
from ..policies.intake import Intake, Orders
from ..policies.messages import (
    WIRE,
    Heartbeat,
    Push,
    Records,
    Report,
    WireError,
    decode_report,
    encode,
)
from ..policies.queue import FreeQueue
from .bench.controller import state_of
from .controlled import Controlled
from .generate.plan import Plan
from .generate.presets import generate
from .mutate import mutants

BLOCKS = 64
"""Of the queue that obeys what is accepted."""
VERSIONS = 40
"""Versions that honest pushes have."""
LIFE = 500
"""Messages after which another engine or sidecar begins, so that one high version does not shut
out all that follow."""


class FuzzError(WactlError):
    """Something believed or did what it must not; the text says what."""


def honest(seconds: float = 300.0) -> tuple[list[bytes], list[bytes]]:
    """Pushes and reports of a small engine under mixed traffic, as they are in earnest."""
    trace = generate("mixed", Plan(seconds=seconds, rate=2.0))
    controlled = Controlled(trace, 200, Settings())
    pushes, reports, sequence = [], [], 0
    for request in range(trace.requests):
        admission, finish = controlled.cache.serve(request)
        controlled.loop.admit(admission)
        controlled.loop.finish(finish)
        state = msgspec.structs.replace(state_of(200), admitted=request)
        reports += [
            encode(Records(WIRE, "fuzz", sequence, (admission,), (finish,))),
            encode(Heartbeat(WIRE, "fuzz", sequence + 1, admission.time, state)),
        ]
        sequence += 2
        if controlled.loop.step(admission.time) and (found := controlled.loop.parameters(1)):
            pushes.append(found)
    if not pushes:
        raise FuzzError("nothing was learned of the honest traffic")
    of_versions = [
        encode(Push(WIRE, msgspec.structs.replace(one, version=version)))
        for version in range(1, VERSIONS)
        for one in pushes[:: max(1, len(pushes) // 4)]
    ]
    return of_versions, reports


class FuzzedEngine:
    """An engine's intake, and a queue that obeys it."""

    def __init__(self) -> None:
        self.accepted = 0
        self._begin()

    def take(self, raw: bytes, now: float) -> None:
        """A push arrives. Raises `FuzzError`."""
        if self._taken == VERSIONS:
            self._begin()
        self._taken += 1
        before, version = self._intake.newest, self._intake.version
        ack = self._intake.consider(raw, now)
        newest = self._intake.newest
        if not ack.accepted:
            if newest is not before:
                raise FuzzError("a push was refused and is in force")
            return
        if newest is None or (wrong := newest.parameters.problem()):
            raise FuzzError(f"parameters are in force though: {newest and wrong}")
        if newest is not before and newest.parameters.version <= version:
            raise FuzzError(f"version {newest.parameters.version} came after {version}")
        self.accepted += 1
        if newest is not before:
            self._order(newest, now)

    def _begin(self) -> None:
        self._intake, self._queue, self._taken = Intake(), FreeQueue(BLOCKS), 0

    def _order(self, orders: Orders, now: float) -> None:
        """Take what goes first, give it back under the new table, and see whether all are there."""
        queue = self._queue
        queue.obey(orders)
        taken = queue.pop(BLOCKS // 2, now)
        last = DEFAULT + orders.parameters.table.categories
        queue.tag(taken, len(taken) // 2, np.array([last, DEFAULT]), now)
        queue.append(taken[::-1].copy(), now)
        if not np.array_equal(np.sort(queue.order()), np.arange(BLOCKS)):
            raise FuzzError("the order of the free blocks is none")
        drawn = queue.pop(BLOCKS, now + 1.0)
        if not np.array_equal(np.sort(drawn), np.arange(BLOCKS)):
            raise FuzzError("not every free block is handed out once")
        queue.append(drawn, now + 1.0)


class _Played:
    """What a link reads from instead of a socket."""

    def __init__(self) -> None:
        self.waiting: list[Report] = []
        self.heartbeat: Heartbeat | None = None
        self.lost = 0

    def reports(self) -> list[Report]:
        found, self.waiting = self.waiting, []
        for report in found:
            if isinstance(report, Heartbeat):
                self.heartbeat = report
        return found

    def reconnect(self) -> None:
        """There is nothing to connect."""

    def close(self) -> None:
        """Nor to close."""


class FuzzedSidecar:
    """A sidecar's link to one engine, its stream being ours."""

    def __init__(self, folder: Path) -> None:
        self.used = 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._settings = Settings()
        self._rules = load_rules(self._settings.rules)
        self._folder = folder
        self._link: Link | None = None
        self._begin()

    def take(self, raw: bytes, wall: float) -> None:
        """A report arrives. Raises `FuzzError`."""
        try:
            report = decode_report(raw)
        except WireError:
            return
        if report.engine != "fuzz":  # another engine begins anew: nothing would be learned
            report = msgspec.structs.replace(report, engine="fuzz")
        self.used += 1
        self._taken += 1
        self._played.waiting.append(report)
        if self._taken % 20 == 0:
            self._work(wall)
        if self._taken == LIFE:
            self._begin()

    def close(self) -> None:
        """Give the sockets back."""
        if self._link is not None:
            self._link.close()
        self._context.destroy(linger=0)

    def _begin(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = Link(self._context, self._folder, 0, self._settings, self._rules)
        self._link.stream.close()
        self._played = _Played()
        self._link.stream = self._played  # type: ignore[assignment]  # reads nothing else of it
        self._taken = 0
        beat = Heartbeat(WIRE, "fuzz", 0, 0.0, state_of(200))
        self._played.waiting.append(beat)

    def _work(self, wall: float) -> None:
        link = self._link
        assert link is not None
        link.work(Mode.ENFORCE, wall)
        loop = link.loop
        if loop is None:
            raise FuzzError("after a heartbeat there is no loop")
        loop.learner.hurry()
        link.work(Mode.ENFORCE, wall)
        if (parameters := loop.parameters(1)) and (wrong := parameters.problem()):
            raise FuzzError(f"learned parameters that no engine would take: {wrong}")
        if len(loop.learner._running) > RUNNING:
            raise FuzzError("the loop remembers more requests than it may")
        for name, shadow in loop.contest.shadows.items():
            held = int(np.count_nonzero(shadow.users))
            if not 0 <= shadow.queue.length <= max(0, shadow.capacity - held) + held:
                raise FuzzError(f"the shadow of {name} holds more blocks than it has room for")
            if (shadow.users < 0).any():
                raise FuzzError(f"in the shadow of {name} a block has fewer users than none")
        if (engine := link.status(wall)) is not None:
            as_json(Status("fuzz", "enforce", 1, "", "", "", (engine,)))


def fuzz(messages: int, seed: int, folder: Path) -> Counter[str]:
    """Feed so many mutated messages to both ends; how many were used. Raises `FuzzError`."""
    pushes, reports = honest()
    push, report = mutants(pushes, seed), mutants(reports, seed + 1)
    engine, sidecar = FuzzedEngine(), FuzzedSidecar(folder)
    try:
        for number in range(messages // 2):
            for end, draw in ((engine, push), (sidecar, report)):
                raw = draw()
                try:
                    end.take(raw, float(number))
                except Exception as error:
                    if isinstance(error, FuzzError):
                        raise
                    kept = folder / "hostile.msgpack"
                    kept.write_bytes(raw)
                    raise FuzzError(
                        f"message {number} of seed {seed}, kept in {kept}, made "
                        f"{type(end).__name__} fail: {error!r}"
                    ) from error
    finally:
        sidecar.close()
    return Counter(pushes=engine.accepted, reports=sidecar.used)


def main(
    messages: Annotated[int, typer.Option(min=2, help="Mutated messages in all.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same messages.")] = 7,
) -> None:
    """Feed mutated messages to an engine's intake and a sidecar's loop."""
    import tempfile

    logging.getLogger("wactl").setLevel(logging.CRITICAL)  # each refusal has a line there
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="wactl-fuzz-", dir="/tmp"))
    used = fuzz(messages, seed, folder)
    folder.rmdir()
    print(
        f"{messages} mutated messages of seed {seed} in {time.monotonic() - start:.0f} s: "
        f"{used['pushes']} pushes accepted, {used['reports']} reports used, no fault"
    )


if __name__ == "__main__":
    try:
        typer.run(main)
    except WactlError as error:
        print(f"wactl: {error}", file=sys.stderr)
        sys.exit(1)
