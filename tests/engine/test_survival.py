"""Whatever happens to the sidecar, the engine serves; when it returns, so do the parameters.

One server is under load all the time. After each test no request has failed, and no step of the
scheduler took much longer than the longest before there was any sidecar.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from wactl.controller.learned import go_on
from wactl.controller.loop import Loop
from wactl.controller.rules import load_rules
from wactl.controller.settings import load_settings
from wactl.controller.state import decode
from wactl.controller.status import NoSidecar, Request, Status, ask
from wactl.policies.messages import WIRE, EngineState, Push, decode_ack, encode
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.rundir import control_endpoint, records_endpoint
from wactl.policies.table import EMPTY

pytestmark = pytest.mark.engine

SEED = 7
ROUNDS = 5
TTL = 3.0
START = 60.0
"""Seconds that a sidecar may take from its start to the first push, of which imports take most."""
STALL = 1.0
"""Seconds that a step may take beyond the longest one without a sidecar: the processors are shared,
and a process that starts takes its part."""

FILE = Path("state") / "engine-0.state"


def heard(state: EngineState) -> bool:
    """The engine has parameters of a sidecar that lives, whatever the gate trusts them."""
    return "in force" in state.reason or "has trust 0" in state.reason


def later(state: EngineState) -> Callable[[EngineState], bool]:
    """It has heard of a sidecar since."""
    return lambda found: heard(found) and found.newest > state.newest


def now(stage: Any) -> EngineState:
    """What the engine says next."""
    return stage.until("anything", lambda state: True, 5.0)


def status_of(stage: Any, mode: str | None = None) -> Status:
    """What the sidecar says, which may take a while where a load has all processors."""
    end = time.monotonic() + 15.0
    while True:
        try:
            return ask(stage.run_dir, Request(mode))
        except NoSidecar:
            if time.monotonic() > end:
                raise


def listened_to(stage: Any, **environment: str) -> subprocess.Popen[bytes]:
    """A new sidecar whose parameters the engine has."""
    before = now(stage)
    sidecar: subprocess.Popen[bytes] = stage.sidecar(**environment)
    stage.until("heard", later(before), START)
    return sidecar


def alone(state: EngineState) -> bool:
    """The sidecar's word has expired."""
    return state.order == "lru" and "expired" in state.reason


@pytest.fixture(scope="module")
def before(stage: Any) -> float:
    """The longest step while there is no sidecar."""
    stage.load.longest_step()
    time.sleep(8.0)
    longest: float = stage.load.longest_step()
    assert longest > 0.0
    return longest


@pytest.fixture(autouse=True)
def unharmed(stage: Any, before: float) -> Iterator[None]:
    """No request of the load fails, and the scheduler does not stall."""
    count = len(stage.load.answers)
    stage.load.longest_step()
    load = stage.load
    yield
    stage.end_sidecars()
    if load is stage.load:
        longest = load.longest_step()
        print(f"longest step {longest:.2f} s, without a sidecar {before:.2f} s")
        assert 0.0 < longest < before + STALL
        assert load.failed == ""
        assert [answer.error for answer in load.answers[count:] if answer.error] == []
        assert stage.server.alive()


def test_killed_frozen_and_ended_at_random_moments(stage: Any) -> None:
    """Each time it comes back the engine listens to it again, and what was learned goes on."""
    rng = random.Random(SEED)
    sidecar = listened_to(stage)
    state = now(stage)
    deeds = ["kill", "freeze", "end", *rng.choices(["kill", "freeze", "end"], k=ROUNDS - 3)]
    for deed in deeds:
        time.sleep(rng.uniform(0.0, 3.0))
        if deed == "freeze":
            sidecar.send_signal(signal.SIGSTOP)
            stage.until("LRU with the sidecar frozen", alone, TTL + 4.0)
            sidecar.send_signal(signal.SIGCONT)
            state = stage.until("heard after the freeze", later(state), 15.0)
            continue
        sidecar.send_signal(signal.SIGKILL if deed == "kill" else signal.SIGTERM)
        sidecar.wait()
        if deed == "end":
            decode((stage.folder / FILE).read_bytes())
        start = time.monotonic()
        sidecar = listened_to(stage)
        state = now(stage)
        print(f"{deed}: heard again after {time.monotonic() - start:.1f} s")
    assert "going on from what was learned" in stage.log.read_text()


def test_killed_while_starting(stage: Any) -> None:
    """At any moment of its start; what is left in the folder is in nobody's way."""
    rng = random.Random(SEED)
    for _ in range(3):
        sidecar = stage.sidecar()
        time.sleep(rng.uniform(0.5, 4.0))
        sidecar.kill()
        sidecar.wait()
    listened_to(stage)


def test_a_half_written_state_costs_what_was_learned_and_no_more(stage: Any) -> None:
    """One sentence in the log, the file set aside, and another one at the end."""
    file = stage.folder / FILE
    sidecar = listened_to(stage)
    sidecar.terminate()
    sidecar.wait()
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])
    sidecar = listened_to(stage)
    sidecar.terminate()
    sidecar.wait()
    assert stage.log.read_text().count("is damaged or only half written; it is now") == 1
    assert file.with_name("engine-0.state.broken").read_bytes() == raw[: len(raw) // 2]
    decode(file.read_bytes())


def test_a_second_sidecar_says_so_and_the_first_goes_on(stage: Any) -> None:
    """One wins."""
    first = listened_to(stage)
    second = stage.wactl("run", "--config", str(stage.settings))
    assert second.returncode == 1
    assert second.stderr.startswith("wactl: another sidecar already uses ")
    assert second.stderr.count("\n") == 1
    assert status_of(stage).pid == first.pid
    stage.until("heard still", heard, 2.0)


def test_bad_company(stage: Any) -> None:
    """Subscribers that read slowly or nothing, and pushers that flood, harm nobody else."""
    sidecar = listened_to(stage)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stuck, slow, deaf, flood = (
        context.socket(kind) for kind in (zmq.SUB, zmq.SUB, zmq.DEALER, zmq.DEALER)
    )
    for subscriber in (stuck, slow):
        subscriber.rcvhwm = 1
        subscriber.subscribe(b"")
        subscriber.connect(records_endpoint(stage.run_dir, 0))
    for pusher in (deaf, flood):
        pusher.connect(control_endpoint(stage.run_dir, 0))
    law = Law((0.5,), (1.0,), 10.0)
    old = ParameterSet(1, 60.0, 1.0, Score.HAZARD, 60.0, law, (), EMPTY)
    messages = [encode(Push(WIRE, old)), b"\xc1" * 1000, b"", b"x" * (1 << 20), b"\x00"]
    status = status_of(stage).engines[0]
    end, sent = time.monotonic() + 6.0, 0
    while time.monotonic() < end:
        for pusher in (deaf, flood):
            try:
                pusher.send(messages[sent % len(messages)], zmq.DONTWAIT)
                sent += 1
            except zmq.Again:
                pass  # its queue is full, as a flood should have it
        if slow.poll(0) and sent % 997 == 0:
            slow.recv()
        while flood.poll(0):
            flood.recv()
    stage.until("heard in the flood", heard, 3.0)
    later = status_of(stage).engines[0]
    context.destroy(linger=0)
    print(f"{sent} messages, {later.rejected - status.rejected} of them refused")
    assert later.rejected > status.rejected + 100
    assert later.errors == status.errors == 0
    assert later.requests > status.requests
    assert sidecar.poll() is None


def test_wrong_laws_pushed_by_hand_are_overruled(stage: Any) -> None:
    """What was learned, the wrong way round: the engine obeys, and the sidecar says so and why."""
    sidecar = listened_to(stage)
    sidecar.terminate()
    sidecar.wait()
    sidecar = listened_to(stage)
    before = now(stage)
    wrong = inverted(stage, before, before.newest + 1000)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    hand = context.socket(zmq.DEALER)
    hand.connect(control_endpoint(stage.run_dir, 0))
    hand.send(encode(Push(WIRE, wrong)))
    assert hand.poll(5000), "the engine does not answer"
    answer = decode_ack(hand.recv())
    context.destroy(linger=0)
    assert (answer.accepted, answer.version) == (True, wrong.version)
    stage.until("heard by ours again", lambda s: s.newest > wrong.version, 5.0)
    stage.until("without the wrong laws", lambda s: s.active != wrong.version, 3.0)
    why = f"ran version {wrong.version}, which somebody else pushed; it gets ours again"
    assert why in [change.text for change in status_of(stage).engines[0].changes]
    assert why in stage.log.read_text()
    assert sidecar.poll() is None


def inverted(stage: Any, state: EngineState, version: int) -> ParameterSet:
    """The laws that the sidecar last kept, the likeliest to be reused in place of the least."""
    kept = decode((stage.folder / FILE).read_bytes()).learned
    settings = load_settings(stage.settings)
    sizes = state.blocks - 1, state.shift, kept.lineage, state.block_tokens
    loop = Loop(settings, load_rules(settings.rules), *sizes)
    go_on(loop, kept, kept.origin, kept.pushed.version if kept.pushed else 0, kept.time, 0.0)
    loop.learner.step(kept.time)
    parameters = loop.learner.parameters(version)
    assert parameters is not None
    likeliest = sorted(parameters.laws, key=lambda law: law.p)
    other = dict(zip(likeliest, reversed(likeliest), strict=True))
    assert likeliest[0].p < likeliest[-1].p, "one category has no wrong way round"
    return msgspec.structs.replace(parameters, laws=tuple(other[law] for law in parameters.laws))


@pytest.mark.parametrize("jump", ["+400d", "-400d"])
def test_the_clock_on_the_wall_jumps(stage: Any, jump: str, program: Callable[[str], str]) -> None:
    """Neither the time to live nor the age of what was learned hangs on it."""
    faketime = Path(program("faketime"))
    told = stage.folder / "faketime"
    told.write_text("+0\n")
    library = next(Path("/usr/lib").rglob("libfaketimeMT.so.1"))
    assert faketime.exists()
    sidecar = listened_to(
        stage,
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(told),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    said = len(stage.log.read_text())
    evidence = weight(status_of(stage))
    told.write_text(f"{jump}\n")
    end = time.monotonic() + 2 * TTL
    while time.monotonic() < end:
        stage.until("heard all the time", heard, 2.0)
        assert not alone_now(stage)
    assert weight(status_of(stage)) > 0.9 * evidence > 0.0
    status_of(stage, "enforce")
    (stage.folder / "state" / "mode").unlink()
    sidecar.terminate()
    sidecar.wait()
    year = decode((stage.folder / FILE).read_bytes()).wall - time.time()
    assert abs(year) > 300 * 86400.0, "the clock that jumped is none the sidecar looks at"
    assert "Traceback" not in stage.log.read_text()[said:]


def alone_now(stage: Any) -> bool:
    """What the sidecar believes of the order, from the last heartbeat."""
    return "expired" in status_of(stage).engines[0].reason


def weight(status: Status) -> float:
    """Requests behind the laws of all rules."""
    return sum(category.evidence for category in status.engines[0].categories if category.rule)


def test_the_rules_are_broken_and_mended_while_it_runs(stage: Any) -> None:
    """Those that were there go on; the status says what is wrong until it is put right."""
    listened_to(stage)
    stage.rules.write_text("rules:\n  - category: short\n    when: {age: 3}\n")
    problem = wait(lambda: status_of(stage).rules_problem)
    assert "rules.yaml:3" in problem
    stage.until("heard with broken rules", heard, 2.0)
    stage.rules.write_text("rules:\n  - category: short\n    when: {length: '< 200'}\n")
    wait(lambda: not status_of(stage).rules_problem)
    wait(lambda: "short" in {c.name for c in status_of(stage).engines[0].categories})
    stage.until("heard with other rules", heard, 5.0)
    stage.rules.write_text("rules: []\n")


def test_a_full_disk(stage: Any, small: Path) -> None:
    """Neither capture nor state fit: one sentence each, the last good state stays, all goes on."""
    text = stage.settings.read_text()
    stage.settings.write_text(text.replace("state_dir: state", f"state_dir: {small}"))
    try:
        sidecar = listened_to(stage)
        sidecar.terminate()
        sidecar.wait()
        good = (small / FILE.name).read_bytes()
        decode(good)
        with (
            (small / "more").open("wb", buffering=0) as file,
            pytest.raises(OSError, match="space"),
        ):
            while True:
                file.write(bytes(1024))
        capture = stage.wactl("capture", str(small / "capture.jsonl"), "--seconds", "20")
        assert capture.returncode == 1
        assert "No space left on device" in capture.stderr.splitlines()[-1]
        assert "Traceback" not in capture.stderr
        said = len(stage.log.read_text())
        sidecar = listened_to(stage)
        done = stage.wactl("mode", "enforce")
        assert (done.returncode, done.stdout) == (0, "mode enforce\n")
        assert "No space left on device" in done.stderr
        sidecar.terminate()
        assert sidecar.wait() == 0
        assert (small / FILE.name).read_bytes() == good
        log = stage.log.read_text()[said:]
        assert log.count("No space left on device") == 1
        assert "Traceback" not in log
    finally:
        stage.settings.write_text(text)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, with little more room than one state needs."""
    folder = tmp_path / "small"
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=9m", "none", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        if os.environ.get("CI"):
            pytest.fail(done.stderr)
        pytest.skip(f"needs root for a small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_the_engine_is_killed_and_another_one_comes(stage: Any) -> None:
    """The same sidecar goes on with it: under other versions, from what was learned."""
    sidecar = listened_to(stage)
    status = status_of(stage).engines[0]
    os.killpg(stage.server.pid, signal.SIGKILL)
    stage.server.stop()
    stage.load.end()
    assert any(answer.error for answer in stage.load.answers), "it was not killed under load"
    stage.serve()
    stage.until("heard by the new engine", heard, 10.0)
    assert sidecar.poll() is None
    found = wait(lambda: (s := status_of(stage).engines[0]).pid != status.pid and s)
    assert found.requests < status.requests
    assert found.rejected == 0
    assert "going on from what was learned" in stage.log.read_text().split("was restarted")[-1]
    time.sleep(3.0)
    assert [answer.error for answer in stage.load.answers if answer.error] == []


def wait(what: Callable[[], Any], limit: float = 15.0) -> Any:
    """What a function returns as soon as it is true."""
    end = time.monotonic() + limit
    while not (found := what()):
        assert time.monotonic() < end, f"not within {limit} s"
        time.sleep(0.1)
    return found
