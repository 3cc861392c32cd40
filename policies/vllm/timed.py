"""A real engine in this process, its scheduler timed: for benches with wactl and without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from vllm import LLM, SamplingParams


class TimedEngine:
    """An engine for a model's folder, with a cache of ``blocks`` blocks of ``block_tokens``."""

    def __init__(
        self, model: Path, blocks: int, block_tokens: int, longest: int, together: int
    ) -> None:
        self.llm: Any = LLM(
            str(model),
            dtype="float32",
            enforce_eager=True,
            max_model_len=longest,
            max_num_seqs=together,
            num_gpu_blocks_override=blocks + 1,
            block_size=block_tokens,
            disable_log_stats=True,
        )
        client = cast("Any", self.llm.llm_engine.engine_core)
        self.scheduler: Any = client.engine_core.scheduler
        self.steps = 0
        self._spent = 0
        self._time("schedule")
        self._time("update_from_output")

    def serve(self, prompts: list[list[int]], output: int) -> tuple[float, list[list[int]]]:
        """Microseconds a step of the scheduler's time, and the ``output`` tokens each got."""
        self._spent = self.steps = 0
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        sampling = SamplingParams(max_tokens=output, ignore_eos=True, temperature=0.0)
        outputs = self.llm.generate(asked, sampling, use_tqdm=False)
        answers = [list(one.outputs[0].token_ids) for one in outputs]
        return self._spent / self.steps / 1e3, answers

    def _time(self, name: str) -> None:
        original: Callable[..., Any] = getattr(self.scheduler, name)
        first = name == "schedule"

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time_ns()
            result = original(*args, **kwargs)
            self._spent += time.thread_time_ns() - start
            self.steps += first
            return result

        setattr(self.scheduler, name, timed)
