"""LRU against wactl on a real engine: the same prompts, the same cache, one after the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..controller.status import NoSidecar, Request, Status, ask
from .load import Answered, replay
from .server import Served, Server
from .traces import Prompt

SETTINGS = "mode: enforce\nmetrics_port: 0\nstate_dir: state\n"
"""What the sidecar of a comparison runs with; everything else as shipped."""


@dataclass(frozen=True)
class Outcome:
    """What one side did with the prompts; times in seconds."""

    name: str
    hit_ratio: float
    """Prompt tokens found in the cache, by vLLM's own counters."""
    mean_first_token: float
    p95_first_token: float
    requests: int
    failed: int
    versions: int
    """Parameter versions pushed and accepted."""
    tokens: tuple[tuple[int, ...], ...]
    """What was generated, request by request."""
    status: Status | None


@dataclass(frozen=True)
class Plan:
    """A comparison: the prompts, how the server is started, how much faster time runs."""

    prompts: Sequence[Prompt]
    served: Served
    speed: float
    folder: Path
    """Where logs, settings and sockets go."""
    output_tokens: int = 1


Progress = Callable[[str, int], None]
"""Told what is going on and how many requests are done."""


def run_lru(plan: Plan, progress: Progress) -> Outcome:
    """The stock engine, without the plugin."""
    progress("starting vLLM, plain LRU", 0)
    server = Server(plan.served, plan.folder / "lru.log")
    return _run("LRU", plan, server, None, lambda done: progress("LRU", done))


def run_wactl(plan: Plan, progress: Progress) -> Outcome:
    """The same engine with the plugin and its sidecar, learning from nothing."""
    progress("starting vLLM with wactl", 0)
    settings = plan.folder / "wactl.yaml"
    settings.write_text(SETTINGS)
    run_dir = plan.folder / "run"
    sidecar = [sys.executable, "-m", "wactl", "run", "--config", str(settings), "--"]
    environment = {"WACTL_RUN_DIR": str(run_dir), "WACTL_TIME_SCALE": str(plan.speed)}
    server = Server(plan.served, plan.folder / "wactl.log", sidecar, environment)
    return _run("wactl", plan, server, run_dir, lambda done: progress("wactl", done))


def _run(
    name: str,
    plan: Plan,
    server: Server,
    run_dir: Path | None,
    progress: Callable[[int], None],
) -> Outcome:
    with server:
        answers = asyncio.run(
            replay(
                server.url,
                plan.prompts,
                block_tokens=plan.served.block_tokens,
                speed=plan.speed,
                concurrency=plan.served.max_requests,
                output_tokens=plan.output_tokens,
                progress=progress,
            )
        )
        counters = server.counters()
        status = _status(run_dir)
    return _outcome(name, answers, counters, status)


def _status(run_dir: Path | None) -> Status | None:
    try:
        return ask(run_dir, Request()) if run_dir is not None else None
    except NoSidecar:
        return None


def _outcome(
    name: str, answers: Sequence[Answered], counters: dict[str, float], status: Status | None
) -> Outcome:
    waits = np.array([answer.first_token for answer in answers if not answer.error] or [np.nan])
    engines = status.engines if status else ()
    return Outcome(
        name=name,
        hit_ratio=counters["vllm:prefix_cache_hits_total"]
        / max(1.0, counters["vllm:prefix_cache_queries_total"]),
        mean_first_token=float(waits.mean()),
        p95_first_token=float(np.quantile(waits, 0.95)),
        requests=len(answers),
        failed=sum(bool(answer.error) for answer in answers),
        versions=max((engine.version for engine in engines), default=0),
        tokens=tuple(answer.tokens for answer in answers),
        status=status,
    )
