"""Presets built so that a learned order does worse than LRU, or gains nothing.

They aim at a cache of ``Plan.blocks`` blocks. What they exploit is that a law is learned from
the past, for a category, and with a tail of a given form.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .kinds import CHAT, UNIQUE
from .laws import NEVER, Eras, LogNormal, Returns, TwoValues
from .plan import BLOCK_TOKENS, GenerateError, Plan
from .population import Kind, Templates, population
from .traffic import Traffic, together

ERA = 600.0
"""Seconds for which a law holds."""

ONE = Kind(
    name="flip-one",
    type="one",
    opening=LogNormal(2048.0, 0.3),
    templates=Templates(first=200, count=1, tokens=512),
)
OTHER = Kind(name="flip-other", type="other", opening=LogNormal(4096.0, 0.3))
TOUCHED = 16.0
"""Blocks of the two that a request touches in the mean."""

EIGHT = LogNormal(8.0 * BLOCK_TOKENS)
HALF = LogNormal(BLOCK_TOKENS / 2.0)
RETURNER = Kind(name="returner", type="chat", opening=EIGHT, answer=HALF, message=HALF)
STRANGER = Kind(name="stranger", type="other", opening=EIGHT)

STAY = 6.0
"""Blocks a request of these two brings into use that were not in use a long pause before."""
LATE = 25.0
"""A twentieth of the pauses is so many times as long as the others. The lifespan an exponential
law gives to a category of which 95 % return ends at ten times the mean pause (what is left then
is below one in a thousand), which is at 22 times the usual one."""

IMITATOR = replace(CHAT, name="imitator", law=NEVER)


def flip(plan: Plan) -> Traffic:
    """Two categories, one of which returns and the other never; they swap each 10 minutes.

    What was learned in one era keeps the wrong ones in the next. LRU keeps both for twice the
    pause.
    """
    pause = 0.5 * plan.blocks / (TOUCHED * plan.rate)
    soon = Returns(0.9, 0.6, LogNormal(pause, 0.5))
    one = replace(ONE, law=Eras((soon, NEVER), ERA))
    other = replace(OTHER, law=Eras((NEVER, soon), ERA))
    return together([population(kind, plan.rate / 2.0, plan) for kind in (one, other)])


def lifespan(plan: Plan) -> Traffic:
    """Nineteen pauses of twenty are equal, the twentieth ends just after a fitted lifespan.

    A fit takes a block for dead that has waited for so long. Other prompts, of which some
    return much later, do not look dead, but are of no use. LRU keeps what returns: the
    long pause is 0.7 of the time for which a block stays.
    """
    long = 0.7 * plan.blocks / (STAY * plan.rate)
    pause = TwoValues(long / LATE, long, 0.05)
    returner = replace(RETURNER, law=Returns(0.95, 0.95, pause))
    stranger = replace(STRANGER, law=Returns(0.3, 0.0, LogNormal(20.0 * long, 0.5)))
    return together([population(kind, plan.rate / 2.0, plan) for kind in (returner, stranger)])


def scan(plan: Plan) -> Traffic:
    """The same prompts in the same order again and again, a tenth more than the cache holds.

    Under LRU each leaves just before it is wanted. Raises `GenerateError` if the trace is too
    short for a second round.
    """
    size = 8
    prompts = max(plan.blocks // size + 2, round(1.1 * plan.blocks / size))
    count = int(plan.seconds * plan.rate)
    if count < 2 * prompts:
        raise GenerateError(
            f"two rounds of a scan of {plan.blocks} blocks have {2 * prompts} requests, more than "
            f"{count}; raise --seconds or --rate, or lower --blocks"
        )
    serial = np.arange(count)
    return Traffic(
        times=serial / plan.rate,
        sessions=serial % prompts,
        turns=(1 + serial // prompts).astype(np.int32),
        input_tokens=np.full(count, size * BLOCK_TOKENS, np.int32),
        output_tokens=np.ones(count, np.int32),
        templates=np.full(count, -1),
        shared=np.zeros(count, np.int64),
        types=np.full(count, "scan"),
        parts=np.full(count, "scan"),
    )


def imitation(plan: Plan) -> Traffic:
    """Chats, and as many unique prompts that look like chats' first ones in every feature.

    Nothing tells them apart but that they never return.
    """
    return together([population(kind, plan.rate / 2.0, plan) for kind in (CHAT, IMITATOR)])


def flood(plan: Plan) -> Traffic:
    """Unique prompts only: nobody can hit anything, and whoever learns must stay calm."""
    return population(UNIQUE, plan.rate, plan)
