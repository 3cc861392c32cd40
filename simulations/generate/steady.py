"""Presets whose laws stay as they are."""

from __future__ import annotations

from .kinds import AGENT, API, BATCH, CHAT
from .plan import Plan
from .population import population
from .traffic import Traffic, together

MIX = {CHAT: 0.4, AGENT: 0.2, API: 0.25, BATCH: 0.15}
"""Shares of the requests."""


def chat(plan: Plan) -> Traffic:
    """People who come back after minutes, or not."""
    return population(CHAT, plan.rate, plan)


def agents(plan: Plan) -> Traffic:
    """Long growing contexts that come back in seconds: what leaves too early costs most."""
    return population(AGENT, plan.rate, plan)


def api(plan: Plan) -> Traffic:
    """Few templates that come back all the time, each with a tail that never does."""
    return population(API, plan.rate, plan)


def batch(plan: Plan) -> Traffic:
    """Jobs of unique prompts: nothing comes back, whoever keeps it."""
    return population(BATCH, plan.rate, plan)


def mixed(plan: Plan) -> Traffic:
    """All four, so that one's blocks are kept at the cost of another's."""
    return together([population(kind, share * plan.rate, plan) for kind, share in MIX.items()])
