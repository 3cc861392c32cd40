"""What is read off a request of vLLM's, and what a client may put into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from vllm.lora.request import LoRARequest
from vllm.sampling_params import StructuredOutputsParams
from wactl.policies.features import (
    FEATURES,
    GENERATED,
    LENGTH,
    LORA,
    MAX_TOKENS,
    PRIORITY,
    SESSION,
    STRUCTURED,
    TENANT,
    TYPE,
    digest,
)
from wactl.policies.vllm.agent import Agent
from wactl.policies.vllm.requests import features_of, prompt_hashes

TOKENS = [7] * 40


@pytest.fixture
def declared(cache: Callable[..., Any]) -> Callable[..., dict[str, float]]:
    """Features of a request that declares this, those that are 0 left out."""
    ours = cache(64)

    def read(**extra: Any) -> dict[str, float]:
        features = features_of(ours.request(TOKENS, **extra))
        return {FEATURES[i]: value for i, value in enumerate(features.tolist()) if value}

    return read


def test_one_that_declares_nothing(declared: Callable[..., dict[str, float]]) -> None:
    """Its length is known, its output not yet; vLLM gives every request a limit."""
    assert declared() == {FEATURES[LENGTH]: 40, FEATURES[GENERATED]: -1, FEATURES[MAX_TOKENS]: 8}


def test_one_that_declares_all(declared: Callable[..., dict[str, float]]) -> None:
    """Words as digests, limits and priority as numbers."""
    found = declared(
        session_id="alice",
        cache_salt="acme",
        priority=-3,
        arguments={"wactl_category": "chat", "other": 1},
        sampling={"max_tokens": 100, "structured_outputs": StructuredOutputsParams(json="{}")},
        lora_request=LoRARequest("french", 1, "/nowhere"),
    )
    assert found == {
        FEATURES[LENGTH]: 40,
        FEATURES[GENERATED]: -1,
        FEATURES[MAX_TOKENS]: 100,
        FEATURES[STRUCTURED]: 1,
        FEATURES[PRIORITY]: -3,
        FEATURES[SESSION]: digest("alice"),
        FEATURES[TENANT]: digest("acme"),
        FEATURES[TYPE]: digest("chat"),
        FEATURES[LORA]: digest("french"),
    }


def test_no_value_leaves_the_bounds_of_the_wire(declared: Callable[..., dict[str, float]]) -> None:
    """Huge numbers and long words are cut, and what is no word is taken for one."""
    assert declared(sampling={"max_tokens": 10**30})[FEATURES[MAX_TOKENS]] == 1e9
    assert declared(priority=10**30)[FEATURES[PRIORITY]] == 1e9
    assert declared(priority=-(10**30))[FEATURES[PRIORITY]] == -1e9
    long = declared(arguments={"wactl_category": "x" * 10**6})
    assert long[FEATURES[TYPE]] == digest("x" * 256)
    for odd in (7, ["a"], {"b": 1}, True):
        assert declared(arguments={"wactl_category": odd})[FEATURES[TYPE]] == digest(str(odd))


def test_one_that_generates_nothing(cache: Callable[..., Any]) -> None:
    """An embedding has no sampling parameters, so it allows and declares nothing."""
    request = cache(64).request(TOKENS)
    request.sampling_params = None
    features = features_of(request)
    assert features[[MAX_TOKENS, STRUCTURED, TYPE]].tolist() == [0.0, 0.0, 0.0]


def test_only_full_blocks_of_the_prompt_count(cache: Callable[..., Any]) -> None:
    """Neither its last tokens nor what was generated since."""
    ours = cache(64)
    request = ours.request(TOKENS)
    request.append_output_token_ids([8] * 40)
    assert len(request.block_hashes) == 5
    assert list(prompt_hashes(request, 16)) == list(request.block_hashes[:2])


def test_a_request_says_what_it_is_without_saying_what_it_holds(
    cache: Callable[..., Any], control: Callable[..., Agent]
) -> None:
    """Session, tenant and tag travel as digests; neither they nor tokens are in a record."""
    ours = cache(64)
    agent = control(ours)
    sent: list[Any] = []
    agent.channel.send = sent.append  # type: ignore[method-assign]
    request = ours.request(
        [7777777] * 40,
        session_id="alice's session",
        cache_salt="secret-salt",
        priority=-3,
        arguments={"wactl_category": "x" * 10_000},
    )
    ours.admit(request)
    ours.finish(request, 3)
    assert len(sent) == 2
    for record in sent:
        raw = msgspec.msgpack.encode(record)
        assert b"alice" not in raw and b"secret" not in raw and b"xxx" not in raw
        assert msgspec.msgpack.encode(7777777) not in raw
        assert len(raw) < 300
