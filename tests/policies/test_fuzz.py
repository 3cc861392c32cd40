"""An engine's end of the wire under hostile pushes; `wactl.simulations.fuzz` sends a million."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace
from wactl.policies import messages
from wactl.policies.intake import Intake
from wactl.policies.messages import WIRE, Push, encode
from wactl.policies.parameters import ParameterSet
from wactl.policies.queue import FreeQueue
from wactl.simulations.fuzz import BLOCKS, FuzzedEngine, FuzzError
from wactl.simulations.mutate import mutants

Make = Callable[..., ParameterSet]
MESSAGES = 50_000


def test_mutated_pushes_do_no_harm(example: Make) -> None:
    """Whatever is accepted is valid and newer, and orders all blocks; the rest changes nothing."""
    honest = [encode(Push(WIRE, example(version=version))) for version in range(1, 40)]
    draw, engine = mutants(honest, 7), FuzzedEngine()
    for number in range(MESSAGES):
        engine.take(draw(), float(number))
    assert engine.accepted > MESSAGES // 100


def test_it_tells_when_nothing_is_checked(example: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters in force that must not be end the fuzzing."""
    unchecked = messages._pushes
    monkeypatch.setattr(
        "wactl.policies.intake.decode_push", lambda raw: unchecked.decode(raw).parameters
    )
    with pytest.raises(FuzzError, match=r"parameters are in force though: trust 2\.0"):
        FuzzedEngine().take(encode(Push(WIRE, replace(example(), trust=2.0))), 0.0)


def test_it_tells_when_versions_fall(example: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An intake that takes an older version ends the fuzzing."""
    engine = FuzzedEngine()
    engine.take(encode(Push(WIRE, example(version=5))), 0.0)
    consider = Intake.consider

    def forgetful(intake: Intake, raw: bytes, now: float) -> messages.Ack:
        intake._current = None
        return consider(intake, raw, now)

    monkeypatch.setattr(Intake, "consider", forgetful)
    with pytest.raises(FuzzError, match="version 4 came after 5"):
        engine.take(encode(Push(WIRE, example(version=4))), 1.0)


def test_it_tells_when_an_order_is_none(example: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that hands out a block twice ends the fuzzing."""
    pop = FreeQueue.pop

    def twice(queue: FreeQueue, count: int, now: float) -> np.ndarray:
        found = pop(queue, count, now)
        return np.concatenate((found[:-1], found[:1])) if count == BLOCKS else found

    monkeypatch.setattr(FreeQueue, "pop", twice)
    with pytest.raises(FuzzError, match="not every free block is handed out once"):
        FuzzedEngine().take(encode(Push(WIRE, example())), 0.0)
