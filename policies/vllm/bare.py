"""vLLM's cache manager without an engine around it: what the benches drive.

It is the real `KVCacheManager` with one full-attention group, called as the scheduler calls
it. Only the hashes are given instead of computed, so that a recorded trace can be served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vllm.sampling_params import SamplingParams
from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import BlockHash, FreeKVCacheBlockQueue, KVCacheBlock
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus

from .requests import TAG

Blocks = list[KVCacheBlock]


def stock_queue(count: int) -> tuple[Blocks, FreeKVCacheBlockQueue]:
    """``count`` blocks of vLLM, all of them in vLLM's own queue of free blocks."""
    blocks = [KVCacheBlock(i) for i in range(count)]
    return blocks, FreeKVCacheBlockQueue(blocks)


class BareEngine:
    """A cache of ``blocks`` blocks of ``block_tokens`` tokens and the requests in it."""

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        spec = FullAttentionSpec(
            block_size=block_tokens,
            num_kv_heads=1,
            head_size=8,
            dtype=STR_DTYPE_TO_TORCH_DTYPE["float32"],
        )
        groups = [KVCacheGroupSpec(["layer"], spec)]
        self.manager = KVCacheManager(
            KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups),
            max_model_len=blocks * block_tokens,
            scheduler_block_size=block_tokens,
            hash_block_size=block_tokens,
            enable_caching=True,
            log_stats=True,
        )

    def request(self, name: str, tokens: int, hashes: Sequence[bytes], word: str = "") -> Request:
        """A request for a prompt of so many tokens whose full blocks have these hashes.

        Its client calls it ``word``; what it generates gets hashes nobody else has.
        """

        def hasher(request: Request) -> list[BlockHash]:
            known, full = len(request.block_hashes), request.num_tokens // self.block_tokens
            own = [f"{name}:{i}".encode().ljust(32) for i in range(max(known, len(hashes)), full)]
            return [BlockHash(raw) for raw in (*hashes[known:full], *own)]

        sampling = SamplingParams(max_tokens=1, extra_args={TAG: word} if word else None)
        return Request(name, [1] * tokens, sampling, None, block_hasher=hasher)

    def admit(self, request: Request) -> int | None:
        """Hold blocks for a whole prompt; how many tokens it hit, None if there is no room."""
        blocks, hits, _ = self.manager.get_computed_blocks(request)
        new = request.num_tokens - hits
        if self.manager.allocate_slots(request, new, hits, blocks) is None:
            return None
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = request.num_tokens
        return hits

    def grow(self, request: Request, tokens: int) -> bool:
        """Hold blocks for ``tokens`` generated tokens; False if there is no room."""
        if self.manager.allocate_slots(request, tokens) is None:
            return False
        request.append_output_token_ids([1] * tokens)
        request.num_computed_tokens += tokens
        return True

    def end(self, request: Request) -> None:
        """A request has ended; its blocks are still held."""
        request.status = RequestStatus.FINISHED_STOPPED

    def finish(self, request: Request) -> None:
        """End a request as the scheduler does: its blocks become free, the last one first."""
        self.end(request)
        self.manager.free(request)

    def free(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Free blocks that `KVCacheManager.pop_blocks_for_free` returned."""
        self.manager.block_pool.free_blocks(reversed([*blocks]))
