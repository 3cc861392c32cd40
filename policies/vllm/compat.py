"""Is this the vLLM that the plugin was written for?

The plugin replaces internals, and internals move. Before it touches anything it compares what
it finds with what it knows: the methods of the free queue (one more would be one that we
lack), the signatures it wraps or is called through, and the fields it reads. On any
difference vLLM stays as it is.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

WRITTEN_FOR = "0.32"

QUEUE_METHODS = {
    "popleft": ("self",),
    "popleft_n": ("self", "n"),
    "remove": ("self", "block"),
    "append": ("self", "block"),
    "append_n": ("self", "blocks"),
    "prepend_n": ("self", "blocks"),
    "get_all_free_blocks": ("self",),
    "iter_blocks_after": ("self", "cursor"),
}
"""Every public method of the stock queue and its parameters."""

SIGNATURES = {
    "vllm.v1.core.block_pool:BlockPool.get_new_blocks": ("self", "num_blocks"),
    "vllm.v1.core.block_pool:BlockPool.touch": ("self", "blocks"),
    "vllm.v1.core.block_pool:BlockPool.free_blocks": ("self", "ordered_blocks"),
    "vllm.v1.core.block_pool:BlockPool.unpin_blocks": ("self", "blocks", "on_reuse"),
    "vllm.v1.core.block_pool:BlockPool.evict_blocks": ("self", "block_ids"),
    "vllm.v1.core.block_pool:BlockPool.reset_prefix_cache": ("self",),
    "vllm.v1.core.kv_cache_manager:KVCacheManager.record_prefix_cache_stats": (
        "self",
        "request",
        "num_hits",
    ),
    "vllm.v1.core.kv_cache_manager:KVCacheManager.free": ("self", "request"),
    "vllm.v1.core.kv_cache_manager:KVCacheManager.pop_blocks_for_free": ("self", "request"),
    "vllm.v1.request:Request.is_finished": ("self",),
}
"""Signatures of what the plugin wraps, calls or is called by."""

FIELDS = {
    "vllm.v1.core.kv_cache_utils:KVCacheBlock": ("block_id", "ref_cnt", "is_null", "_block_hash"),
    "vllm.v1.request:Request": ("num_output_tokens",),
    "vllm.sampling_params:SamplingParams": ("max_tokens", "structured_outputs", "extra_args"),
}
"""What the plugin reads, as far as the classes tell: `Request` sets most of its fields later."""


def differences() -> list[str]:
    """How the installed vLLM differs from the one the plugin knows; empty if it does not."""
    found = []
    try:
        utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        queue = utils.FreeKVCacheBlockQueue
    except (ImportError, AttributeError) as error:
        return [f"vllm.v1.core.kv_cache_utils has changed: {error}"]
    public = {name for name, _ in inspect.getmembers(queue, inspect.isfunction)}
    public = {name for name in public if not name.startswith("_")}
    for name in sorted(public - set(QUEUE_METHODS)):
        found.append(f"FreeKVCacheBlockQueue has a method {name} that wactl's queue lacks")
    for name, parameters in QUEUE_METHODS.items():
        found += _compare(f"FreeKVCacheBlockQueue.{name}", getattr(queue, name, None), parameters)
    for path, parameters in SIGNATURES.items():
        module, _, name = path.partition(":")
        found += _compare(name, _resolve(module, name), parameters)
    for path, fields in FIELDS.items():
        module, _, name = path.partition(":")
        owner = _resolve(module, name)
        found += [f"{name} has no field {field}" for field in fields if not hasattr(owner, field)]
    scheduler = _resolve("vllm.v1.core.sched.scheduler", "Scheduler.__init__")
    known = inspect.signature(scheduler).parameters if scheduler else {}
    for name in ("vllm_config", "kv_cache_config"):
        if name not in known:
            found.append(f"Scheduler.__init__ takes no {name}")
    return found


def _resolve(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found


def _compare(name: str, function: Any, parameters: tuple[str, ...]) -> list[str]:
    if function is None:
        return [f"{name} is gone"]
    found = tuple(inspect.signature(function).parameters)
    if found != parameters:
        return [f"{name} takes ({', '.join(found)}), not ({', '.join(parameters)})"]
    return []
