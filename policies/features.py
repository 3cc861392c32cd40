"""What is known about a request when it is admitted, as one vector of numbers.

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
    "position",  # 1 for a block carried over from an earlier request, 0 for a new one
    "priority",  # vLLM's scheduling priority, lower is earlier
    "type",  # `wactl_category` in vllm_xargs, a digest, 0 if none
    "session",  # session_id, a digest, 0 if none
    "tenant",  # cache_salt, a digest, 0 if none
    "lora",  # name of the LoRA adapter, a digest, 0 if none
    "modality",  # of the first image, audio or video, a digest, 0 if none
)
"""Names of the features, in the order of the vector."""

TURN, GAP, PREVIOUS_GAP, LENGTH, POSITION, PRIORITY, TYPE, SESSION, TENANT, LORA, MODALITY = range(
    len(FEATURES)
)

WORDS = (TYPE, SESSION, TENANT, LORA, MODALITY)
"""The features that are digests of words."""

BUCKETS: dict[int, tuple[tuple[float, ...], tuple[str, ...]]] = {
    TURN: ((1.5, 2.5, 4.5), ("turn 1", "turn 2", "turn 3-4", "turn 5+")),
    GAP: (
        (0, 2, 5, 15, 60, 180, 600),
        ("unseen", "<2s", "2-5s", "5-15s", "15-60s", "1-3min", "3-10min", ">10min"),
    ),
    PREVIOUS_GAP: (
        (0, 2, 5, 15, 60, 180, 600),
        ("no gap", "was <2s", "was 2-5s", "was 5-15s", "was 15-60s")
        + ("was 1-3min", "was 3-10min", "was >10min"),
    ),
    LENGTH: ((512, 2048, 8192, 32768), ("<512t", "512-2kt", "2-8kt", "8-32kt", ">32kt")),
    POSITION: ((0.5,), ("new", "carried")),
    PRIORITY: ((-0.5, 0.5), ("urgent", "normal", "batch")),
}
"""Edges of the buckets a category may be split by, and the name of each bucket."""

_EDGES = max(len(edges) for edges, _ in BUCKETS.values())
EDGES = np.full((len(FEATURES), _EDGES), np.inf)
"""The edges of `BUCKETS` as an array for compiled code; infinity where there is none."""
for _feature, (_edges, _) in BUCKETS.items():
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
    return float((int.from_bytes(raw, "little") >> 12) + 1)


@njit(cache=True)
def bucket(edges: NDArray[np.float64], feature: int, value: float) -> int:
    """Number of the bucket of ``feature`` that ``value`` falls in, 0 for the lowest."""
    number = 0
    for edge in edges[feature]:
        if edge <= value and edge < np.inf:
            number += 1
    return number
