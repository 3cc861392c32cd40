"""What wactl costs a real engine: scheduler time a step, with the plugin and without, in turns.

Two vLLM engines live in this process and serve the same requests in turns, one with wactl's
agent, its parameters in force, and one without. Timed are the two calls a step makes of the
scheduler, `schedule` and `update_from_output`, in processor time of their thread, so that other
work of the machine tells as little as can be. Whoever went first in one round goes second in the
next.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ..model import write_model
from .errors import BenchError

if TYPE_CHECKING:
    from ...policies.vllm.timed import TimedEngine

BLOCK_TOKENS = 32
"""Tokens of a block: vLLM's kernels for processors take multiples of 32."""
BLOCKS = 2000
TURNS = 4
"""Requests of a conversation, each of which begins with all of the one before."""
TOGETHER = 32
"""Conversations that run at a time."""
PROMPT = 1024
"""Tokens that each turn adds."""
OUTPUT = 32
CATEGORIES = 64
IMPORTS = 9
"""How often the import is timed."""

_SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class Steps(msgspec.Struct, frozen=True):
    """Scheduler time with wactl's agent in force and without it."""

    rounds: int
    steps: int
    """Of each engine."""
    stock_us: float
    """Scheduler time of a step without wactl, median over the rounds."""
    wactl_us: float
    ratio: float
    """Median over the rounds of the one by the other."""
    ratio_low: float
    ratio_high: float
    """Quartiles of that."""
    evicted: int
    """Blocks that wactl's queue handed out."""


class Off(msgspec.Struct, frozen=True):
    """The plugin installed but not switched on."""

    import_ms: float
    """Loading it and being called by vLLM, in a fresh interpreter, median."""
    modules: int
    """Modules that loads, wactl's own packages included."""


def measure(rounds: int) -> Steps:
    """Serve so many rounds of conversations. Raises `BenchError`."""
    os.environ.update(_SETTINGS)
    with tempfile.TemporaryDirectory(prefix="wactl-bench-", dir="/tmp") as folder:
        model = write_model(Path(folder) / "model")
        # Not before the settings above: vLLM reads them when it is imported.
        from ...policies.vllm.timed import TimedEngine

        shape = (model, BLOCKS, BLOCK_TOKENS, TURNS * (PROMPT + OUTPUT), TOGETHER)
        stock = TimedEngine(*shape)
        os.environ["WACTL_RUN_DIR"] = str(Path(folder) / "run")
        from ...policies.vllm.install import install

        install()
        ours = TimedEngine(*shape)
        queue = ours.scheduler.kv_cache_manager.block_pool.free_block_queue
        if not hasattr(queue, "core"):
            raise BenchError("wactl did not get hold of the engine; `wactl doctor` says why")
        try:
            push = _pusher(Path(folder) / "run")
            found = _rounds(stock, ours, rounds, push)
            if queue.core.orders is None:
                raise BenchError("the engine did not take the bench's parameters")
            return _steps(found, queue.core.evicted)
        finally:
            ours.scheduler.shutdown()


def off() -> Off:
    """What a vLLM process pays for the plugin when ``WACTL`` is not set."""
    code = (
        "import sys, time; before = len(sys.modules); start = time.perf_counter();"
        "from wactl.policies.vllm import register; register();"
        "print(time.perf_counter() - start, len(sys.modules) - before)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "WACTL"}
    found = []
    for _ in range(IMPORTS):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append([float(word) for word in done.stdout.split()])
    seconds, modules = np.median(np.array(found), axis=0)
    return Off(1e3 * float(seconds), int(modules))


def _pusher(run_dir: Path) -> Callable[[], None]:
    """Sends the bench's parameters, the first time until the engine has taken them."""
    import zmq

    from ...controller.push import Pusher
    from .record import parameters

    pusher = Pusher(zmq.Context(), run_dir, 0)
    pusher.push(parameters(CATEGORIES), 0.0)
    deadline = time.monotonic() + 10.0
    while not pusher.accepted:
        if time.monotonic() > deadline:
            raise BenchError(f"the engine did not take the bench's parameters: {pusher.refusal}")
        time.sleep(0.05)
        pusher.answers()

    def again() -> None:
        pusher.keep_alive(time.monotonic())
        pusher.answers()

    return again


def _rounds(
    stock: TimedEngine, ours: TimedEngine, rounds: int, push: Callable[[], None]
) -> list[tuple[float, float, int]]:
    rng = np.random.default_rng(7)
    found = []
    prompts: list[list[int]] = []
    for number in range(rounds + TURNS):
        if number % TURNS == 0:
            prompts = [[] for _ in range(TOGETHER)]
        prompts = [prompt + rng.integers(0, 256, PROMPT).tolist() for prompt in prompts]
        push()
        engines = (stock, ours) if number % 2 else (ours, stock)
        served = {engine: engine.serve(prompts, OUTPUT) for engine in engines}
        if served[stock][1] != served[ours][1]:
            raise BenchError("the two engines answered differently; is a block of the cache wrong?")
        prompts = [p + a for p, a in zip(prompts, served[ours][1], strict=True)]
        if number >= TURNS:  # the first conversations warm both up
            found.append((served[stock][0], served[ours][0], ours.steps))
    return found


def _steps(found: list[tuple[float, float, int]], evicted: int) -> Steps:
    stock, ours, steps = np.array(found).T
    low, middle, high = np.quantile(ours / stock, (0.25, 0.5, 0.75))
    return Steps(
        rounds=len(found),
        steps=int(steps.sum()),
        stock_us=float(np.median(stock)),
        wactl_us=float(np.median(ours)),
        ratio=float(middle),
        ratio_low=float(low),
        ratio_high=float(high),
        evicted=evicted,
    )
