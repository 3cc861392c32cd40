"""What the sidecar costs: a core's share of time, memory, and how long a refit takes.

Three measurements. Its loop is fed admissions through a real socket as fast as it takes them
in, and its thread's processor time is counted. The laws of 64 categories are fitted from what
it saw. And a real sidecar process is fed a hundred admissions a second by the engine's own
channel, while the kernel counts its processor time, threads, heartbeats and all.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import zmq

from ...controller.learner import Learner
from ...controller.link import Link
from ...controller.loop import Loop
from ...controller.rules import REST, Rule
from ...controller.settings import Mode, Settings
from ...controller.status import NoSidecar, Request, ask
from ...policies.channel import Channel
from ...policies.features import TYPE, blank_features, digest
from ...policies.intake import Intake
from ...policies.messages import WIRE, Admission, EngineState, Finish, Heartbeat, Records, encode
from ...policies.recorder import Recorder
from ...policies.rundir import private_dir, records_endpoint
from ...policies.sample import keys_of
from .errors import BenchError
from .scheduler import prompts
from .traffic import BLOCK_TOKENS

CATEGORIES = 64
PROMPT_BLOCKS = 4096 // BLOCK_TOKENS
RATE = 100.0
"""Admissions a second, at which the share of a core is told."""
TOGETHER = 5
"""Admissions in a message: what comes together in the 50 ms the channel waits, at that rate."""
BURST = 200
"""Messages sent before the loop's turn."""
CACHES = (100_000, 4096)
"""Sizes of the engine's cache: one block in 32 is followed, and every one."""
ADMISSIONS = 10_000
REFITS = 20
UNMEASURED = 100
"""Admissions after which the sidecar's kernels are read from disk."""


class Fed(msgspec.Struct, frozen=True):
    """The loop, fed as fast as it can: receive, check, classify, observe."""

    cache_blocks: int
    followed_blocks: float
    """Of each prompt, in the mean."""
    admissions: int
    us_per_admission: float
    core_share: float
    """Of one core, at `RATE` admissions a second."""
    refit_ms: float
    """Histograms and laws of 64 categories: the median of `REFITS`."""
    refit_worst_ms: float


class Lived(msgspec.Struct, frozen=True):
    """A sidecar process under `RATE` admissions a second, the rules and settings as shipped."""

    cache_blocks: int
    seconds: float
    admissions: int
    core_share: float
    resident_mb: float
    anonymous_mb: float
    """What of it is the process's own; the rest is files, LLVM's library most of all."""


def fed(cache_blocks: int, count: int) -> Fed:
    """Feed a `Link` with so many requests of 4k-token prompts."""
    settings = Settings(refit_seconds=3600.0, categories=CATEGORIES)
    requests = list(_requests(cache_blocks, count))
    spent, taken = [], 0
    with tempfile.TemporaryDirectory(prefix="wactl-bench-", dir="/tmp") as folder:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        sender = context.socket(zmq.PUB)
        sender.bind(records_endpoint(Path(folder), 0))
        link = Link(context, Path(folder), 0, settings, (Rule(REST),))
        try:
            learner = _meet(sender, link, cache_blocks).learner
            size = BURST * TOGETHER
            for first in range(0, count, size):
                burst = requests[first : first + size]
                for at in range(0, len(burst), TOGETHER):
                    admissions, finishes = zip(*burst[at : at + TOGETHER], strict=True)
                    sender.send(encode(Records(WIRE, "bench", taken, admissions, finishes)))
                    taken += 1
                time.sleep(0.1)
                start = time.thread_time()
                link.work(Mode.SHADOW, 0.0)
                spent.append((time.thread_time() - start) / len(burst))
            seen = int(learner.by_rule.requests.sum())
            if seen != count:
                raise BenchError(f"of {count} admissions the loop saw {seen}; is /tmp's disk busy?")
            refits = [_refit(learner, requests[-1][0].time) for _ in range(REFITS)]
        finally:
            link.close()
            context.destroy(linger=0)
    each = float(np.median(spent))
    return Fed(
        cache_blocks=cache_blocks,
        followed_blocks=float(np.mean([len(a.keys) / 8 for a, _ in requests])),
        admissions=count,
        us_per_admission=1e6 * each,
        core_share=each * RATE,
        refit_ms=1e3 * float(np.median(refits)),
        refit_worst_ms=1e3 * max(refits),
    )


def lived(cache_blocks: int, seconds: float) -> Lived:
    """Run a real sidecar for so long and ask the kernel what it took. Raises `BenchError`."""
    with tempfile.TemporaryDirectory(prefix="wactl-bench-", dir="/tmp") as folder:
        run_dir = private_dir(Path(folder) / "run")
        with _sidecar(Path(folder), run_dir) as sidecar:
            channel = Channel(
                run_dir, 0, "bench", time.monotonic, Intake(), lambda: state_of(cache_blocks)
            )
            try:
                _until_met(run_dir)
                count = UNMEASURED + int(seconds * RATE)
                begin = time.monotonic()
                for number, request in enumerate(_requests(cache_blocks, count, live=True)):
                    time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
                    if number == UNMEASURED:
                        before, start = _processor_seconds(sidecar.pid), time.monotonic()
                    for record in request:
                        channel.send(record)
                elapsed = time.monotonic() - start
                used = _processor_seconds(sidecar.pid) - before
                seen = ask(run_dir, Request()).engines[0].categories
            finally:
                channel.close()
            if sum(category.requests for category in seen if category.rule) < 0.9 * count:
                raise BenchError("the sidecar did not keep up with a hundred admissions a second")
            return Lived(
                cache_blocks=cache_blocks,
                seconds=elapsed,
                admissions=count - UNMEASURED,
                core_share=used / elapsed,
                resident_mb=_megabytes(sidecar.pid, "VmRSS"),
                anonymous_mb=_megabytes(sidecar.pid, "RssAnon"),
            )


def _requests(
    cache_blocks: int, count: int, *, live: bool = False
) -> Iterator[tuple[Admission, Finish]]:
    """What a recorder tells of prompts of `PROMPT_BLOCKS` blocks, `RATE` a second."""
    recorder, rng = Recorder(cache_blocks), random.Random(7)
    for number, hashes in enumerate(prompts(PROMPT_BLOCKS, count)):
        features = blank_features(BLOCK_TOKENS * PROMPT_BLOCKS)
        features[TYPE] = digest(f"kind {rng.randrange(CATEGORIES)}")
        now = time.monotonic() if live else number / RATE
        name = str(number)
        admission = recorder.admit(name, keys_of(hashes), 0, features, now)
        done = recorder.finish(name, rng.randrange(2048), now)
        assert done is not None
        yield admission, done[1]


def _refit(learner: Learner, now: float) -> float:
    """Seconds of processor time of one refit."""
    learner.fitted_at = now - learner.settings.refit_seconds
    start = time.thread_time()
    assert learner.step(now), "it was not due"
    return time.thread_time() - start


def _meet(sender: zmq.Socket[bytes], link: Link, cache_blocks: int) -> Loop:
    """Wait until what is sent arrives; the loop that begins then."""
    for _ in range(200):
        sender.send(encode(Heartbeat(WIRE, "bench", 0, 0.0, state_of(cache_blocks))))
        time.sleep(0.02)
        link.work(Mode.SHADOW, 0.0)
        if link.loop is not None:
            return link.loop
    raise BenchError("nothing comes through the socket in /tmp")


@contextmanager
def _sidecar(folder: Path, run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    config = folder / "wactl.yaml"
    config.write_text("metrics_port: 0\nmode: enforce\nstate_dir: state\n")
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir)}
    command = (sys.executable, "-m", "wactl", "run", "--config", str(config))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _until_met(run_dir: Path) -> None:
    for _ in range(300):
        time.sleep(0.1)
        try:
            if ask(run_dir, Request()).engines:
                return
        except NoSidecar:
            continue
    raise BenchError("the sidecar did not start within 30 s; does `wactl run` work?")


def _processor_seconds(pid: int) -> float:
    """Of all threads of a process, as the kernel counts them."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int, kind: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{kind}:"))
    return int(line.split()[1]) / 1024


def state_of(blocks: int) -> EngineState:
    """What an engine of so many blocks tells that runs plain LRU."""
    return EngineState(
        rank=0,
        pid=os.getpid(),
        version="bench",
        block_tokens=BLOCK_TOKENS,
        blocks=blocks,
        shift=Recorder(blocks).shift,
        active=0,
        newest=0,
        order="lru",
        reason="a bench, no engine",
        free=0,
        cached=(),
        evicted=0,
        orphans=0,
        admitted=0,
        dropped=0,
        accepted=0,
        rejected=0,
        errors=0,
        exempt_groups=0,
    )
