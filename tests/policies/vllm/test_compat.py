"""The plugin knows the vLLM it was written for, and backs off from any other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from vllm.sampling_params import SamplingParams
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request
from wactl.policies.vllm import compat, install


def test_the_installed_vllm_is_the_one_known() -> None:
    """No difference is found, so the plugin would be used."""
    assert compat.differences() == []


@pytest.mark.parametrize(
    ("owner", "name", "replacement", "word"),
    [
        (FreeKVCacheBlockQueue, "popleft_some", lambda self: None, "popleft_some"),
        (FreeKVCacheBlockQueue, "popleft_n", lambda self, n, hint: None, "hint"),
        (KVCacheManager, "free", lambda self, request, keep: None, "keep"),
        (KVCacheManager, "record_prefix_cache_stats", None, "gone"),
        (Request, "num_output_tokens", None, "Request has no field num_output_tokens"),
        (KVCacheBlock, "ref_cnt", None, "KVCacheBlock has no field ref_cnt"),
        (SamplingParams, "max_tokens", None, "SamplingParams has no field max_tokens"),
    ],
)
def test_any_drift_is_named_and_vllm_stays_as_it_is(
    monkeypatch, caplog, owner, name, replacement, word
) -> None:
    """A new method, another parameter or a missing one: one warning, and no patch."""
    if replacement is None:
        monkeypatch.delattr(owner, name)
    else:
        monkeypatch.setattr(owner, name, replacement, raising=False)
    assert any(word in difference for difference in compat.differences())
    before = Scheduler.__init__
    caplog.set_level("WARNING", logger="vllm.wactl")
    monkeypatch.setattr(install.log, "propagate", True)
    install.install()
    assert Scheduler.__init__ is before
    assert [word in record.getMessage() for record in caplog.records] == [True]


def test_installing_twice_patches_once(monkeypatch) -> None:
    """vLLM calls plugins in every process, some more than once."""
    monkeypatch.setattr(Scheduler, "__init__", Scheduler.__init__)
    install.install()
    once = Scheduler.__init__
    install.install()
    assert Scheduler.__init__ is once and once.wactl  # type: ignore[attr-defined]


def test_switched_off_the_plugin_touches_nothing() -> None:
    """Without WACTL=1 the entry point imports nothing and leaves the scheduler as it was."""
    program = (
        "import sys; from vllm.v1.core.sched.scheduler import Scheduler; "
        "before, init = set(sys.modules), Scheduler.__init__; "
        "from wactl.policies.vllm import register; register(); "
        "print(sorted(set(sys.modules) - before), Scheduler.__init__ is init)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WACTL")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "['wactl', 'wactl.policies', 'wactl.policies.vllm'] True"
