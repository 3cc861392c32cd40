"""Sockets in a folder: this user's processes get in; the kernel, not the peer, says who that is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from wactl.policies.channel import Channel
from wactl.policies.intake import Intake
from wactl.policies.messages import EngineState, decode_ack
from wactl.policies.network import AddressError
from wactl.policies.rundir import RunDirError, control_endpoint
from wactl.policies.sockets import bind, endpoints, reserve

STRANGER = 4242
"""A user who owns nothing here."""

WRITER = """
import os, sys, zmq
socket = zmq.Context().socket(zmq.DEALER)
socket.linger = 0
user = int(sys.argv[2])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
socket.connect(sys.argv[1])
socket.send(b"push")
sys.exit(0 if socket.poll(int(sys.argv[3])) else 7)
"""
"""Becomes another user, sends to a control socket, and ends with 0 if it is answered."""

as_root = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can become another user; the test by user id needs none"
)


@pytest.fixture
def channel(run_dir: Path, engine_state: EngineState) -> Iterator[Callable[[], Channel]]:
    """Starts an engine's end in the folder; it ends with the test."""
    running: list[Channel] = []

    def start() -> Channel:
        running.append(Channel(run_dir, 0, "engine", lambda: 0.0, Intake(), lambda: engine_state))
        return running[-1]

    yield start
    for one in running:
        one.close()


def answered(run_dir: Path) -> bool:
    """Whether this process gets an answer out of the engine's control socket."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(control_endpoint(run_dir, 0))
        socket.send(b"push")
        return bool(socket.poll(1000)) and not decode_ack(socket.recv()).accepted


def answered_as(user: int, run_dir: Path) -> bool:
    """Whether a process of that user gets one."""
    arguments = [control_endpoint(run_dir, 0), str(user), "1000"]
    done = subprocess.run([sys.executable, "-c", WRITER, *arguments], timeout=30)
    assert done.returncode in (0, 7)
    return done.returncode == 0


def open_up(run_dir: Path) -> None:
    """Undo what file permissions do for the folder and its sockets."""
    run_dir.chmod(0o777)
    for path in run_dir.iterdir():
        path.chmod(0o777)


@as_root
def test_file_permissions_alone_keep_another_user_out(
    run_dir: Path, channel: Callable[[], Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's mode holds also where the socket itself would let the other one in."""
    monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    channel()
    (run_dir / "engine-0.control").chmod(0o777)
    assert not answered_as(STRANGER, run_dir)
    run_dir.chmod(0o777)
    assert answered_as(STRANGER, run_dir)


@as_root
def test_another_user_is_refused_where_permissions_would_allow_it(
    run_dir: Path, channel: Callable[[], Channel]
) -> None:
    """Someone opened the folder: a stranger connects and is turned away, the owner is not."""
    one = channel()
    open_up(run_dir)
    assert not answered_as(STRANGER, run_dir)
    assert one._intake.rejected == 0
    assert answered_as(os.getuid(), run_dir)
    assert answered(run_dir)


def test_the_kernels_word_on_the_user_counts(
    run_dir: Path, channel: Callable[[], Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that thinks it belongs to somebody else refuses us, so the check is made."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: os.geteuid() + 1)
        one = channel()
    assert not answered(run_dir)
    assert one._intake.rejected == 0
    one.close()
    channel()
    assert answered(run_dir)


def test_a_rank_of_a_folder_is_taken_once(run_dir: Path) -> None:
    """Two engines of one rank do not take each other's sockets; a closed one gives its own up."""
    held = reserve(run_dir, 0)
    reserve(run_dir, 1).close()
    with pytest.raises(RunDirError, match="another engine already uses"):
        reserve(run_dir, 0)
    held.close()
    reserve(run_dir, 0).close()
    run_dir.chmod(0o755)
    with pytest.raises(RunDirError, match="open to other users"):
        reserve(run_dir, 0)


def test_an_endpoint_that_cannot_be_had(run_dir: Path) -> None:
    """Where a folder has gone, binding says which endpoint and why."""
    with zmq.Context() as context, context.socket(zmq.PUB) as socket:
        endpoint = endpoints(run_dir / "gone", 0)[0]
        with pytest.raises(AddressError, match=f"cannot listen on {endpoint}: No such file"):
            bind(socket, endpoint, run_dir)
