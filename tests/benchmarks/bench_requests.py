"""What a request costs in the scheduler and in the sidecar's loop, step by step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from wactl.controller.learner import Learner
from wactl.controller.rules import load_rules
from wactl.controller.settings import Settings
from wactl.policies.features import blank_features
from wactl.policies.messages import WIRE, Admission, Finish, Records, decode_report, encode
from wactl.policies.queue import FreeQueue
from wactl.policies.recorder import Recorder
from wactl.policies.sample import keys_of
from wactl.policies.table import compile_table
from wactl.simulations.bench.record import parameters
from wactl.simulations.bench.scheduler import prompts

SIZES = pytest.mark.parametrize("blocks", [256, 8192], ids=["4k tokens", "128k tokens"])
CACHE = 100_000
ROUNDS = 200


def served(blocks: int, count: int) -> list[tuple[Admission, Finish]]:
    """What a recorder says of prompts of so many blocks, a hundred a second."""
    recorder, found = Recorder(CACHE), []
    for i, hashes in enumerate(prompts(blocks, count)):
        features = blank_features(16 * blocks)
        admission = recorder.admit(str(i), keys_of(hashes), 0, features, i / 100)
        done = recorder.finish(str(i), 100, i / 100)
        assert done is not None
        found.append((admission, done[1]))
    return found


@SIZES
def test_record(benchmark: Any, blocks: int) -> None:
    """Keys, features, record of an admitted request."""
    recorder, numbers = Recorder(CACHE), itertools.count()
    asked = prompts(blocks, ROUNDS + 10)

    def admit(hashes: list[bytes], number: int) -> None:
        features = blank_features(16 * blocks)
        recorder.admit(str(number), keys_of(hashes), 0, features, float(number))

    benchmark.pedantic(
        admit,
        setup=lambda: ((next(asked), next(numbers)), {}),
        rounds=ROUNDS,
        warmup_rounds=5,
    )


@SIZES
def test_finish(benchmark: Any, blocks: int) -> None:
    """Categories and record of a request that ended, under 64 of them."""
    recorder, numbers = Recorder(CACHE), itertools.count()
    recorder.follow(compile_table(parameters(64).table))
    asked = prompts(blocks, ROUNDS + 10)

    def admitted() -> tuple[tuple[str, int, float], dict[str, Any]]:
        name = str(next(numbers))
        recorder.admit(name, keys_of(next(asked)), 0, blank_features(16 * blocks), 0.0)
        return (name, 100, 1.0), {}

    benchmark.pedantic(recorder.finish, setup=admitted, rounds=ROUNDS, warmup_rounds=5)


@SIZES
def test_tag(benchmark: Any, blocks: int) -> None:
    """Tagging the blocks of a request that ended."""
    queue, categories = FreeQueue(CACHE), np.array([2, 2])
    taken = queue.pop(blocks, 0.0)
    benchmark.pedantic(
        queue.tag, args=(taken, blocks // 2, categories, 1.0), rounds=ROUNDS, warmup_rounds=5
    )


@SIZES
def test_observe(benchmark: Any, blocks: int) -> None:
    """A request's two records read from the wire and taken in by the sidecar."""
    settings = Settings()
    learner = Learner(settings, load_rules(settings.rules))
    both = served(blocks, ROUNDS + 10)
    raw = iter([encode(Records(WIRE, "bench", 0, (one,), (end,))) for one, end in both])

    def observe(message: bytes) -> None:
        report = decode_report(message)
        assert isinstance(report, Records)
        learner.admit(report.admissions[0])
        learner.finish(report.finishes[0])

    benchmark.pedantic(observe, setup=lambda: ((next(raw),), {}), rounds=ROUNDS, warmup_rounds=5)


def test_refit(benchmark: Any) -> None:
    """Histograms and laws of the rules that ship with wactl."""
    settings = Settings()
    learner = Learner(settings, load_rules(settings.rules))
    for admission, finish in served(256, 2000):
        learner.admit(admission)
        learner.finish(finish)

    def due() -> tuple[tuple[float], dict[str, Any]]:
        learner.fitted_at = 20.0
        return (20.0 + settings.refit_seconds,), {}

    assert benchmark.pedantic(learner.step, setup=due, rounds=30, warmup_rounds=2)
