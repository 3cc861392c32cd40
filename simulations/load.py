"""Replay prompts into a server over HTTP, at their times or as fast as it goes.

A block id stands for its contents: the same id gives the same tokens, so the engine's own
prefix hashing finds what the trace says was shared.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np

from .model import BYTES
from .traces import Prompt


@dataclass(frozen=True)
class Answered:
    """One request's fate: seconds to its first token, and the tokens; an error if it failed."""

    first_token: float
    tokens: tuple[int, ...]
    error: str = ""


def tokens_of(blocks: Sequence[int], block_tokens: int) -> list[int]:
    """The prompt of a chain of blocks, one token longer, so that every block of it can hit."""
    return [token for block in blocks for token in _contents(block, block_tokens)] + [0]


@functools.lru_cache(maxsize=1 << 16)
def _contents(block: int, block_tokens: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(block).integers(0, BYTES, block_tokens).tolist())


async def replay(
    url: str,
    prompts: Sequence[Prompt],
    *,
    block_tokens: int,
    speed: float,
    concurrency: int = 64,
    output_tokens: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Answered]:
    """Send every prompt at its time, ``speed`` times faster than recorded; answers in order.

    At most ``concurrency`` requests are under way at once; a later one waits, and its time to
    the first token counts from when it was due.
    """
    gate = asyncio.Semaphore(concurrency)
    answers: list[Answered | None] = [None] * len(prompts)
    done = 0
    start = time.perf_counter()

    async def one(index: int, due: float) -> None:
        nonlocal done
        async with gate:
            answers[index] = await _ask(
                session, url, prompts[index], block_tokens, output_tokens, due
            )
        done += 1
        progress(done)

    timeout = aiohttp.ClientTimeout(total=600)
    # The server closes idle connections; one that is about to be reused would fail a request.
    connector = aiohttp.TCPConnector(limit=concurrency, force_close=True)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
        asyncio.TaskGroup() as group,
    ):
        for index, prompt in enumerate(prompts):
            due = start + prompt.time / speed
            if (wait := due - time.perf_counter()) > 0.0:
                await asyncio.sleep(wait)
            group.create_task(one(index, due))
    return [answer for answer in answers if answer is not None]


async def _ask(
    session: aiohttp.ClientSession,
    url: str,
    prompt: Prompt,
    block_tokens: int,
    output_tokens: int,
    due: float,
) -> Answered:
    body = {
        "model": "tiny",
        "prompt": tokens_of(prompt.blocks, block_tokens),
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    first = float("nan")
    tokens: list[int] = []
    try:
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            if answer.status != 200:
                return Answered(first, (), f"status {answer.status}: {await answer.text()}")
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    choice = json.loads(line[6:])["choices"][0]
                    if not tokens:
                        first = time.perf_counter() - due
                    tokens += choice.get("token_ids") or []
    except (aiohttp.ClientError, TimeoutError) as error:
        return Answered(first, tuple(tokens), repr(error))
    missing = "" if len(tokens) == output_tokens else f"{len(tokens)} tokens came"
    return Answered(first, tuple(tokens), missing)
