"""The sidecar over real sockets, with everything of an engine but vLLM at the other end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from wactl.controller.daemon import Daemon
from wactl.controller.status import Answer, Engine, NoSidecar, Request, Status, ask
from wactl.controller.web import WebError
from wactl.policies.errors import WactlError
from wactl.policies.messages import WIRE, Heartbeat, Records, encode
from wactl.policies.rundir import RunDirError, records_endpoint, sidecar_endpoint

Eventually = Callable[..., Any]


@pytest.fixture
def look(run_dir: Path) -> Callable[[], Engine | None]:
    """The only engine that the sidecar reports, or None yet."""

    def first() -> Engine | None:
        engines = ask(run_dir, Request()).engines
        return engines[0] if engines else None

    return first


@pytest.fixture
def socket() -> Iterator[Callable[[int], zmq.Socket[bytes]]]:
    """Makes sockets of the test's own, closed after it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
    made: list[zmq.Socket[bytes]] = []

    def make(kind: int) -> zmq.Socket[bytes]:
        made.append(context.socket(kind))
        return made[-1]

    yield make
    for one in made:
        one.close(linger=0)
    context.term()


def test_records_lead_to_parameters_that_the_engine_takes(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
) -> None:
    """In enforce mode the engine soon has parameters in force, and the status tells of them."""
    one = engine()
    daemon(mode="enforce")
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    assert one.intake.rejected == 0
    found = eventually(lambda: (e := look()) and e.version and e)
    assert (found.order, found.alive, found.refusal) == ("scored", True, "")
    assert found.pushed >= 1
    assert found.requests > 0
    assert found.hit_ratio == 0.0
    (rule,) = (category for category in found.categories if category.rule)
    assert rule.name == "other"
    assert rule.p is not None
    assert rule.p > 0.5
    assert 0 < rule.requests <= found.requests
    assert ask(run_dir, Request()).mode == "enforce"


@pytest.mark.parametrize("mode", ["shadow", "observe"])
def test_nothing_is_pushed_short_of_enforce(
    mode: str,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
) -> None:
    """Shadow learns laws and observe counts requests, and the engine hears of neither."""
    one = engine()
    daemon(mode=mode)
    eventually(
        lambda: (
            (e := look())
            and (e.categories[-1].p is not None or mode == "observe")
            and sum(category.requests for category in e.categories) > 20
        ),
        one.traffic,
    )
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        one.traffic()
        time.sleep(0.05)
    assert (one.intake.accepted, one.intake.rejected) == (0, 0)
    assert (look().order, look().pushed) == ("lru", 0)
    assert (look().categories[0].p is None) == (mode == "observe")


def test_the_mode_can_be_changed_while_it_runs(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
) -> None:
    """Out of enforce the parameters expire, and back in it a higher version is in force."""
    one = engine()
    daemon(mode="enforce")
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    assert ask(run_dir, Request("shadow")).mode == "shadow"
    eventually(lambda: one.intake.in_force(one.clock()) is None, one.traffic)
    before, pushes = one.intake.version, one.intake.accepted
    assert "expired" in eventually(lambda: (e := look()).order == "lru" and e.reason)
    assert one.intake.accepted == pushes
    assert ask(run_dir, Request("enforce")).mode == "enforce"
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    assert one.intake.version > before


def test_parameters_outlive_their_time_only_while_the_sidecar_says_so(
    engine: Callable[..., Any], daemon: Callable[..., Daemon], eventually: Eventually
) -> None:
    """Long before the next fit the set is kept alive; with the sidecar gone it expires."""
    one = engine()
    sidecar = daemon(mode="enforce", refit_seconds=70.0, ttl_seconds=30.0)
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    later = one.clock() + 2 * sidecar.settings.ttl_seconds
    eventually(lambda: one.clock() > later, one.traffic)
    assert eventually(lambda: one.intake.in_force(one.clock())).parameters.version == 1
    assert one.intake.accepted > 1
    sidecar.stopping = True
    eventually(lambda: one.intake.in_force(one.clock()) is None)


def test_a_restarted_engine_is_noticed_and_versions_go_on_growing(
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
) -> None:
    """Totals start anew with the engine, laws go on: its first set is there before any traffic."""
    one = engine("first")
    daemon(mode="enforce")
    eventually(lambda: one.intake.version > 2, one.traffic)
    one.close()
    two = engine("second")
    two.request("only", [1, 2, 3])
    found = eventually(lambda: (e := look()) and e.requests == 1 and e)
    assert (found.prompt_blocks, sum(c.requests for c in found.categories if c.rule)) in (
        (0, 0),
        (3, 1),
    )
    eventually(lambda: two.intake.version, limit=3.0)
    assert two.intake.version > one.intake.version
    assert two.intake.rejected == 0
    assert look().lost_messages == 0


def test_a_restarted_sidecar_is_heard(
    engine: Callable[..., Any], daemon: Callable[..., Daemon], eventually: Eventually
) -> None:
    """A new sidecar continues from the highest version that the engine has seen."""
    one = engine()
    first = daemon(mode="enforce")
    eventually(lambda: one.intake.version > 3, one.traffic)
    first.stopping = True
    eventually(lambda: one.intake.in_force(one.clock()) is None)
    before = one.intake.version
    daemon(mode="enforce")
    eventually(lambda: one.intake.version > before, one.traffic)
    assert one.intake.rejected == 0


def test_engines_of_two_ranks_are_kept_apart(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Eventually,
) -> None:
    """Each data-parallel rank has a learner of its own and gets its own parameters."""
    busy, idle = engine("a", rank=0), engine("b", rank=1)
    daemon(mode="enforce")
    eventually(lambda: busy.intake.version, busy.traffic)
    status = eventually(lambda: len((s := ask(run_dir, Request())).engines) == 2 and s)
    assert [e.rank for e in status.engines] == [0, 1]
    assert status.engines[1].requests == 0
    assert idle.intake.accepted == 0


def test_a_silent_engine_is_reported_as_gone(
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
) -> None:
    """Three seconds without a heartbeat, and the engine no longer counts as alive."""
    one = engine()
    daemon()
    assert eventually(look).alive
    one.close()
    silent = eventually(lambda: not (e := look()).alive and e)
    assert silent.silent_seconds >= 3.0


def test_a_second_sidecar_in_the_folder_is_refused(
    run_dir: Path, daemon: Callable[..., Daemon]
) -> None:
    """It says who is there and what to do, and the first one goes on."""
    daemon()
    with pytest.raises(RunDirError, match=r"another sidecar already uses .*stop it"):
        daemon()
    assert ask(run_dir, Request()).mode == "shadow"


def test_a_sidecar_that_cannot_start_leaves_nothing_behind(
    run_dir: Path, daemon: Callable[..., Daemon], socket: Callable[[int], Any]
) -> None:
    """A taken metrics port is one sentence, and afterwards the folder is free."""
    taken = socket(zmq.STREAM)
    port = taken.bind_to_random_port("tcp://127.0.0.1")
    with pytest.raises(WebError, match=f"127.0.0.1:{port}: .*; set metrics_host"):
        daemon(metrics_port=port)
    daemon()
    assert ask(run_dir, Request()).engines == ()


HOSTILE = {
    "nothing": [b""],
    "garbage": [b"\x00\xff\xfe"],
    "null": [b"null"],
    "a number": [b"1e999"],
    "a wrong type": [b'{"mode": 5}'],
    "half a question": [b'{"mode": "shadow'],
    "no unicode": [b'{"mode": "\xff"}'],
    "no such mode": [b'{"mode": "' + b"x" * 4000 + b'"}'],
    "deep nesting": [b'{"a":' + b"[" * 4000],
    "several parts": [b"{}", b"{}", b"{}"],
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_question_is_refused_and_the_next_one_answered(
    parts: list[bytes], run_dir: Path, daemon: Callable[..., Daemon], socket: Callable[[int], Any]
) -> None:
    """Whatever is asked, the answer is a refusal, and the sidecar goes on serving."""
    daemon()
    asker = socket(zmq.REQ)
    asker.connect(sidecar_endpoint(run_dir))
    asker.send_multipart(parts)
    assert asker.poll(5000)
    answer = msgspec.json.decode(asker.recv(), type=Answer)
    assert answer.status is None
    assert answer.refusal
    assert ask(run_dir, Request()).mode == "shadow"


def test_who_shouts_is_not_answered(
    run_dir: Path, daemon: Callable[..., Daemon], socket: Callable[[int], Any]
) -> None:
    """A question of megabytes, and one outside the protocol, do not disturb the next one."""
    daemon()
    for kind, parts in ((zmq.REQ, [b"x" * (4 << 20)]), (zmq.DEALER, [b"no envelope"])):
        asker = socket(kind)
        asker.connect(sidecar_endpoint(run_dir))
        asker.send_multipart(parts)
        assert not asker.poll(200)
    assert isinstance(ask(run_dir, Request()), Status)


def test_a_refusal_names_the_modes_there_are(run_dir: Path, daemon: Callable[..., Daemon]) -> None:
    """Asking for a mode that does not exist is refused in words, and changes nothing."""
    daemon()
    with pytest.raises(WactlError, match="no mode 'yolo'; there are observe, shadow, enforce"):
        ask(run_dir, Request("yolo"))
    assert ask(run_dir, Request()).mode == "shadow"


def test_without_a_sidecar_the_question_fails_in_words(
    run_dir: Path, socket: Callable[[int], Any]
) -> None:
    """Nobody there, nobody answering and somebody of another version are told apart."""
    with pytest.raises(NoSidecar, match=r"no sidecar uses .*start one with `wactl run`"):
        ask(run_dir, Request())
    other = socket(zmq.REP)
    other.bind(sidecar_endpoint(run_dir))
    with pytest.raises(NoSidecar, match="does not answer"):
        ask(run_dir, Request())
    other.recv()
    other.send(b"to nobody")

    def answer() -> None:
        other.recv()
        other.send(b'{"status": 5}')

    answerer = threading.Thread(target=answer)
    answerer.start()
    with pytest.raises(NoSidecar, match="of another version of wactl; restart it"):
        ask(run_dir, Request())
    answerer.join()
    other.unbind(sidecar_endpoint(run_dir))
    (run_dir / "sidecar").unlink(missing_ok=True)


def test_lost_messages_are_counted_and_broken_ones_survived(
    run_dir: Path,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    look: Callable[[], Engine],
    eventually: Eventually,
    socket: Callable[[int], Any],
) -> None:
    """A gap in the numbering shows as lost messages; garbage in between ends nothing."""
    one = engine()
    state = one.state()
    one.close()
    stream = socket(zmq.PUB)
    stream.bind(records_endpoint(run_dir, 0))
    daemon()
    sequence = 0

    def beat(skipped: int = 0) -> None:
        nonlocal sequence
        sequence += skipped
        stream.send(encode(Heartbeat(WIRE, "spoken", sequence, float(sequence), state)))
        sequence += 1

    found = eventually(look, beat)
    assert found.lost_messages == 0
    beat(skipped=5)
    stream.send(b"\xc1 garbage")
    stream.send(encode(Records(WIRE + 1, "spoken", 0, ())))
    beat(skipped=2)
    assert eventually(lambda: look().lost_messages == 7)
    assert look().alive
