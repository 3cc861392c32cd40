"""One engine and all that is kept for it: its stream, its learner, its pusher."""

from __future__ import annotations

import logging
import math

import numpy as np
import zmq
from numpy.typing import NDArray

from ..policies.blocks import FIRST_CATEGORY, MAX_CATEGORIES
from ..policies.messages import Records
from ..policies.sockets import Place, endpoints
from ..policies.table import DecisionTable
from .fit import Fit
from .learner import Learner
from .push import Pusher
from .settings import Mode, Settings
from .status import Category, Engine
from .stream import Stream

SILENT = 3.0
"""Seconds without a heartbeat after which an engine counts as gone."""

RECONNECT = 5.0
"""Seconds of silence after which it is tried from the start."""

Counts = NDArray[np.float64]

log = logging.getLogger("wactl")


class Link:
    """Connects to the engine of one rank; ``work`` moves everything along."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: Place,
        rank: int,
        settings: Settings,
        table: DecisionTable,
    ) -> None:
        self.rank = rank
        self.where = endpoints(place, rank)[0]
        self.settings = settings
        self.table = table
        self.stream = Stream(context, place, rank)
        self.pusher = Pusher(context, place, rank)
        self.learner = Learner(settings, table)
        self._engine = ""
        self._heard = -math.inf  # the sidecar's clock
        self._connected: float | None = None  # the sidecar's clock
        self._now = 0.0  # the engine's clock
        self._changed = 0.0  # the engine's clock, when the version in force last changed
        self._active = 0

    def work(self, mode: Mode, wall: float) -> None:
        """Take in what the engine sent, refit, push; ``wall`` is the sidecar's clock."""
        for report in self.stream.reports():
            if report.engine != self._engine:
                self._restarted(report.engine)
            self._heard = wall
            if isinstance(report, Records):
                for admission in report.admissions:
                    self.learner.observe(admission)
                if report.admissions:
                    self._now = max(self._now, report.admissions[-1].time)
            else:
                self._now = max(self._now, report.time)
                if report.state.active != self._active:
                    self._active, self._changed = report.state.active, report.time
        self._stay_connected(wall)
        self.pusher.answers()
        if self._engine and mode is not Mode.OBSERVE and self.learner.step(self._now):
            log.debug("engine %d: refitted at %.1f s", self.rank, self._now)
            self._push(mode)
        if mode is Mode.ENFORCE and wall - self._heard < SILENT:
            if self.pusher.current is None:
                self._push(mode)
            self.pusher.keep_alive(self._now)
        elif self.pusher.current is not None:
            self.pusher.stop()

    def close(self) -> None:
        """Give the sockets back."""
        self.stream.close()
        self.pusher.close()

    def status(self, wall: float) -> Engine | None:
        """What is known of the engine, None before its first heartbeat."""
        heartbeat = self.stream.heartbeat
        if heartbeat is None or heartbeat.engine != self._engine:
            return None
        state = heartbeat.state
        silent = wall - self._heard
        cached = np.zeros(MAX_CATEGORIES)
        cached[: len(state.cached)] = state.cached[:MAX_CATEGORIES]
        tally = self.learner.tally
        return Engine(
            rank=self.rank,
            pid=state.pid,
            vllm=state.version,
            alive=silent < SILENT,
            silent_seconds=silent,
            order=state.order,
            reason=state.reason,
            version=state.active,
            version_age_seconds=self._now - self._changed if state.active else None,
            blocks=state.blocks,
            block_tokens=state.block_tokens,
            cached_blocks=int(cached.sum()),
            sample=1 << state.shift,
            requests=state.admitted,
            hit_ratio=_ratio(tally.hits.sum(), tally.blocks.sum()),
            evicted=state.evicted,
            pushed=self.pusher.pushed,
            accepted=state.accepted,
            rejected=state.rejected,
            refusal=self.pusher.refusal,
            lost_messages=self.stream.lost,
            dropped_records=state.dropped,
            errors=state.errors,
            exempt_groups=state.exempt_groups,
            categories=self._categories(cached),
        )

    def _stay_connected(self, wall: float) -> None:
        if self._connected is None:
            self._connected = wall
        if wall - max(self._heard, self._connected) >= RECONNECT:
            self._connected = wall
            self.stream.reconnect()
            self.pusher.reconnect()

    def _restarted(self, engine: str) -> None:
        if self._engine:
            log.info("engine %d was restarted; learning starts anew", self.rank)
        self._engine = engine
        self._now = self._changed = 0.0
        self._active = 0
        self.learner = Learner(self.settings, self.table)
        self.pusher.stop()

    def _push(self, mode: Mode) -> None:
        heartbeat = self.stream.heartbeat
        if mode is not Mode.ENFORCE or heartbeat is None:
            return
        version = self.pusher.next_version(heartbeat.state.newest)
        if parameters := self.learner.parameters(version):
            self.pusher.push(parameters, self._now)

    def _categories(self, cached: Counts) -> tuple[Category, ...]:
        fits, table, tally = self.learner.fits, self.table, self.learner.tally
        found = []
        tagged = bool(cached[FIRST_CATEGORY:].any())
        first = FIRST_CATEGORY
        for index, rule in enumerate(table.rules):
            ids = slice(first, first + rule.parts)
            fit = fits.rules[index] if fits else None
            found.append(self._category(rule.name, True, ids, fit, cached, tagged))
            for part in range(first, first + rule.parts):
                number = part - FIRST_CATEGORY
                fit = fits.categories[number] if fits else None
                ids = slice(part, part + 1)
                if (fit and fit.evidence) or tally.requests[part] or cached[part]:
                    name = table.name(number)
                    found.append(self._category(name, False, ids, fit, cached, tagged))
            first += rule.parts
        return tuple(found)

    def _category(
        self,
        name: str,
        rule: bool,
        ids: slice,
        fit: Fit | None,
        cached: Counts,
        tagged: bool,
    ) -> Category:
        tally = self.learner.tally
        mean = fit.law.mean if fit else None
        return Category(
            name=name,
            rule=rule,
            requests=int(tally.requests[ids].sum()),
            hit_ratio=_ratio(tally.hits[ids].sum(), tally.blocks[ids].sum()),
            p=fit.law.p if fit else None,
            mean_reuse_seconds=mean if mean is not None and math.isfinite(mean) else None,
            lifespan_seconds=fit.law.lifespan if fit else None,
            evidence=round(fit.evidence, 1) if fit else 0.0,
            cached_share=float(cached[ids].sum() / cached.sum()) if tagged else None,
        )


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
