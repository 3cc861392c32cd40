"""The sidecar's shell: sockets, clock and signals around the loop.

The only part of the controller that reads a clock. Each cycle waits for something to arrive,
lets every link work, and answers whoever asks for the status.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec
import numpy as np
import zmq

from .. import __version__
from ..policies.features import FEATURES
from ..policies.keys import ENGINE, SIDECAR, load_keys
from ..policies.network import network
from ..policies.rundir import claim, engine_ranks, private_dir, sidecar_endpoint
from ..policies.sockets import Place, bind, endpoints
from .history import Past
from .link import Link
from .pages import pages
from .rulefile import RuleFile
from .settings import Mode, Settings
from .state import State, state_folder
from .status import Answer, Explanation, Request, Status
from .web import Server, serve

CYCLE = 0.1
"""Longest wait in seconds between two cycles."""
DISCOVERY = 0.5
"""Seconds between two looks for new engines."""
QUESTIONS = 16
"""Questions answered in one cycle."""
KEEP = 120.0
"""Seconds between two times that what was learned is written down."""
REPORT = 1.0
"""Age in seconds of the status that is served, at most."""

log = logging.getLogger("wactl")


class Daemon:
    """The sidecar for the engines that meet it in ``run_dir``, or at addresses of the settings.

    Raises a `WactlError` that says why when it cannot start.
    """

    def __init__(self, settings: Settings, run_dir: Path) -> None:
        self.settings = settings
        self.run_dir = private_dir(run_dir)
        self.stopping = False
        self._rules = RuleFile(settings.rules)
        self._remote: dict[int, Place] = {
            number: network(url, load_keys(SIDECAR, ENGINE))
            for number, url in enumerate(settings.engines)
        }
        self._lock = claim(self.run_dir, "sidecar")
        self._state = State(state_folder(settings.state_dir, self.run_dir))
        remembered = self._state.mode(settings.mode)
        self.mode = remembered or settings.mode
        self._remembered = remembered is not None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._questions = self._context.socket(zmq.REP)
        self._questions.linger = 0
        self._questions.maxmsgsize = 4096
        self._links: dict[int, Link] = {}
        self._looked = float("-inf")
        self._kept = time.monotonic()
        self._reported, self._status = float("-inf"), self._report(time.monotonic())
        self._past: tuple[Past, ...] = ()
        self._cycled = time.monotonic()
        self._web: Server | None = None
        try:
            if settings.metrics_port:
                served = pages(
                    lambda: self._status,
                    lambda: self._past,
                    lambda: time.monotonic() - self._cycled,
                )
                host, port = settings.metrics_host, settings.metrics_port
                self._web = serve(host, port, served, time.monotonic)
            bind(self._questions, sidecar_endpoint(self.run_dir), self.run_dir)
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Cycle until `stopping` is set, by a signal handler say."""
        log.info(
            "wactl %s in mode %s (%s), meeting engines %s",
            __version__,
            self.mode.value,
            "as last asked with `wactl mode`" if self._remembered else "as the settings say",
            f"at {', '.join(map(str, self._remote.values()))}"
            if self._remote
            else f"in {self.run_dir}",
        )
        try:
            while not self.stopping:
                self._wait()
                self._cycle(time.monotonic())
            self._state.finish()
            self._keep(time.monotonic())
        finally:
            self.close()

    def close(self) -> None:
        """Give everything back; the engines fall back to LRU when the time to live is over."""
        if self._web is not None:
            self._web.close()
        for link in self._links.values():
            link.close()
        self._context.destroy(linger=0)
        self._state.close()
        (self.run_dir / "sidecar").unlink(missing_ok=True)
        self._lock.close()

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._questions, zmq.POLLIN)
        for link in self._links.values():
            poller.register(link.stream.socket, zmq.POLLIN)
        poller.poll(int(CYCLE * 1000))

    def _cycle(self, wall: float) -> None:
        if wall - self._looked >= DISCOVERY:
            self._looked = wall
            for rank, place in self._places().items():
                if rank not in self._links:
                    log.info("engine %d: listening to %s", rank, place)
                    self._links[rank] = self._link(place, rank, wall)
            if self._rules.look():
                for link in self._links.values():
                    link.follow(self._rules.rules)
        for link in self._links.values():
            link.work(self.mode, wall)
        if wall - self._kept >= KEEP:
            self._keep(wall)
        self._answer(wall)
        self._cycled = wall

    def _link(self, place: Place, rank: int, wall: float) -> Link:
        kept = self._state.load(endpoints(place, rank)[0], wall, time.time())
        return Link(self._context, place, rank, self.settings, self._rules.rules, kept)

    def _keep(self, wall: float) -> None:
        """Write down what was learned. The wall clock tells a later process how old that is."""
        self._kept = wall
        found = {link.where: kept for link in self._links.values() if (kept := link.kept())}
        self._state.save(found, wall, time.time())

    def _places(self) -> dict[int, Place]:
        """Where there may be engines, by rank, or by their number in the settings."""
        return self._remote or dict.fromkeys(engine_ranks(self.run_dir), self.run_dir)

    def _answer(self, wall: float) -> None:
        if wall - self._reported >= REPORT:
            self._reported, self._status = wall, self._report(wall)
            self._past = tuple(link.past() for _, link in sorted(self._links.items()))
        for _ in range(QUESTIONS):
            if not self._questions.poll(0):
                return
            raw = b"".join(self._questions.recv_multipart())
            try:
                request = msgspec.json.decode(raw, type=Request)
                if request.mode is not None:
                    self._set_mode(Mode(request.mode))
                self._status = self._report(wall)
                answer = Answer(self._status, explanations=self._explain(request))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                answer = Answer(None, f"not a question this sidecar understands: {error}")
            except ValueError:
                modes = ", ".join(mode.value for mode in Mode)
                answer = Answer(None, f"no mode {request.mode!r}; there are {modes}")
            self._questions.send(msgspec.json.encode(answer))

    def _set_mode(self, mode: Mode) -> None:
        if mode is not self.mode:
            log.info("mode %s -> %s, as asked", self.mode.value, mode.value)
            self.mode = mode
        self._remembered = True
        self._state.remember(mode, self.settings.mode)

    def _explain(self, request: Request) -> tuple[Explanation, ...]:
        if request.explain is None:
            return ()
        features = np.array(request.explain)
        if len(features) != len(FEATURES) or not np.isfinite(features).all():
            raise msgspec.ValidationError(f"a request has {len(FEATURES)} features")
        found = (link.explain(features) for link in self._links.values())
        return tuple(explanation for explanation in found if explanation is not None)

    def _report(self, wall: float) -> Status:
        engines = {link: link.status(wall) for _, link in sorted(self._links.items())}
        return Status(
            wactl=__version__,
            mode=self.mode.value,
            pid=os.getpid(),
            rules=str(self.settings.rules),
            rules_problem=self._rules.problem,
            run_dir=str(self.run_dir),
            engines=tuple(engine for engine in engines.values() if engine is not None),
            silent=tuple(link.where for link, engine in engines.items() if engine is None),
            mode_asked=self._remembered,
            state_dir=str(self._state.folder),
            state_problem=self._state.problem,
        )
