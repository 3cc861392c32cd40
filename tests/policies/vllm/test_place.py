"""Where the plugin listens, and that a wrong key costs the engine its parameters, nothing more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from vllm.v1.core.kv_cache_utils import FreeKVCacheBlockQueue
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, load_keys
from wactl.policies.messages import Heartbeat, decode_report
from wactl.policies.network import LISTEN, network
from wactl.policies.sockets import connect
from wactl.policies.vllm.install import attach, meeting_place


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What wactl logs inside vLLM, whose loggers keep things to themselves."""
    logger = logging.getLogger("vllm.wactl")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


def scheduler(cache: Any, rank: int = 0) -> Any:
    """As much of a scheduler as the plugin looks at."""
    parallel = SimpleNamespace(data_parallel_index=rank)
    return SimpleNamespace(
        vllm_config=SimpleNamespace(parallel_config=parallel),
        kv_cache_manager=cache.manager,
        shutdown=lambda: None,
    )


def test_without_an_address_it_is_the_folder(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No variable or an empty one: the private folder, and no key is asked for."""
    monkeypatch.setenv("WACTL_RUN_DIR", str(run_dir))
    monkeypatch.delenv(KEYS, raising=False)
    for value in (None, ""):
        monkeypatch.delenv(LISTEN, raising=False)
        if value is not None:
            monkeypatch.setenv(LISTEN, value)
        assert meeting_place(3) == run_dir


def test_an_engine_listens_at_its_ranks_address(
    keys: Path,
    run_dir: Path,
    cache: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    two_ports: Callable[[], int],
    log: pytest.LogCaptureFixture,
) -> None:
    """Rank 1 is heard two ports further; no folder is touched, and no secret is logged."""
    log.set_level(logging.DEBUG)
    port = two_ports()
    monkeypatch.setenv(LISTEN, f"tcp://127.0.0.1:{port - 2}")
    monkeypatch.setenv("WACTL_RUN_DIR", str(run_dir))
    one = scheduler(cache(64), rank=1)
    attach(one)
    address = network(f"tcp://127.0.0.1:{port}", load_keys(SIDECAR, ENGINE))
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.linger = 0
        socket.subscribe(b"")
        connect(socket, address.records, address)
        assert socket.poll(10_000)
        report = decode_report(socket.recv())
    one.shutdown()
    assert isinstance(report, Heartbeat) and report.state.rank == 1
    assert list(run_dir.iterdir()) == []
    assert f"controls the cache of engine 1 from tcp://127.0.0.1:{port}" in log.text
    for path in keys.glob("*.secret"):
        assert path.read_text().strip() not in log.text


@pytest.mark.parametrize("wrong", ["no keys", "open keys", "broken keys", "address", "taken port"])
def test_what_is_wrong_with_keys_or_address_leaves_plain_lru(
    wrong: str,
    keys: Path,
    cache: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    two_ports: Callable[[], int],
    log: pytest.LogCaptureFixture,
) -> None:
    """One sentence in the log without a secret, and vLLM is as if there were no plugin."""
    port = two_ports()
    monkeypatch.setenv(LISTEN, f"tcp://127.0.0.1:{port}")
    taken = zmq.Context().socket(zmq.STREAM)
    said = {
        "no keys": "wactl keys DIR",
        "open keys": "is open to other users",
        "broken keys": "holds no key",
        "address": "is no address",
        "taken port": "Address already in use",
    }[wrong]
    if wrong == "no keys":
        monkeypatch.delenv(KEYS)
    elif wrong == "open keys":
        (keys / "engine.secret").chmod(0o644)
    elif wrong == "broken keys":
        (keys / "sidecar.public").write_text("not a key")
    elif wrong == "address":
        monkeypatch.setenv(LISTEN, "everywhere")
    else:
        taken.bind(f"tcp://127.0.0.1:{port + 1}")
    ours = cache(64)
    one = scheduler(ours)
    before = one.shutdown
    attach(one)
    taken.context.destroy(linger=0)
    assert one.shutdown is before
    assert type(ours.manager.block_pool.free_block_queue) is FreeKVCacheBlockQueue
    assert "free" not in vars(ours.manager)
    assert ours.admit(ours.request(list(range(40)))) == 0
    records = [entry for entry in log.records if entry.name == "vllm.wactl"]
    assert {(entry.levelno, entry.exc_info) for entry in records} == {(logging.WARNING, None)}
    (text,) = {entry.getMessage() for entry in records}
    assert said in text
    assert (keys / "engine.secret").read_text().strip() not in log.text
