"""What can be read off a vLLM request when it is admitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..features import (
    LORA,
    MAX_TOKENS,
    MODALITY,
    PRIORITY,
    SESSION,
    STRUCTURED,
    TENANT,
    TYPE,
    Features,
    blank_features,
    digest,
)

TAG = "wactl_category"
"""Key in ``vllm_xargs`` by which a client may name the kind of its request."""

LONGEST_WORD = 256
"""Characters of a client's word that count; the rest is cut off before the digest."""


def features_of(request: Any) -> Features:
    """The features a request declares; the others are inferred later."""
    features = blank_features(request.num_prompt_tokens)
    features[PRIORITY] = max(-1e9, min(1e9, request.priority))
    features[SESSION] = _word(request.session_id)
    features[TENANT] = _word(request.cache_salt)
    parameters = request.sampling_params
    if parameters is not None:
        features[MAX_TOKENS] = min(1e9, parameters.max_tokens or 0)
        features[STRUCTURED] = parameters.structured_outputs is not None
        if parameters.extra_args:
            features[TYPE] = _word(parameters.extra_args.get(TAG))
    if request.lora_request is not None:
        features[LORA] = _word(request.lora_request.lora_name)
    if request.mm_features:
        features[MODALITY] = _word(request.mm_features[0].modality)
    return features


def prompt_hashes(request: Any, block_size: int) -> Sequence[bytes]:
    """Hashes of the full blocks of the prompt, without those of generated tokens."""
    hashes: Sequence[bytes] = request.block_hashes[: request.num_prompt_tokens // block_size]
    return hashes


def _word(value: Any) -> float:
    return 0.0 if value is None else digest(str(value)[:LONGEST_WORD])
