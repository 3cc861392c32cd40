"""A real vLLM server for every test here, on the CPU, with a generated model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from wactl.simulations.compare import Plan
from wactl.simulations.model import write_model
from wactl.simulations.server import Served
from wactl.simulations.traces import Prompt


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for sockets, gone after the test."""
    path = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def plan(folder: Path) -> Callable[..., Plan]:
    """Makes plans for prompts, with a cache of so many blocks."""

    def make(
        prompts: Sequence[Prompt],
        blocks: int,
        *,
        speed: float,
        output_tokens: int = 1,
        concurrency: int = 64,
    ) -> Plan:
        longest = max(len(prompt.blocks) for prompt in prompts)
        served = Served(write_model(folder / "model"), blocks, 32, 32 * (longest + 1), concurrency)
        return Plan(prompts, served, speed, folder, output_tokens)

    return make
