"""Conversations of one kind: where they begin, how they grow, when they go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .laws import NEVER, Law, LogNormal
from .plan import BLOCK_TOKENS, WARM, Plan
from .traffic import Traffic

WINDOW = 131_072
"""Tokens a model can take: a conversation that would be longer has ended."""


ANSWER = LogNormal(200.0, 0.8)
"""Tokens of an answer where the kind says nothing else."""
MESSAGE = LogNormal(1.0)
"""For kinds whose conversations never go on."""


@dataclass(frozen=True)
class Templates:
    """Prompts' common beginnings: ``count`` of them, numbered from ``first``, of ``tokens`` each.

    The r-th is used 1/r times as often as the first (Zipf).
    """

    first: int
    count: int
    tokens: int

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """The numbers of so many."""
        weights = 1.0 / np.arange(1, self.count + 1)
        return self.first + rng.choice(self.count, count, p=weights / weights.sum())


@dataclass(frozen=True)
class Kind:
    """A kind of conversation; sizes in tokens."""

    name: str
    type: str
    """What its requests declare."""
    opening: LogNormal
    """The first request, less the template."""
    answer: LogNormal = ANSWER
    message: LogNormal = MESSAGE
    """What a later request adds to the prompt and the answer before it."""
    law: Law = NEVER
    templates: Templates | None = None
    job: int = 1
    """Conversations that begin one after the other, ``spacing`` seconds apart."""
    spacing: float = 0.0


def population(
    kind: Kind, rate: float, plan: Plan, since: float = -WARM, until: float = np.inf
) -> Traffic:
    """Conversations of a kind that begin from ``since`` until ``until``.

    They make ``rate`` requests a second in the mean; those within the plan's time are given.
    """
    rng = plan.rng(kind.name)
    starts = _starts(kind, rate, rng, since, min(until, plan.seconds))
    template, tokens = np.full(len(starts), -1), 0
    if kind.templates is not None:
        template = kind.templates.draw(rng, len(starts))
        tokens = kind.templates.tokens
    sessions, times = np.arange(len(starts)), starts
    lengths = tokens + kind.opening.tokens(rng, len(starts))
    turn, columns = 1, []
    while True:
        answers = kind.answer.tokens(rng, len(times))
        columns.append((times, sessions, np.full(len(times), turn), lengths, answers))
        times = times + kind.law.wait(rng, times, turn)
        lengths = lengths + answers + kind.message.tokens(rng, len(times))
        going = (times < plan.seconds) & (lengths <= WINDOW)
        if not going.any():
            break
        times, sessions, lengths = times[going], sessions[going], lengths[going]
        turn += 1
    time, session, turns, inputs, outputs = map(np.concatenate, zip(*columns, strict=True))
    found = Traffic(
        times=time,
        sessions=session,
        turns=turns.astype(np.int32),
        input_tokens=inputs.astype(np.int32),
        output_tokens=outputs.astype(np.int32),
        templates=template[session],
        shared=np.full(len(time), tokens // BLOCK_TOKENS),
        types=np.full(len(time), kind.type),
        parts=np.full(len(time), kind.name),
    )
    return found.where(found.between(0.0, plan.seconds))


def _starts(
    kind: Kind, rate: float, rng: np.random.Generator, since: float, until: float
) -> NDArray[np.float64]:
    """Jobs come at random (Poisson), and their conversations one after the other."""
    mean = rate * (until - since) / (kind.law.turns * kind.job)
    jobs = rng.uniform(since, until, rng.poisson(mean))
    starts = (jobs[:, None] + kind.spacing * np.arange(kind.job)).ravel()
    return starts[starts < until]
