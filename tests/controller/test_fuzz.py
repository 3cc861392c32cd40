"""A sidecar's end of the wire under hostile records; `wactl.simulations.fuzz` sends a million."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from wactl.controller.link import Link
from wactl.controller.loop import Loop
from wactl.controller.rules import Rule
from wactl.controller.settings import Settings
from wactl.policies.features import blank_features
from wactl.policies.messages import Admission, Finish
from wactl.simulations.fuzz import FuzzedSidecar, FuzzError, fuzz, honest
from wactl.simulations.mutate import mutants

MESSAGES = 10_000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each refusal has a line in the log, and there are thousands."""
    log = logging.getLogger("wactl")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def test_mutated_reports_do_no_harm(run_dir: Path) -> None:
    """The loop and its status survive all that is decoded, stay bounded, and learn valid laws."""
    draw, sidecar = mutants(honest(200.0)[1], 7), FuzzedSidecar(run_dir)
    try:
        for number in range(MESSAGES):
            sidecar.take(draw(), float(number))
    finally:
        sidecar.close()
    assert sidecar.used > MESSAGES // 10


def test_a_fault_is_told_with_its_message(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What made an end fail is kept, and the sentence says where."""
    fault = ValueError("a fault")

    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(Link, "work", fail)
    with pytest.raises(FuzzError, match=r"kept in .*hostile\.msgpack.*a fault"):
        fuzz(2_000, 7, run_dir)
    assert (run_dir / "hostile.msgpack").stat().st_size > 0


class Stream:
    """A loop of one shadowed cache, and records without any sense."""

    def __init__(self) -> None:
        self.loop = Loop(Settings(), (Rule("all"),), 50, 0)

    def admit(self, number: int, keys: list[int], now: float, **changed: Any) -> None:
        admission = Admission(
            now,
            tuple(blank_features(16 * len(keys)).tolist()),
            *(len(keys), 0, 0, False, False),
            np.array(keys, "<u8").tobytes(),
            np.arange(len(keys), dtype="<u8").tobytes(),
            number,
        )
        self.loop.admit(msgspec.structs.replace(admission, **changed))

    def sound(self) -> bool:
        """Whether the shadows hold what running requests hold, and the laws may be pushed."""
        self.loop.learner.hurry()
        self.loop.step(1e6)
        contest, running = self.loop.contest, self.loop.learner._running
        held = sum(int((one.places >= 0).sum()) for one in running.values())
        shadows = contest.shadows.values()
        parameters = self.loop.parameters(1)
        return (
            all(int(shadow.users.sum()) == held for shadow in shadows)
            and all(shadow.queue.length <= shadow.capacity for shadow in shadows)
            and (parameters is None or parameters.problem() is None)
        )


def test_a_block_without_a_place_holds_none() -> None:
    """The key 0, and more blocks of one instant than a bucket takes, are in no shadow."""
    stream = Stream()
    crowded = [(7 << 32) + low for low in range(1, 21)]  # all of one bucket, which has eight slots
    stream.admit(0, [0, *crowded], 0.0)
    assert int(stream.loop.contest.users.sum()) == 8
    assert int(stream.loop.contest.users[-1]) == 0
    assert stream.sound()
    stream.loop.finish(Finish(1.0, 0, 1))
    assert int(stream.loop.contest.users.sum()) == 0


def test_a_key_twice_in_a_prompt() -> None:
    """It is held twice and given back twice, and never behind itself."""
    stream = Stream()
    stream.admit(0, [5 << 32, 6 << 32, 5 << 32, 7 << 32, 7 << 32], 0.0)
    assert stream.sound()
    stream.loop.finish(Finish(1.0, 0, 1))
    assert int(stream.loop.contest.users.sum()) == 0
    stream.admit(1, [7 << 32, 6 << 32], 2.0)
    assert stream.sound()


def test_a_number_that_comes_again() -> None:
    """The request before is taken to have ended."""
    stream = Stream()
    for now in range(5):
        stream.admit(3, [(now + 1) << 32], float(now))
    assert stream.sound()
    assert int(stream.loop.contest.users.sum()) == 1


def test_a_finish_of_nobody_and_one_twice() -> None:
    """Neither is held against anybody."""
    stream = Stream()
    stream.loop.finish(Finish(0.0, 99, 1))
    stream.admit(0, [1 << 32], 0.0)
    stream.loop.finish(Finish(1.0, 0, 2**31 - 1))
    stream.loop.finish(Finish(1.0, 0, 1))
    assert stream.sound()
    assert int(stream.loop.contest.users.sum()) == 0


def test_time_that_runs_backwards_and_wild() -> None:
    """Ages below 0 and of millennia count as the first and the last there are."""
    stream, rng = Stream(), random.Random(7)
    for number in range(300):
        now = rng.choice((0.0, -1e18, 1e18, 5.0, -3.0, rng.uniform(-1e6, 1e6)))
        keys = [rng.randrange(1, 40) << 32 for _ in range(3)]
        stream.admit(number, keys, now, carried=2**31)
        stream.loop.finish(Finish(-now, number, 2**31 - 1))
    assert stream.sound()
    assert stream.loop.learner.misses.of_all().evicted > 0
