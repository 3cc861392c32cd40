"""The whole loop for one engine: learn, try in shadow, let the gate decide.

Records go in; out comes what the engine should order its blocks by. No clock is read and
nothing is sent or received here, so a replay runs the very steps that run live.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..policies.blocks import DEFAULT
from ..policies.intake import orders_of
from ..policies.messages import Admission, Finish
from ..policies.parameters import ParameterSet
from .contest import LRU, SHORT, Contest
from .family import Family
from .gate import Gate, decide
from .learner import Learner, Running
from .misses import Misses
from .rules import Rules
from .settings import Settings

_UNKNOWN = (DEFAULT, DEFAULT)

GATE_SECONDS = 5.0
"""Seconds between two looks of the gate."""


class Loop:
    """The loop for an engine of ``blocks`` blocks, of which one in 2**shift is followed.

    ``block_tokens`` is their size; see `Learner` for ``lineage``.
    """

    def __init__(
        self,
        settings: Settings,
        rules: Rules,
        blocks: int,
        shift: int,
        lineage: int = 1,
        block_tokens: int = 16,
    ) -> None:
        self.settings = settings
        self.learner = Learner(settings, rules, lineage, Misses(block_tokens, shift))
        self.candidates = tuple(family.value for family in settings.families)
        places = len(self.learner.reuse.ghosts)
        self.contest = Contest(places, blocks, shift, self.candidates)
        self.gate = Gate()
        self.saved_blocks = 0
        """Hits of the chosen order's shadow that LRU's had not, in blocks of the engine."""
        self._looked = -np.inf
        self._ran: tuple[str, float] = (LRU, np.inf)  # what the engine runs, and since when

    def admit(self, admission: Admission) -> None:
        """Take in one admitted request."""
        if (lost := self.learner.make_room(admission)) is not None:
            # Nobody will tell that it has ended: its blocks would be held for ever.
            self._release(lost, _UNKNOWN, admission.time)
        running = self.learner.admit(admission, self.contest.users)
        if running is None:
            return
        if len(running.displaced):
            self.contest.drop(running.displaced)
        counted = not admission.unread
        blocks, hits = admission.blocks, admission.hits
        places = running.places[running.places >= 0]
        ran, since = self._ran
        plain = ran == LRU and admission.time - since >= SHORT
        found = self.contest.admit(
            places, blocks, hits, admission.time, counted=counted, plain=plain
        )
        self.saved_blocks += found[self.gate.running] - found[LRU]

    def finish(self, finish: Finish) -> None:
        """Take in the end of a request."""
        done = self.learner.finish(finish)
        if done is not None:
            running, categories = done
            self._release(running, categories, finish.time)

    def step(self, now: float) -> bool:
        """Let time pass until ``now`` (seconds); True if there are other parameters to push."""
        refitted = self.learner.step(now)
        if refitted:
            for name in self.candidates:
                if parameters := self.learner.parameters(1, Family(name)):
                    self.contest.obey(name, orders_of(parameters))
        before = self.gate
        if now - self._looked >= GATE_SECONDS and self.learner.fits is not None:
            self._looked = now
            ran, since = self._ran
            obeyed = ran == before.running and now - since >= SHORT
            self.gate = decide(before, self.contest, self.candidates, now, obeyed=obeyed)
        return refitted or self.gate.running != before.running

    def ran(self, name: str, now: float) -> None:
        """The engine orders its blocks by this candidate, or by `LRU`."""
        if name != self._ran[0] or self._ran[1] > now:
            self._ran = (name, now)

    def parameters(self, version: int) -> ParameterSet | None:
        """What to push: the running candidate's laws, trusted not at all while LRU runs."""
        running = self.gate.running
        family = Family(self.candidates[0] if running == LRU else running)
        return self.learner.parameters(version, family, trust=float(running != LRU))

    def _release(self, running: Running, categories: tuple[int, int], now: float) -> None:
        places, carried = self.learner.still(running), running.sizes[1]
        admitted = running.admission.time
        self.contest.release(places, carried, np.array(categories), admitted, now)

    def drained(self, cached: Sequence[int]) -> None:
        """The engine has the newest table, and so many cached blocks of each category id."""
        self.learner.drained(cached)
