"""The jobs of a sweep on a Ray cluster, whose machines have wactl as this one has it.

Run as a program it only joins the cluster and says why it could not: for many minutes Ray goes
on trying an address that does not answer, and nothing stops it but the end of its process.
"""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..policies.errors import WactlError
from .pool import Job, Play, Result, Run
from .trace import Trace

PATIENCE = 10.0
"""Seconds a cluster has to answer."""


class ClusterError(WactlError):
    """The cluster cannot be used; the text says why."""


def connect(address: str) -> Run:
    """Join the cluster; what it gives runs one sweep there. Raises `ClusterError`.

    An address is ``host:port`` of the head for a machine that is part of the cluster,
    ``ray://host:port`` for any other.
    """
    if importlib.util.find_spec("ray") is None:
        raise ClusterError("--ray needs Ray: pip install 'wactl[ray]'")
    command = [sys.executable, "-m", __name__, address]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"no Ray cluster answers at {address!r} within {PATIENCE:.0f} s; "
            "`ray start --head` prints the address to give"
        ) from None
    if tried.returncode:
        reason = tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"]
        raise ClusterError(f"the Ray cluster at {address!r} cannot be joined: {reason[-1]}")
    _join(address)
    return _run


def _join(address: str) -> None:
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def _run(play: Play[Result], traces: Sequence[Trace], jobs: Sequence[Job]) -> Iterator[Result]:
    """Run the jobs, one a CPU of the cluster; each trace is sent once."""
    import ray

    try:
        work: Any = ray.remote(_work)
        sent = [ray.put(trace) for trace in traces]
        waiting = [work.remote(play, sent[job.trace], job.policy, job.capacity) for job in jobs]
        while waiting:
            (done,), waiting = ray.wait(waiting)
            yield ray.get(done)
    except ray.exceptions.RayError as error:
        raise _sentence(error) from None
    finally:
        ray.shutdown()


def _work(play: Play[Result], trace: Trace, policy: str, capacity: int) -> Result:
    return play(trace, policy, capacity)


def _sentence(error: Exception) -> WactlError:
    """What a job raised, if that is for the operator, else what became of it."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, WactlError):
        return cause
    words = str(error).strip().splitlines()
    return ClusterError(f"a replay on the Ray cluster failed: {words[-1]}")


if __name__ == "__main__":
    try:
        _join(sys.argv[1])
    except Exception as error:
        sys.exit(" ".join(str(error).split()))
