"""What is known about a request, as one vector of numbers.

Engine and sidecar both look at a request through this vector and nothing else, so the
category that the engine stamps on a block is the category the sidecar books it under.
Words a client may choose freely (type, session, tenant, ...) enter as digests: bounded in
length, comparable, and unreadable in a record or a log.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numba import njit
from numpy.typing import NDArray

FEATURES = (
    "turn",  # 1 for the first request of a conversation, as far as it can be told
    "gap",  # seconds since the chain was last touched, -1 if it was never seen
    "previous_gap",  # seconds between the two touches before this one, -1 if there were none
    "length",  # prompt tokens
    "generated",  # output tokens, -1 until the request has finished
    "position",  # 1 for a block carried over from an earlier request, 0 for a new one
    "carried",  # share of the prompt's blocks that are carried over, 0 to 1
    "popularity",  # requests that began like this one, each counting less as minutes pass
    "max_tokens",  # output tokens allowed, by the model if the client sets no limit
    "structured",  # 1 if the output has to follow a grammar or schema
    "priority",  # vLLM's scheduling priority, lower is earlier
    "type",  # `wactl_category` in vllm_xargs, a digest, 0 if none
    "session",  # session_id, a digest, 0 if none
    "tenant",  # cache_salt, a digest, 0 if none
    "lora",  # name of the LoRA adapter, a digest, 0 if none
    "modality",  # of the first image, audio or video, a digest, 0 if none
    "template",  # of how the prompt begins, a digest, 0 if it fills no block
)
"""Names of the features, in the order of the vector."""

(
    TURN,
    GAP,
    PREVIOUS_GAP,
    LENGTH,
    GENERATED,
    POSITION,
    CARRIED,
    POPULARITY,
    MAX_TOKENS,
    STRUCTURED,
    PRIORITY,
    TYPE,
    SESSION,
    TENANT,
    LORA,
    MODALITY,
    TEMPLATE,
) = range(len(FEATURES))

WORDS = (TYPE, SESSION, TENANT, LORA, MODALITY, TEMPLATE)
"""The features that are digests of words."""

_GAPS = (0, 2, 5, 15, 60, 180, 600)

BUCKETS: dict[int, tuple[float, ...]] = {
    TURN: (1.5, 2.5, 3.5, 4.5, 6.5, 10.5, 20.5),
    GAP: _GAPS,
    PREVIOUS_GAP: _GAPS,
    LENGTH: (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
    GENERATED: (0, 2, 8, 32, 64, 128, 256, 512, 1024),
    POSITION: (0.5,),
    CARRIED: (0.01, 0.25, 0.5, 0.75, 0.9, 0.98),
    POPULARITY: (1.5, 3, 6, 12, 25, 50, 100),
    MAX_TOKENS: (1, 32, 128, 512, 2048, 8192),
    STRUCTURED: (0.5,),
    PRIORITY: (-0.5, 0.5),
}
"""Edges of the buckets that tell the values of a feature apart; a value on an edge is above it."""

_EDGES = max(len(edges) for edges in BUCKETS.values())
EDGES = np.full((len(FEATURES), _EDGES), np.inf)
"""The edges of `BUCKETS` as an array for compiled code; infinity where there is none."""
for _feature, _edges in BUCKETS.items():
    EDGES[_feature, : len(_edges)] = _edges

Features = NDArray[np.float64]


def digest(word: str) -> float:
    """A number from 1 to 2**52 for a word; 0 for the empty word.

    Exact in a float, so that digests can sit in the feature vector.

    >>> digest("")
    0.0
    >>> digest("chat") == digest("chat"), digest("chat") == digest("agent")
    (True, False)
    """
    if not word:
        return 0.0
    raw = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return digest_of(int.from_bytes(raw, "little"))


def digest_of(key: int) -> float:
    """The digest that a well-mixed key of 64 bits stands for."""
    return float((key >> 12) + 1)


@njit(cache=True)
def bucket(edges: NDArray[np.float64], feature: int, value: float) -> int:
    """Number of the bucket of ``feature`` that ``value`` falls in, 0 for the lowest."""
    number = 0
    for edge in edges[feature]:
        if edge <= value and edge < np.inf:
            number += 1
    return number


def blank_features(length: int) -> Features:
    """A feature vector with the prompt's length in tokens set, not yet finished, the rest 0."""
    features = np.zeros(len(FEATURES))
    features[LENGTH] = length
    features[GENERATED] = -1.0
    return features
