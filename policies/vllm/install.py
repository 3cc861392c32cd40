"""Switched on: let the next scheduler of this process be built with wactl's queue in it."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import Any

from ..errors import WactlError
from ..keys import ENGINE, SIDECAR, load_keys
from ..network import LISTEN, network
from ..rundir import default_run_dir
from ..sockets import Place
from .compat import differences

log = logging.getLogger("vllm.wactl")

TIME_SCALE = "WACTL_TIME_SCALE"
"""Environment variable: seconds of the engine's clock in one second, for replays of traces
that run faster than they were recorded. 1 unless set."""


def install() -> None:
    """Patch the scheduler's constructor, once; on any doubt leave vLLM as it is."""
    try:
        if found := differences():
            log.warning(
                "wactl: vLLM differs from what is known, so it stays as it is: %s", found[0]
            )
            return
        from vllm.v1.core.sched.scheduler import Scheduler

        original = Scheduler.__init__
        if hasattr(original, "wactl"):
            return
        setattr(Scheduler, "__init__", _constructor(original))  # noqa: B010 (mypy: a method)
    except Exception:
        log.exception("wactl: cannot be installed, vLLM stays as it is")


def _constructor(original: Any) -> Any:
    @functools.wraps(original)
    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        attach(self)

    build.wactl = True  # type: ignore[attr-defined]  # marks it as ours
    return build


def attach(scheduler: Any) -> None:
    """Give a scheduler an agent, and take it off when the scheduler ends; never raises."""
    try:
        from .agent import Agent

        rank = int(scheduler.vllm_config.parallel_config.data_parallel_index)
        place = meeting_place(rank)
        agent = Agent(scheduler.kv_cache_manager, rank, place, clock())
        scheduler.shutdown = _closing(scheduler.shutdown, agent)
    except WactlError as reason:
        log.warning("wactl: leaves this engine on plain LRU: %s", reason)
    except Exception:
        log.exception("wactl: cannot be attached, the engine stays on plain LRU")
    else:
        log.info("wactl: controls the cache of engine %d from %s", rank, place)


def meeting_place(rank: int) -> Place:
    """Where the engine of a rank meets its sidecar: at ``$WACTL_LISTEN``, else in the folder.

    Raises `AddressError` or `KeysError`.
    """
    if url := os.environ.get(LISTEN):
        return network(url, load_keys(ENGINE, SIDECAR), rank)
    return default_run_dir()


def _closing(shutdown: Any, agent: Any) -> Any:
    @functools.wraps(shutdown)
    def close(*args: Any, **kwargs: Any) -> Any:
        try:
            agent.close()
        except Exception:
            log.exception("wactl: cannot be closed, the scheduler ends all the same")
        return shutdown(*args, **kwargs)

    return close


def clock() -> Any:
    """The engine's clock: monotonic seconds, sped up by ``WACTL_TIME_SCALE``."""
    scale = float(os.environ.get(TIME_SCALE, "1"))
    return time.monotonic if scale == 1.0 else lambda: time.monotonic() * scale
