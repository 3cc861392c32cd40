"""An engine without vLLM (the real channel, intake and recorder), sidecars, and patience."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from wactl.controller.daemon import Daemon
from wactl.controller.settings import Settings
from wactl.policies.ages import AGES
from wactl.policies.channel import Channel
from wactl.policies.features import TYPE, blank_features, digest
from wactl.policies.intake import Intake
from wactl.policies.messages import EngineState
from wactl.policies.recorder import Recorder
from wactl.policies.sample import keys_of
from wactl.policies.sockets import Place

SPEED = 30.0
"""How much faster than the wall clock the engines here run: a time to live takes two seconds."""
BLOCK_TOKENS = 16


def block_hashes(blocks: Sequence[object]) -> list[bytes]:
    return [hashlib.blake2b(str(block).encode(), digest_size=16).digest() for block in blocks]


class FakeEngine:
    """The engine's side of the wire, with a cache that misses everything."""

    def __init__(self, place: Place, name: str, rank: int) -> None:
        self.rank = rank
        self.intake = Intake()
        self.recorder = Recorder(1000)
        self.cached: tuple[int, ...] = ()
        self._turns = 0
        self._documents = 0
        self.channel = Channel(place, rank, name, self.clock, self.intake, self.state)

    def clock(self) -> float:
        return time.monotonic() * SPEED

    def request(self, name: str, blocks: Sequence[object], generated: int = 20) -> None:
        """Admit a request for these blocks now, and finish it at once; its type is its name."""
        features = blank_features(len(blocks) * BLOCK_TOKENS)
        features[TYPE] = digest(name)
        keys = keys_of(block_hashes(blocks))
        self.channel.send(self.recorder.admit(name, keys, 0, features, self.clock()))
        done = self.recorder.finish(name, generated, self.clock())
        assert done is not None
        self.channel.send(done[1])

    def traffic(self) -> None:
        """One more turn of a conversation, and a document."""
        self._turns += 1
        self._documents += 1
        self.request("chat", [("chat", block) for block in range(2 * self._turns % 100 + 2)])
        self.request("document", [(self._documents, block) for block in range(4)])

    def state(self) -> EngineState:
        orders = self.intake.in_force(self.clock())
        return EngineState(
            rank=self.rank,
            pid=1234,
            version="0.0.0",
            block_tokens=BLOCK_TOKENS,
            blocks=1000,
            shift=self.recorder.shift,
            active=orders.parameters.version if orders else 0,
            newest=self.intake.version,
            order="scored" if orders else "lru",
            reason=self.intake.reason(self.clock()),
            free=1000,
            cached=self.cached,
            evicted=0,
            orphans=0,
            admitted=self.recorder.admitted,
            dropped=self.channel.dropped,
            accepted=self.intake.accepted,
            rejected=self.intake.rejected,
            errors=0,
            exempt_groups=0,
        )

    def close(self) -> None:
        self.channel.close()


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Whatever a test starts has ended a moment after it."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=5.0)
        assert not thread.is_alive(), f"{thread.name} is left behind"


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A private folder with a path short enough for sockets; no sidecar's may stay in it."""
    folder = Path(tempfile.mkdtemp(prefix="wactl-", dir="/tmp"))
    yield folder
    left = (folder / "sidecar").exists()
    shutil.rmtree(folder)
    assert not left


@pytest.fixture
def engine(run_dir: Path) -> Iterator[Callable[..., FakeEngine]]:
    """Starts engines by name; two of one rank must not run at the same time."""
    engines: list[FakeEngine] = []

    def start(name: str = "engine", rank: int = 0, place: Place = run_dir) -> FakeEngine:
        engines.append(FakeEngine(place, name, rank))
        return engines[-1]

    yield start
    for one in engines:
        one.close()


@pytest.fixture
def quick() -> Callable[..., Settings]:
    """Makes settings that refit ten times a second and serve no metrics."""

    def make(**changed: Any) -> Settings:
        fields = {"refit_seconds": 3.0, "ttl_seconds": 60.0, "metrics_port": 0, **changed}
        return Settings.model_validate(fields)

    return make


@pytest.fixture
def daemon(run_dir: Path, quick: Callable[..., Settings]) -> Iterator[Callable[..., Daemon]]:
    """Starts sidecars in a thread, with the quick settings and those given."""
    running: list[tuple[Daemon, threading.Thread]] = []

    def start(**settings: Any) -> Daemon:
        one = Daemon(quick(**settings), run_dir)
        thread = threading.Thread(target=one.run, name="sidecar")
        thread.start()
        running.append((one, thread))
        return one

    yield start
    for one, _ in running:
        one.stopping = True
    for _, thread in running:
        thread.join(timeout=10.0)


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Calls a function, and between two tries another one, until it returns something true."""

    def wait(
        what: Callable[[], Any], meanwhile: Callable[[], object] = lambda: None, limit: float = 60.0
    ) -> Any:
        end = time.monotonic() + limit
        while not (found := what()):
            assert time.monotonic() < end, f"not within {limit} s"
            meanwhile()
            time.sleep(0.02)
        return found

    return wait


Row = NDArray[np.float64]


@pytest.fixture
def bins_of() -> Callable[[Row], Row]:
    """Counts ages by the nearest of the grid, measured in logarithms."""

    def count(ages: Row) -> Row:
        nearest = np.abs(np.log(np.maximum(ages, 1e-9))[:, None] - np.log(AGES)).argmin(axis=1)
        return np.bincount(nearest, minlength=len(AGES)).astype(float)

    return count


@pytest.fixture
def observe() -> Callable[..., tuple[Row, Row]]:
    """Draws ages at reuse, and those at which watching for one ended, up to ``window``."""

    def draw(p: float, rate: float, window: float, count: int, seed: int = 7) -> tuple[Row, Row]:
        rng = np.random.default_rng(seed)
        reuse = np.where(rng.random(count) < p, rng.exponential(1 / rate, count), np.inf)
        watched = rng.uniform(0, window, count)
        seen = reuse <= watched
        return reuse[seen], watched[~seen]

    return draw


@pytest.fixture
def hashes() -> Callable[[Sequence[object]], list[bytes]]:
    """Hashes of blocks, whatever stands for them."""
    return block_hashes
