"""One engine and all that is kept for it: its stream, its learner, its pusher."""

from __future__ import annotations

import logging
import math
import secrets

import numpy as np
import zmq

from ..policies.blocks import MAX_CATEGORIES
from ..policies.features import Features
from ..policies.messages import EngineState, Records
from ..policies.sockets import Place, endpoints
from .contest import LRU
from .described import all_categories, explanation, ratio
from .history import LAWS, History, Past
from .learned import Kept, Origin, Pushed, go_on, snapshot
from .loop import Loop
from .push import Pusher
from .rules import Rules
from .settings import Mode, Settings
from .standing import gate_report
from .status import Engine, Explanation
from .stream import Stream

SILENT = 3.0
"""Seconds without a heartbeat after which an engine counts as gone."""

RECONNECT = 5.0
"""Seconds of silence after which it is tried from the start."""

log = logging.getLogger("wactl")


class Link:
    """Connects to the engine of one rank; ``work`` moves everything along."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        place: Place,
        rank: int,
        settings: Settings,
        rules: Rules,
        kept: Kept | None = None,
    ) -> None:
        self.rank = rank
        self.where = endpoints(place, rank)[0]
        self.settings = settings
        self.rules = rules
        self.stream = Stream(context, place, rank)
        self.pusher = Pusher(context, place, rank)
        self.loop: Loop | None = None
        """What is learned of the engine, None before its first heartbeat."""
        self.history = History()
        self._cached = np.zeros(MAX_CATEGORIES)
        self._pushed: Pushed | None = None
        self._kept = kept  # until there is a loop to go on from it
        self._origin = Origin("", 0, 0)
        self._engine = ""
        self._heard = -math.inf  # the sidecar's clock
        self._connected: float | None = None  # the sidecar's clock
        self._now = 0.0  # the engine's clock
        self._changed = 0.0  # the engine's clock, when the version in force last changed
        self._active = 0
        self._mode: Mode | None = None

    def work(self, mode: Mode, wall: float) -> None:
        """Take in what the engine sent, refit, push; ``wall`` is the sidecar's clock."""
        for report in self.stream.reports():
            if report.engine != self._engine:
                self._restarted(report.engine)
            self._heard = wall
            if isinstance(report, Records):
                self._take(report)
            else:
                self._now = max(self._now, report.time)
                self._beat(report.state)
        self._stay_connected(wall)
        self.pusher.answers()
        if self.loop is None:
            return
        self._note_mode(mode)
        before = self.loop.gate
        changed = mode is not Mode.OBSERVE and self.loop.step(self._now)
        gate = self.loop.gate
        if (gate.phase, gate.running) != (before.phase, before.running):
            self.history.note("gate", f"{gate.phase.value}: {gate.reason}", self._now)
        if mode is Mode.ENFORCE and wall - self._heard < SILENT:
            overruled = self._overruled()
            if changed:
                chosen = gate.running != before.running
                self._push(self.loop, "for what the gate chose" if chosen else "fitted anew")
            elif self.pusher.current is None:
                self._push(self.loop, "as none of ours was in force")
            elif overruled:
                self._push(self.loop, "as somebody else's was in force")
            self.pusher.keep_alive(self._now)
        elif self.pusher.current is not None:
            self.pusher.stop()
        elif changed:
            self.history.note(LAWS, f"fitted anew, not pushed in mode {mode.value}", self._now)
        if self.history.due(self._now):
            self._sample(self.loop)

    def follow(self, rules: Rules) -> None:
        """Other rules from now on."""
        self.rules = rules
        self.history.note("rules", f"{self.settings.rules.name} was edited", self._now)
        if self.loop is not None:
            self.loop.learner.follow(rules)

    def kept(self) -> Kept | None:
        """What is to be kept of what was learned; None before there is anything."""
        if self.loop is None:
            return self._kept
        copy = snapshot(self.loop, self._origin, self._pushed, self._now)
        return Kept(copy.pack, self._heard)

    def close(self) -> None:
        """Give the sockets back."""
        self.stream.close()
        self.pusher.close()

    def past(self) -> Past:
        """How it went at the engine."""
        heartbeat = self.stream.heartbeat
        return self.history.past(self.rank, heartbeat.state.pid if heartbeat else 0)

    def status(self, wall: float) -> Engine | None:
        """What is known of the engine, None before its first heartbeat."""
        heartbeat = self.stream.heartbeat
        if heartbeat is None or heartbeat.engine != self._engine or self.loop is None:
            return None
        state = heartbeat.state
        silent = wall - self._heard
        learner = self.loop.learner
        return Engine(
            rank=self.rank,
            pid=state.pid,
            time=self._now,
            vllm=state.version,
            alive=silent < SILENT,
            silent_seconds=silent,
            order=state.order,
            reason=state.reason,
            version=state.active,
            version_age_seconds=self._now - self._changed if state.active else None,
            blocks=state.blocks,
            block_tokens=state.block_tokens,
            cached_blocks=int(self._cached.sum()),
            sample=1 << state.shift,
            requests=state.admitted,
            prompt_blocks=learner.blocks,
            hit_blocks=learner.hits,
            hit_ratio=ratio(learner.hits, learner.blocks),
            evicted=state.evicted,
            pushed=self.pusher.pushed,
            accepted=state.accepted,
            rejected=state.rejected,
            refusal=self.pusher.refusal,
            lost_messages=self.stream.lost,
            dropped_records=state.dropped,
            errors=state.errors,
            exempt_groups=state.exempt_groups,
            gate=gate_report(self.loop, state.block_tokens, self._now),
            changes=self.history.changes(self._now),
            categories=all_categories(learner, self._cached),
            missed=learner.misses.of_all(),
            tenants=learner.misses.tenants(),
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
            log.info("engine %d was restarted", self.rank)
        self._kept = self.kept()
        self._engine = engine
        self._now = self._changed = 0.0
        self._active = 0
        self._pushed = None
        self._mode = None
        self.history = History()
        self.loop = None
        self.pusher.stop()

    def _take(self, records: Records) -> None:
        if self.loop is None:  # how large its cache is comes with the first heartbeat
            return
        for admission in records.admissions:
            self.loop.admit(admission)
        for finish in records.finishes:
            self.loop.finish(finish)
        last = [a.time for a in records.admissions[-1:]] + [f.time for f in records.finishes[-1:]]
        self._now = max([self._now, *last])

    def _beat(self, state: EngineState) -> None:
        """Note what the engine runs and holds, and which category numbers are free again."""
        if self.loop is None:
            lineage = 1 + secrets.randbits(60)
            rules, blocks = self.rules, max(1, state.blocks - 1)  # vLLM never uses the first
            sizes = blocks, state.shift, lineage, state.block_tokens
            self.loop = Loop(self.settings, rules, *sizes)
            self._origin = Origin(self._engine, state.block_tokens, state.shift)
            self.history.note("engine", f"process {state.pid} was first heard of", self._now)
            self._go_on(self.loop, state.newest)
        if state.active != self._active:
            if 0 in (state.active, self._active):
                self.history.note("engine", f"{state.order}: {state.reason}", self._now)
            self._active, self._changed = state.active, self._now
        self._cached[:] = 0.0
        self._cached[: len(state.cached)] = state.cached[:MAX_CATEGORIES]
        numbering = self.loop.learner.categories.numbering
        if self._pushed is None:  # it was never told of any category
            numbering.drained((), numbering.changes)
        elif state.newest == self._pushed.version:
            numbering.drained(state.cached, self._pushed.changes)
            self.loop.ran(self._pushed.running, self._now)
        if state.active == 0:
            self.loop.ran(LRU, self._now)

    def _go_on(self, loop: Loop, newest: int) -> None:
        """Let a new loop begin where another one ended, if that was learned of such blocks."""
        if self._kept is None:
            return
        kept, at = self._kept.pack(), self._kept.at
        self._kept = None
        before, origin = kept.origin, self._origin
        if (before.block_tokens, before.shift) != (origin.block_tokens, origin.shift):
            log.info("engine %d has other blocks than before; learning starts anew", self.rank)
            return
        away = max(0.0, self._heard - at)
        self._pushed = go_on(loop, kept, origin, newest, self._now, away)
        log.info("engine %d: going on from what was learned %.0f s ago", self.rank, away)
        self.history.note(LAWS, f"those learned until {away:.0f} s ago", self._now)

    def _overruled(self) -> bool:
        """Whether the engine runs what somebody else pushed."""
        if self._pushed is None or self._active <= self._pushed.version:
            return False
        what = f"ran version {self._active}, which somebody else pushed; it gets ours again"
        log.warning("engine %d %s", self.rank, what)
        self.history.note("engine", what, self._now)
        return True

    def _push(self, loop: Loop, why: str) -> None:
        heartbeat = self.stream.heartbeat
        assert heartbeat is not None, "without one there is no loop"
        version = self.pusher.next_version(heartbeat.state.newest)
        if parameters := loop.parameters(version):
            self.history.note(LAWS, f"version {version} was pushed, {why}", self._now)
            changes = loop.learner.categories.numbering.changes
            self._pushed = Pushed(version, changes, loop.gate.running)
            self.pusher.push(parameters, self._now)

    def explain(self, features: Features) -> Explanation | None:
        """What happens to a request with these features; None before the first heartbeat."""
        if self.loop is None:
            return None
        return explanation(self.rank, self.loop.learner, self._cached, features)

    def _note_mode(self, mode: Mode) -> None:
        if self._mode is not mode:
            why = f"as asked, {self._mode.value} until now" if self._mode else "at the start"
            self.history.note("mode", f"{mode.value}: {why}", self._now)
            self._mode = mode

    def _sample(self, loop: Loop) -> None:
        heartbeat = self.stream.heartbeat
        assert heartbeat is not None, "without one there is no loop"
        gate = gate_report(loop, heartbeat.state.block_tokens, self._now)
        categories = all_categories(loop.learner, self._cached)
        self.history.sample(gate, categories, self._now)
