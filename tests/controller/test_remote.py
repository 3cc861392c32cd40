"""Engine and sidecar as two processes' worth of sockets with a network between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from wactl.controller.status import NoSidecar, Request, ask
from wactl.policies.keys import ENGINE, KEYS, SIDECAR, load_keys, write_keys
from wactl.policies.network import Network, network

WACTL = Path(sys.executable).parent / "wactl"


@pytest.fixture
def place(keys: Path, two_ports: Callable[[], int]) -> Network:
    """An address for an engine, two free ports."""
    return network(f"tcp://127.0.0.1:{two_ports()}", load_keys(ENGINE, SIDECAR))


@contextmanager
def sidecar(tmp_path: Path, run_dir: Path, keys: Path, url: object) -> Iterator[Path]:
    """`wactl run` for the engine at an address; its log."""
    settings, log = tmp_path / "wactl.yaml", tmp_path / "sidecar.log"
    settings.write_text(f"mode: enforce\nmetrics_port: 0\nrefit_seconds: 3\nengines: ['{url}']\n")
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), KEYS: str(keys)}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [WACTL, "run", "--config", settings], env=environment, stderr=file
        )
    try:
        yield log
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0


def secrets_of(folder: Path) -> list[str]:
    """What nobody may ever print."""
    return [path.read_text().strip() for path in folder.glob("*.secret")]


def test_parameters_are_in_force_over_the_network(
    tmp_path: Path,
    run_dir: Path,
    keys: Path,
    place: Network,
    engine: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """A real sidecar learns from an engine at an address and orders it about; no secret shows."""
    one = engine(place=place)
    with sidecar(tmp_path, run_dir, keys, place) as log:
        eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
        status = ask(run_dir, Request())
        assert [found.alive for found in status.engines] == [True]
        assert status.silent == ()
        environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), "COLUMNS": "80"}
        shown = subprocess.check_output([WACTL, "status"], env=environment, text=True)
    assert one.intake.rejected == 0
    told = log.read_text() + shown + str(status)
    assert f"listening to {place}" in told
    assert len(secrets_of(keys)) == 2
    assert not [secret for secret in secrets_of(keys) if secret in told]


def test_a_sidecar_with_other_keys_learns_nothing_and_says_so(
    tmp_path: Path,
    run_dir: Path,
    place: Network,
    engine: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """It is not heard by the engine, hears nothing of it, and its status asks about the keys."""
    one = engine(place=place)
    write_keys(tmp_path / "others")
    with sidecar(tmp_path, run_dir, tmp_path / "others", place):

        def silent() -> tuple[str, ...]:
            try:
                return ask(run_dir, Request()).silent
            except NoSidecar:  # it has only just been started
                return ()

        assert eventually(silent) == (place.records,)
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            one.traffic()
            time.sleep(0.05)
        assert silent() == (place.records,)
        environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), "COLUMNS": "80"}
        shown = subprocess.check_output([WACTL, "status"], env=environment, text=True)
    assert f"nothing heard from {place}" in shown and "are its keys the pair of ours?" in shown
    assert (one.intake.accepted, one.intake.rejected) == (0, 0)


@pytest.mark.parametrize(
    ("engines", "named", "said"),
    [
        ("[tcp://127.0.0.1:5700]", False, "a network address needs keys: make them with"),
        ("[127.0.0.1:5700]", True, "'127.0.0.1:5700' is no address; write it like tcp://"),
        ("tcp://127.0.0.1:5700", True, "engines: Input should be a valid tuple"),
    ],
)
def test_a_sidecar_without_keys_or_address_does_not_start(
    tmp_path: Path, run_dir: Path, keys: Path, engines: str, named: bool, said: str
) -> None:
    """No keys, no address or no list: one sentence, and no socket is left."""
    settings = tmp_path / "wactl.yaml"
    settings.write_text(f"metrics_port: 0\nengines: {engines}\n")
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir)}
    if not named:
        del environment[KEYS]
    done = subprocess.run(
        [WACTL, "run", "--config", settings], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("wactl: ") and done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not (run_dir / "sidecar").exists()


def test_an_engine_that_would_listen_elsewhere_is_not_started(
    tmp_path: Path, run_dir: Path, keys: Path
) -> None:
    """The command is not run; the sentence says both ways out."""
    url, mark = "tcp://127.0.0.1:5700", tmp_path / "started"
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir), "WACTL_LISTEN": url}
    done = subprocess.run(
        [WACTL, "run", "--", "touch", mark], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"unset it, or put `engines: [{url}]` into the settings" in done.stderr
    assert not mark.exists()


def test_a_capture_over_the_network(
    tmp_path: Path,
    run_dir: Path,
    keys: Path,
    place: Network,
    engine: Callable[..., Any],
    eventually: Callable[..., Any],
) -> None:
    """With the sidecar's keys everything is captured; without any, nothing but a sentence."""
    one = engine(place=place)
    environment = {**os.environ, "WACTL_RUN_DIR": str(run_dir)}
    command = [WACTL, "capture", tmp_path / "c.jsonl", "--engine", str(place), "--json"]
    bare = subprocess.run(
        command, env={**environment, KEYS: ""}, capture_output=True, text=True, timeout=30
    )
    assert (bare.returncode, bare.stdout) == (1, "")
    assert bare.stderr.startswith("wactl: a network address needs keys")
    process = subprocess.Popen(
        command, env={**environment, KEYS: str(keys)}, stdout=subprocess.PIPE, text=True
    )
    eventually((tmp_path / "c.jsonl").exists)
    for _ in range(100):
        one.traffic()
    eventually(lambda: (tmp_path / "c.jsonl").read_bytes().count(b'"b":') == 200)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    summary = json.loads(out)
    assert (process.returncode, summary["requests"], summary["lost_messages"]) == (0, 200, 0)


def test_the_command_makes_keys_once(tmp_path: Path) -> None:
    """It says which files go where, shows no key, and does not run twice."""
    folder = tmp_path / "made"
    done = subprocess.run([WACTL, "keys", folder], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith(f"for the engine:  {folder}/engine.secret and sidecar.public\n")
    keys = [path.read_text().strip() for path in folder.iterdir()]
    assert len(keys) == 4
    assert not [key for key in keys if key in done.stdout]
    again = subprocess.run([WACTL, "keys", folder], capture_output=True, text=True)
    assert again.returncode == 1
    assert again.stderr.startswith(f"wactl: {folder}/") and "exists already" in again.stderr


def test_a_folder_open_to_others_is_not_asked(run_dir: Path) -> None:
    """In a folder open to others somebody might answer in the sidecar's name."""
    (run_dir / "sidecar").touch()
    run_dir.chmod(0o777)
    done = subprocess.run(
        [WACTL, "status"],
        env={**os.environ, "WACTL_RUN_DIR": str(run_dir)},
        capture_output=True,
        text=True,
    )
    (run_dir / "sidecar").unlink()
    assert done.returncode == 1
    assert done.stderr == f"wactl: {run_dir} is open to other users; run: chmod 700 '{run_dir}'\n"


def test_the_doctor_looks_at_the_keys(keys: Path) -> None:
    """In the environment of an engine that is to listen, keys in order pass and open ones fail."""
    environment = {**os.environ, "WACTL_LISTEN": "tcp://127.0.0.1:5700"}
    found = []
    for mode in (0o600, 0o640):
        (keys / "engine.secret").chmod(mode)
        done = subprocess.run(
            [WACTL, "doctor", "--json"], env=environment, capture_output=True, text=True
        )
        found.append((done.returncode, json.loads(done.stdout)[-1]))
        assert not [secret for secret in secrets_of(keys) if secret in done.stdout + done.stderr]
    (good, row), (bad, other) = found
    assert (good, row["ok"], row["check"]) == (0, True, "WACTL_LISTEN")
    assert row["found"] == "tcp://127.0.0.1:5700, keys in order"
    assert (bad, other["ok"]) == (1, False)
    assert "engine.secret is open to other users; run: chmod 600" in other["found"]
