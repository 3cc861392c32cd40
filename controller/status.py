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

IDLE_AGES = (1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 7200.0)
"""Seconds that part the spans of idle time that evicted blocks are counted by."""


class Missed(msgspec.Struct, frozen=True):
    """Why blocks of prompts were not in the cache, see `misses`; in blocks unless said.

    Of requests that have finished. Where a sample is followed these are estimates.
    """

    cold: int = 0
    """Never seen."""
    evicted: int = 0
    """Seen, and gone."""
    unready: int = 0
    """Held by a request that still ran: not computed yet."""
    last: int = 0
    """Ends where its prompt ends: vLLM computes it in any case."""
    evicted_idle: tuple[int, ...] = ()
    """The evicted ones by the time since their last use before, in the spans of `IDLE_AGES`."""
    short_tokens: int = 0
    """Tokens behind the last full block of a prompt, which nobody can hit; exact."""
    short_requests: int = 0
    """Prompts that fill no block; exact."""


class Tenant(msgspec.Struct, frozen=True):
    """Misses of one tenant, since it was told apart."""

    name: str
    """Eight digits of a digest of its `cache_salt`; ``none`` of requests without, ``other`` of
    tenants that are not among the fifteen told apart."""
    requests: int
    missed: Missed


class Category(msgspec.Struct, frozen=True):
    """One category: a rule, or one of the parts that the model divides it into."""

    name: str
    rule: bool
    """Whether this is a whole rule; its parts follow it."""
    requests: int
    """Finished ones, counted in the part that the prompt's new blocks belong to."""
    prompt_blocks: int
    """Full blocks of the prompts in the records received that read the cache."""
    hit_blocks: int
    """Those of them that were in the cache."""
    hit_ratio: float | None
    """Of the blocks of its prompts; None before any."""
    p: float | None
    """Probability that a block is ever reused; None before the first fit."""
    mean_reuse_seconds: float | None
    lifespan_seconds: float | None
    evidence: float
    """Requests behind the fit, older ones counting less."""
    error: float | None
    """Relative standard error of the rate of reuse; None before any."""
    cached_share: float | None
    """Share of the free cached blocks; None while the engine tags none."""
    reuse: tuple[float, ...]
    """Reuses by age, in requests like the evidence, over equal steps of log age from 0.1 s to
    35 h; empty before the first fit."""
    expected: tuple[float, ...]
    """The same as the law has it, of blocks watched for as long; empty before the first fit."""
    missed: Missed | None = None
    """Why its blocks were missed; None of a part of a rule."""


class Contestant(msgspec.Struct, frozen=True):
    """An order of blocks, as its shadow cache sees it, or the engine as it is."""

    name: str
    """``lru``, a family of laws, or ``engine``."""
    hit_ratio: float | None
    """Over the long window, ten minutes; None before any requests."""
    ahead_of_lru: float
    """Hit ratio minus that of LRU, over the same window."""
    noise: float
    """Standard error of that."""
    hit_blocks: float
    """Estimated hits of all requests so far."""
    evicted: int = 0
    """Estimated evictions of its shadow; 0 of ``engine``, whose own cannot be told apart."""
    evicted_idle: tuple[int, ...] = ()
    """These by the time since the last use, in the spans of `IDLE_AGES`."""
    regretted: int = 0
    """Those of them that were asked for again within ten minutes of their eviction."""


class Gate(msgspec.Struct, frozen=True):
    """Which order was chosen, or would be in mode enforce, and why."""

    phase: str
    """``warming``, ``steady`` or ``fallback``."""
    running: str
    since_seconds: float
    """How long ago that was chosen."""
    reason: str
    falls: int
    """How often a candidate had to be stood down lately."""
    saved_tokens: int
    """Prefill tokens that the chosen order's shadow hit and LRU's did not; below 0 if it lost."""
    contestants: tuple[Contestant, ...]
    engine_offset: float | None = None
    """Hit ratio of the engine minus that of LRU's shadow, over the time in which it ran LRU itself;
    None if it has not. The engine is judged by what is left without it."""

    def contestant(self, name: str) -> Contestant:
        """The one of this name."""
        return next(one for one in self.contestants if one.name == name)


class Change(msgspec.Struct, frozen=True):
    """Something that is otherwise than before."""

    seconds_ago: float
    """By the engine's clock."""
    kind: str
    """``engine``, ``mode``, ``rules``, ``gate`` or ``laws``."""
    text: str
    """What it was, and why."""


class Engine(msgspec.Struct, frozen=True):
    """One engine, as last heard of."""

    rank: int
    pid: int
    time: float
    """Its clock when it was last heard of, in seconds."""
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
    prompt_blocks: int
    """Of all categories, and of the requests that no rule fits."""
    hit_blocks: int
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
    gate: Gate
    changes: tuple[Change, ...]
    """The last ones, newest first."""
    categories: tuple[Category, ...]
    missed: Missed = Missed()
    """Why blocks were missed, all requests together."""
    tenants: tuple[Tenant, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The sidecar and its engines."""

    wactl: str
    mode: str
    pid: int
    rules: str
    rules_problem: str
    """Why the rule file as it is now is not in use; empty if it is."""
    run_dir: str
    engines: tuple[Engine, ...]
    silent: tuple[str, ...] = ()
    """Where an engine is expected but none was ever heard."""
    mode_asked: bool = False
    """The mode is the one last asked for with `wactl mode`, not simply that of the settings."""
    state_dir: str = ""
    """Where mode and what was learned are kept."""
    state_problem: str = ""
    """Why they are not; empty if they are."""


class Request(msgspec.Struct, frozen=True):
    """A question to the sidecar: its status, after a change of mode if one is named.

    With ``explain``, a feature vector, it also says what happens to such a request.
    """

    mode: str | None = None
    explain: tuple[float, ...] | None = None


class Explanation(msgspec.Struct, frozen=True):
    """What one engine's sidecar makes of the new and of the carried blocks of a request."""

    rank: int
    rule: str
    new: Category
    carried: Category


class Answer(msgspec.Struct, frozen=True):
    """The sidecar's answer: its status, or why it refused."""

    status: Status | None
    refusal: str = ""
    explanations: tuple[Explanation, ...] = ()


class NoSidecar(WactlError):
    """Nobody answers; the text says what to do."""


def as_json(status: Status) -> str:
    """The status as people and programs read it."""
    return msgspec.json.format(msgspec.json.encode(status)).decode()


def ask(run_dir: Path, request: Request) -> Status:
    """The status of the sidecar that serves the folder. Raises `NoSidecar` or `RunDirError`."""
    status = consult(run_dir, request).status
    assert status is not None
    return status


def consult(run_dir: Path, request: Request) -> Answer:
    """All that the sidecar answers, never a refusal. Raises `NoSidecar` or `RunDirError`."""
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
    return answer
