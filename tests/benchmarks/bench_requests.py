"""What a request costs in the scheduler and in the sidecar's loop, step by step."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from wactl.controller.learner import Learner
from wactl.controller.rules import load_rules
from wactl.controller.settings import Settings
from wactl.policies.messages import Admission, Records, decode_report, encode
from wactl.policies.queue import FreeQueue
from wactl.policies.recorder import Recorder, blank_features
from wactl.policies.sample import keys_of
from wactl.simulations.bench.scheduler import prompts

SIZES = pytest.mark.parametrize("blocks", [256, 8192], ids=["4k tokens", "128k tokens"])
CACHE = 100_000
ROUNDS = 200


def admissions(blocks: int, count: int) -> list[Admission]:
    """What a recorder says of prompts of so many blocks, a hundred a second."""
    recorder = Recorder(CACHE)
    return [
        recorder.admit(str(i), keys_of(hashes), 0, blank_features(16 * blocks), i / 100)
        for i, hashes in enumerate(prompts(blocks, count))
    ]


@SIZES
def test_record(benchmark: Any, blocks: int) -> None:
    """Keys, features, category, record of an admitted request."""
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
def test_tag(benchmark: Any, blocks: int) -> None:
    """Tagging the blocks of a request that ended."""
    queue, categories = FreeQueue(CACHE), np.array([2, 2])
    taken = queue.pop(blocks, 0.0)
    benchmark.pedantic(
        queue.tag, args=(taken, blocks // 2, categories, 1.0), rounds=ROUNDS, warmup_rounds=5
    )


@SIZES
def test_observe(benchmark: Any, blocks: int) -> None:
    """A record read from the wire and taken in by the sidecar."""
    settings = Settings()
    learner = Learner(settings, load_rules(settings.rules))
    messages = [encode(Records(1, "bench", 0, (a,))) for a in admissions(blocks, ROUNDS + 10)]
    raw = iter(messages)

    def observe(message: bytes) -> None:
        report = decode_report(message)
        assert isinstance(report, Records)
        learner.observe(report.admissions[0])

    benchmark.pedantic(observe, setup=lambda: ((next(raw),), {}), rounds=ROUNDS, warmup_rounds=5)


def test_refit(benchmark: Any) -> None:
    """Histograms and laws of the rules that ship with wactl."""
    settings = Settings()
    learner = Learner(settings, load_rules(settings.rules))
    for admission in admissions(256, 2000):
        learner.observe(admission)

    def due() -> tuple[tuple[float], dict[str, Any]]:
        learner.fitted_at = 20.0
        return (20.0 + settings.refit_seconds,), {}

    assert benchmark.pedantic(learner.step, setup=due, rounds=30, warmup_rounds=2)
