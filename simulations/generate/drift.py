"""Presets that change once or twice: what was learned before is wrong after."""

from __future__ import annotations

from dataclasses import replace

from .kinds import AGENT, API, CHAT, UNIQUE
from .laws import Slowed
from .plan import Plan
from .population import Templates, population
from .steady import agents, chat, mixed
from .traffic import Traffic, together

NEWCOMER = replace(API, name="newcomer", templates=Templates(first=100, count=1, tokens=8192))
BURST = 4.0
"""Rate of a burst, as a multiple of the traffic's it comes into."""


def switch(plan: Plan) -> Traffic:
    """Chats; agents in the middle third; chats again, whose law is to be found once more."""
    chats, agent = chat(plan), agents(plan)
    third = plan.seconds / 3.0
    return together(
        [
            chats.where(~chats.between(third, 2.0 * third)),
            agent.where(agent.between(third, 2.0 * third)),
        ]
    )


def slower(plan: Plan) -> Traffic:
    """Chats and agents, all of whose pauses are twice as long from half time on."""
    parts = []
    for kind in (CHAT, AGENT):
        law = Slowed(kind.law, at=plan.seconds / 2.0, factor=2.0)
        parts.append(population(replace(kind, law=law), plan.rate / 2.0, plan))
    return together(parts)


def template(plan: Plan) -> Traffic:
    """From half time on as many calls with a long new template as all the rest, `mixed`."""
    flood = population(NEWCOMER, plan.rate, plan, since=plan.seconds / 2.0)
    return together([mixed(plan), flood])


def burst(plan: Plan) -> Traffic:
    """At half time, for a twentieth of it, one tenant's unique prompts flood the mix."""
    start = plan.seconds / 2.0
    end = start + plan.seconds / 20.0
    tenant = population(UNIQUE, BURST * plan.rate, plan, start, end)
    return together([mixed(plan), tenant])
