"""The wire between engine and sidecar: what is said, and how it is checked.

Out of the engine, on a PUB socket, comes a stream of `Records` and `Heartbeat`, numbered
without a gap, so that a reader can count what it missed. Into it, on a ROUTER socket, go
`Push` messages, each answered by an `Ack`. All are msgpack, encoded by msgspec, and carry the
version of this format: a reader that does not know it says so instead of guessing.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from .blocks import MAX_CATEGORIES
from .parameters import MAX_VERSION, ParameterSet

WIRE = 2
"""Version of this format; a change that an old reader cannot read raises it."""

MAX_MESSAGE = 1 << 20
"""Largest message anybody reads, in bytes. 512 categories of 16 components take a quarter."""

FAR = 2.0**60
"""No time and no feature is as large as this."""

MOST = 1 << 32
"""No cache and no prompt has as many blocks, no block as many tokens."""


class WireError(ValueError):
    """A message that cannot be used; the text says why, in one sentence."""


class Admission(msgspec.Struct, frozen=True, array_like=True):
    """One admitted request. It holds no token, no text and no name, only numbers and digests."""

    time: float
    """Seconds of the engine's clock."""
    features: tuple[float, ...]
    """The vector of `wactl.policies.features`, position left 0."""
    blocks: int
    """Full blocks of the prompt."""
    hits: int
    """How many of them were in the cache."""
    carried: int
    """How many leading ones had been seen before, in the cache or not."""
    replay: bool
    """It was admitted again after a preemption: neither a reuse nor a miss."""
    unread: bool
    """It asked not to read the cache, so its misses are none."""
    keys: bytes
    """Keys of the followed blocks, 8 bytes each, little-endian."""
    positions: bytes
    """Where these stand in the prompt, 8 bytes each, little-endian, ascending."""
    number: int
    """Of the request, from 0; the same again when it is admitted after a preemption."""


class Finish(msgspec.Struct, frozen=True, array_like=True):
    """A request that was admitted has ended, and its blocks are free."""

    time: float
    """Seconds of the engine's clock."""
    number: int
    """Of its admission."""
    generated: int
    """Output tokens."""


class Records(msgspec.Struct, frozen=True, tag="records"):
    """What happened within an instant: who was admitted, in order, and who has finished."""

    wire: int
    engine: str
    sequence: int
    admissions: tuple[Admission, ...]
    finishes: tuple[Finish, ...] = ()


class EngineState(msgspec.Struct, frozen=True):
    """What an engine tells about itself."""

    rank: int
    pid: int
    version: str
    """Of vLLM."""
    block_tokens: int
    blocks: int
    shift: int
    """One block in 2**shift is followed."""
    active: int
    """Version of the parameters in force, 0 for plain LRU."""
    newest: int
    """Highest version ever accepted; a push needs a higher one."""
    order: str
    """``scored`` or ``lru``."""
    reason: str
    """Why that order."""
    free: int
    cached: tuple[int, ...]
    """Free blocks that can still be hit, by category id."""
    evicted: int
    orphans: int
    admitted: int
    dropped: int
    """Records lost because the channel could not keep up."""
    accepted: int
    rejected: int
    errors: int
    exempt_groups: int
    """KV-cache groups that keep the stock order, not being full attention."""


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Sent at least once a second, so that silence means something."""

    wire: int
    engine: str
    sequence: int
    time: float
    state: EngineState


class Push(msgspec.Struct, frozen=True, tag="push"):
    """Order by these parameters from now on."""

    wire: int
    parameters: ParameterSet


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """The engine's answer: which version, taken or not, and if not, why."""

    wire: int
    version: int
    accepted: bool
    reason: str


Report = Records | Heartbeat

_encoder = msgspec.msgpack.Encoder()
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Records | Heartbeat)
_pushes = msgspec.msgpack.Decoder(Push)
_acks = msgspec.msgpack.Decoder(Ack)


def encode(message: Report | Push | Ack) -> bytes:
    """The message as bytes."""
    return _encoder.encode(message)


def decode_report(raw: bytes) -> Report:
    """A message of an engine's stream. Raises `WireError`."""
    report: Report = _decode(_reports, raw)
    if isinstance(report, Records):
        for admission in report.admissions:
            if wrong := _wrong(admission):
                raise WireError(f"an admission record {wrong}")
        if not all(abs(f.time) < FAR and 0 <= f.generated < 2**31 for f in report.finishes):
            raise WireError("a finish record whose time or tokens make no sense")
    elif not abs(report.time) < FAR:
        raise WireError("a heartbeat whose time is not a number or far too large")
    elif wrong := _absurd(report.state):
        raise WireError(f"a heartbeat whose {wrong} make no sense")
    return report


def decode_push(raw: bytes) -> ParameterSet:
    """The parameters of a push, checked in full. Raises `WireError`."""
    parameters: ParameterSet = _decode(_pushes, raw).parameters
    if wrong := parameters.problem():
        raise WireError(wrong)
    return parameters


def decode_ack(raw: bytes) -> Ack:
    """An engine's answer. Raises `WireError`."""
    ack: Ack = _decode(_acks, raw)
    return ack


def _decode(decoder: Any, raw: bytes) -> Any:
    if len(raw) > MAX_MESSAGE:
        raise WireError(f"a message of {len(raw)} bytes; the largest allowed is {MAX_MESSAGE}")
    try:
        message = decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # The text may quote all that was sent.
        raise WireError(f"not a message of this format: {str(error)[:200]}") from None
    if message.wire != WIRE:
        raise WireError(f"a message of wire format {message.wire}; this side speaks {WIRE}")
    return message


def _wrong(admission: Admission) -> str | None:
    from .features import FEATURES

    if len(admission.features) != len(FEATURES):
        return f"has {len(admission.features)} features instead of {len(FEATURES)}"
    if not all(abs(value) < FAR for value in (admission.time, *admission.features)):
        return "has a feature that is not a number or far too large"
    if not 0 <= admission.hits <= admission.blocks < MOST or not 0 <= admission.carried <= 2**31:
        return f"has {admission.hits} hits among {admission.blocks} blocks"
    if len(admission.keys) % 8 or len(admission.keys) != len(admission.positions):
        return "has keys and positions that do not match"
    positions = np.frombuffer(admission.positions, "<u8")
    if len(positions) and not (
        positions[-1] < admission.blocks and (positions[:-1] < positions[1:]).all()
    ):
        return "has positions that do not ascend within its prompt"
    return None


def _absurd(state: EngineState) -> str | None:
    """What of a heartbeat makes no sense."""
    if not 0 <= state.shift < 32:
        return "sampling"
    if not (0 < state.blocks < MOST and 0 < state.block_tokens < MOST):
        return "blocks"
    if not 0 <= state.active <= state.newest < MAX_VERSION:
        return "versions"
    if len(state.cached) > MAX_CATEGORIES or not all(0 <= n < MOST for n in state.cached):
        return "categories"
    return None
