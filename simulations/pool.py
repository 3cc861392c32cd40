"""How the jobs of a sweep are run: here on all cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .trace import Trace

Result = TypeVar("Result")

Play = Callable[[Trace, str, int], Result]
"""Makes the result of one job: trace, policy, capacity in blocks."""


@dataclass(frozen=True)
class Job:
    """A replay to be done: position of the trace in the list, policy, capacity."""

    trace: int
    policy: str
    capacity: int


class Run(Protocol):
    """Runs jobs somewhere."""

    def __call__(
        self, play: Play[Result], traces: Sequence[Trace], jobs: Sequence[Job]
    ) -> Iterator[Result]:
        """Yield the result of every job as it is done; ``play`` is pickled on its way there."""


_traces: Sequence[Trace] = ()
"""The traces of the sweep under way: workers inherit them by forking instead of by copying."""


def run(play: Play[Result], traces: Sequence[Trace], jobs: Sequence[Job]) -> Iterator[Result]:
    """Run the jobs on the cores of this machine."""
    global _traces
    workers = min(len(jobs), os.cpu_count() or 1)
    if workers <= 1:
        yield from (play(traces[job.trace], job.policy, job.capacity) for job in jobs)
        return
    _traces = traces
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(_work, job, play) for job in jobs]
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _work(job: Job, play: Play[Result]) -> Result:
    return play(_traces[job.trace], job.policy, job.capacity)
