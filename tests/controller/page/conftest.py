"""A real Chromium, and an engine that has the traffic of a generated trace in quick motion."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from wactl.policies.channel import Channel
from wactl.policies.intake import Intake, Orders
from wactl.policies.messages import EngineState
from wactl.simulations.cache import SimulatedCache
from wactl.simulations.controlled import adaptive
from wactl.simulations.generate.plan import Plan
from wactl.simulations.generate.presets import generate

BLOCKS = 1000
SPEED = 90.0


class PlayedEngine:
    """The engine's side of the wire with a simulated cache, `SPEED` times as fast as its clock."""

    def __init__(self, place: Path, preset: str, seconds: float) -> None:
        adaptive(generate(preset, Plan(seconds=120.0)), 100)  # compiles all that is compiled
        self.trace = generate(preset, Plan(seconds=seconds))
        self.cache = SimulatedCache(self.trace, BLOCKS)
        self.intake = Intake()
        self._start: float | None = None  # until it plays
        self._orders: Orders | None = None
        self._cached: tuple[int, ...] = ()
        self._lengths = (0, 0)
        self.channel = Channel(place, 0, "played", self.clock, self.intake, self.state)

    def clock(self) -> float:
        return 0.0 if self._start is None else (time.monotonic() - self._start) * SPEED

    def play(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Serve the whole trace, each request when it is due."""
        self._start = time.monotonic()
        for request in range(self.trace.requests):
            while self.clock() < self.trace.times[request]:
                meanwhile()
                time.sleep(0.002)
            self._obey()
            for record in self.cache.serve(request):
                self.channel.send(record)
            self._cached = tuple(self.cache.queue.cached().tolist())
            self._lengths = (self.cache.queue.length, self.cache.evictions)

    def _obey(self) -> None:
        orders = self.intake.in_force(self.clock())
        if orders is not None and orders is not self._orders:
            self._orders = orders
            self.cache.obey(orders)

    def state(self) -> EngineState:
        orders = self.intake.in_force(self.clock())
        free, evicted = self._lengths
        return EngineState(
            rank=0,
            pid=4242,
            version="0.32.0",
            block_tokens=256,
            blocks=BLOCKS + 1,
            shift=self.cache.recorder.shift,
            active=orders.parameters.version if orders else 0,
            newest=self.intake.version,
            order="scored" if orders else "lru",
            reason=self.intake.reason(self.clock()),
            free=free,
            cached=self._cached,
            evicted=evicted,
            orphans=0,
            admitted=self.cache.recorder.admitted,
            dropped=self.channel.dropped,
            accepted=self.intake.accepted,
            rejected=self.intake.rejected,
            errors=0,
            exempt_groups=0,
        )

    def close(self) -> None:
        self.channel.close()


@pytest.fixture
def played(run_dir: Path) -> Iterator[Callable[[str, float], PlayedEngine]]:
    """Starts an engine for so many seconds of a preset of `wactl generate`."""
    running: list[PlayedEngine] = []

    def start(preset: str, seconds: float) -> PlayedEngine:
        running.append(PlayedEngine(run_dir, preset, seconds))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def browser(program: Callable[[str], str]) -> Iterator[Browser]:
    """The system's Chromium, headless."""
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=program("chromium"))
        yield one
        one.close()


@pytest.fixture
def said() -> list[str]:
    """What pages wrote to the console as errors or warnings, or threw."""
    return []


@pytest.fixture
def visit(browser: Browser, said: list[str]) -> Callable[..., Page]:
    """Opens the page of a sidecar that listens on a port, in light and on a desk unless told so."""

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(message.text)

    def go(port: int, scheme: str = "light", width: int = 1100, **options: Any) -> Page:
        size = {"width": width, "height": 1190}
        context = browser.new_context(color_scheme=scheme, viewport=size, **options)
        page = context.new_page()
        page.on("console", hear)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}/")
        return page

    return go
