"""What the sidecar tells about itself: the values behind ``wactl status`` and the metrics.

Only records and how to fetch them, so that the command starts in no time.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..policies.errors import WactlError
from ..policies.rundir import is_private, sidecar_endpoint

PATIENCE = 2.0
"""Seconds to wait for the sidecar's answer."""


class Category(msgspec.Struct, frozen=True):
    """One category: a rule, or one of the parts it is split into."""

    name: str
    rule: bool
    """Whether this is a whole rule; those of its parts that were seen follow it."""
    requests: int
    """Counted in the part that the prompt's new blocks belong to."""
    hit_ratio: float | None
    """Of the blocks of its prompts; None before any."""
    p: float | None
    """Probability that a block is ever reused; None before the first fit."""
    mean_reuse_seconds: float | None
    lifespan_seconds: float | None
    evidence: float
    """Observed blocks behind the fit, older ones counting less."""
    cached_share: float | None
    """Share of the free cached blocks; None while the engine tags none."""


class Engine(msgspec.Struct, frozen=True):
    """One engine, as last heard of."""

    rank: int
    pid: int
    vllm: str
    alive: bool
    silent_seconds: float
    order: str
    reason: str
    version: int
    """Parameters in force, 0 for plain LRU."""
    version_age_seconds: float | None
    blocks: int
    block_tokens: int
    cached_blocks: int
    sample: int
    """One block in this many is followed."""
    requests: int
    hit_ratio: float | None
    evicted: int
    pushed: int
    accepted: int
    rejected: int
    refusal: str
    lost_messages: int
    dropped_records: int
    errors: int
    exempt_groups: int
    categories: tuple[Category, ...]


class Status(msgspec.Struct, frozen=True):
    """The sidecar and its engines."""

    wactl: str
    mode: str
    pid: int
    rules: str
    run_dir: str
    engines: tuple[Engine, ...]
    silent: tuple[str, ...] = ()
    """Where an engine is expected but none was ever heard."""


class Request(msgspec.Struct, frozen=True):
    """A question to the sidecar: its status, after a change of mode if one is named."""

    mode: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """The sidecar's answer: its status, or why it refused."""

    status: Status | None
    refusal: str = ""


class NoSidecar(WactlError):
    """Nobody answers; the text says what to do."""


def ask(run_dir: Path, request: Request) -> Status:
    """The status of the sidecar that serves the folder. Raises `NoSidecar` or `RunDirError`."""
    import zmq

    endpoint = sidecar_endpoint(run_dir)
    if not is_private(run_dir) or not (run_dir / "sidecar").exists():
        raise NoSidecar(f"no sidecar uses {run_dir}; start one with `wactl run`")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
    socket = context.socket(zmq.REQ)
    socket.linger = 0
    socket.connect(endpoint)
    try:
        socket.send(msgspec.json.encode(request))
        if not socket.poll(int(PATIENCE * 1000)):
            raise NoSidecar(
                f"the sidecar in {run_dir} does not answer; is its process alive? "
                "start a new one with `wactl run`"
            )
        answer = msgspec.json.decode(socket.recv(), type=Answer)
    except msgspec.MsgspecError:
        raise NoSidecar(
            f"the sidecar in {run_dir} is of another version of wactl; restart it with `wactl run`"
        ) from None
    finally:
        context.destroy(linger=0)
    if answer.status is None:
        raise NoSidecar(answer.refusal)
    return answer.status
