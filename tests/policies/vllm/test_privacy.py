"""What the plugin looks at in a request, and what of it can leave the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from vllm.v1.request import RequestStatus
from wactl.policies.messages import Records, decode_report
from wactl.policies.rundir import records_endpoint
from wactl.policies.vllm.agent import Agent

MAY_READ = {
    "request_id",
    "num_prompt_tokens",
    "block_hashes",
    "num_preemptions",
    "num_output_tokens",
    "skip_reading_prefix_cache",
    "priority",
    "session_id",
    "cache_salt",
    "sampling_params",
    "lora_request",
    "mm_features",
    "is_finished",
}
"""All that is read of a request: no token ids, no embeddings, no text."""


class Watched:
    """A request that notes what is read of it."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._request, name)


def test_tokens_are_not_even_read(cache: Callable[..., Any], control: Callable[..., Agent]) -> None:
    """From admission to the end of a request only its numbers, hashes and labels are touched."""
    ours = cache(64)
    agent = control(ours)
    request = ours.request([7] * 40, session_id="alice", arguments={"wactl_category": "chat"})
    ours.admit(request)
    watched = Watched(request)
    agent._admitted(watched, 0)
    agent._freeing(watched)
    request.status = RequestStatus.FINISHED_STOPPED
    agent._freeing(watched)
    assert agent.errors == 0
    assert watched.read == MAY_READ


def test_the_hashes_of_a_prompt_stay_in_the_engine(
    cache: Callable[..., Any], control: Callable[..., Agent], run_dir: Path
) -> None:
    """Who knows a prompt cannot find it in the stream: no part of its blocks' hashes is there."""
    ours = cache(64)
    agent = control(ours)
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.rcvtimeo = 10_000
        socket.subscribe(b"")
        socket.connect(records_endpoint(run_dir, 0))
        socket.recv()  # the first heartbeat: the subscription holds
        request = ours.request(list(range(40)), session_id="alice", cache_salt="secret-salt")
        ours.admit(request)
        raw = socket.recv()
        while not isinstance(report := decode_report(raw), Records):
            raw = socket.recv()
    (admission,) = report.admissions
    assert len(request.block_hashes) == 2 and len(admission.keys) == 16
    for digest in request.block_hashes:
        for start in range(len(digest) - 7):
            assert digest[start : start + 8] not in raw
    assert b"alice" not in raw and b"secret" not in raw
    assert agent.errors == 0
