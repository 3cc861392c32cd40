"""The command as an operator meets it: quick, in sentences, and leaving nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from wactl.controller.daemon import Daemon
from wactl.controller.status import Category, Engine, NoSidecar, Request, Status, ask

WACTL = Path(sys.executable).parent / "wactl"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(run_dir: Path) -> dict[str, str]:
    """This one, but with the folder of the test."""
    return {**os.environ, "WACTL_RUN_DIR": str(run_dir), "COLUMNS": "80", "NO_COLOR": "1"}


@pytest.fixture
def wactl(environment: dict[str, str]) -> Command:
    """Runs the command to its end."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [WACTL, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A settings file for sidecars that serve no metrics."""
    path = tmp_path / "wactl.yaml"
    path.write_text("metrics_port: 0\n")
    return path


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the command; what still runs after the test is ended."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: object) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen([WACTL, *map(str, arguments)], env=environment))
        return running[-1]

    yield begin
    for one in running:
        one.terminate()
        try:
            one.wait(timeout=10)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that failed said: one line after its name, and nothing else."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.startswith("wactl: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removeprefix("wactl: ").strip()


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["mode", "shadow"]])
def test_without_a_sidecar_it_says_how_to_start_one(
    wactl: Command, run_dir: Path, arguments: list[str]
) -> None:
    """Asking when nobody is there fails with one sentence."""
    assert sentence(wactl(*arguments)) == (f"no sidecar uses {run_dir}; start one with `wactl run`")


def test_a_folder_open_to_others_is_refused(wactl: Command, config: Path, run_dir: Path) -> None:
    """The sidecar does not start where other users can write, and says how to close it."""
    run_dir.chmod(0o755)
    said = sentence(wactl("run", "--config", config))
    assert said == f"{run_dir} is open to other users; run: chmod 700 '{run_dir}'"


def test_rules_are_checked(wactl: Command, tmp_path: Path) -> None:
    """The shipped rules pass, and a broken file fails with a line for each of its mistakes."""
    good = wactl("rules", "check")
    assert good.returncode == 0
    assert good.stdout == "other: divided by the model\n1 rule, no mistakes\n"
    broken = tmp_path / "broken.yaml"
    broken.write_text("rules:\n  - category: a\n    when: {age: 3}\n    refine: maybe\n")
    done = wactl("rules", "check", broken)
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"wactl: {broken}:3: `when` has no 'age'; known: carried, gap")
    assert second == f"{broken}:4: refine is true or false"


def test_a_config_that_is_missing_or_wrong(wactl: Command, tmp_path: Path) -> None:
    """The file is named with what is the matter; so is the rule file that it names."""
    missing = tmp_path / "missing.yaml"
    said = sentence(wactl("run", "--config", missing))
    assert said == f"{missing}: cannot be read: No such file or directory"
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("rules: none.yaml\nmetrics_port: 0\n")
    said = sentence(wactl("run", "--config", wrong))
    assert said == f"{tmp_path / 'none.yaml'}:1: cannot be read: No such file or directory"


def test_a_taken_metrics_port(wactl: Command, tmp_path: Path) -> None:
    """The sidecar says which port is taken and which setting changes it."""
    config = tmp_path / "wactl.yaml"
    with zmq.Context(1) as context, context.socket(zmq.STREAM) as taken:
        port = taken.bind_to_random_port("tcp://127.0.0.1")
        config.write_text(f"metrics_port: {port}\n")
        said = sentence(wactl("run", "--config", config))
    assert said.startswith(f"cannot serve metrics on 127.0.0.1:{port}: ")
    assert said.endswith("set metrics_host and metrics_port")


def test_an_engine_that_cannot_be_started(
    wactl: Command, config: Path, tmp_path: Path, run_dir: Path
) -> None:
    """No such command, or one that is no program: a sentence, and no sidecar is left."""
    said = sentence(wactl("run", "--config", config, "--", "/nonexistent"))
    assert said == "cannot start the engine: no command '/nonexistent' is found"
    script = tmp_path / "script"
    script.write_bytes(b"\x00\x01\x02")
    script.chmod(0o755)
    said = sentence(wactl("run", "--config", config, "--", script))
    assert said == f"cannot start the engine: {script}: Exec format error"
    assert not (run_dir / "sidecar").exists()


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("exit 0", 0), ("kill -9 $$", 137)])
def test_the_engines_exit_status_is_passed_on(
    wactl: Command, config: Path, script: str, status: int
) -> None:
    """When the engine ends, the sidecar ends with the same status, as a shell counts it."""
    done = wactl("run", "--config", config, "--", "sh", "-c", script)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_the_engine_is_told_where_to_meet(wactl: Command, config: Path, run_dir: Path) -> None:
    """The child has the plugin switched on, and the sidecar's folder."""
    done = wactl("run", "--config", config, "--", "sh", "-c", "echo $WACTL $WACTL_RUN_DIR")
    assert done.stdout == f"1 {run_dir}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_sidecar_and_engine(
    start: Callable[..., subprocess.Popen[bytes]],
    config: Path,
    tmp_path: Path,
    run_dir: Path,
    eventually: Callable[..., Any],
    number: signal.Signals,
) -> None:
    """Within seconds both are gone, the engine's own children too, and so is the socket."""
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    process = start("run", "--config", config, "--", "sh", "-c", script)
    eventually(pids.exists)
    eventually((run_dir / "sidecar").exists)
    engine, child = map(int, pids.read_text().split())
    assert lives(engine)
    assert lives(child)
    process.send_signal(number)
    assert process.wait(timeout=10) == 128 + signal.SIGTERM
    eventually(lambda: not lives(engine) and not lives(child))
    assert not (run_dir / "sidecar").exists()


def test_a_sidecar_alone_ends_on_a_signal(
    start: Callable[..., subprocess.Popen[bytes]],
    wactl: Command,
    config: Path,
    run_dir: Path,
    eventually: Callable[..., Any],
) -> None:
    """It answers while it runs, refuses a second one, and ends well when asked to."""
    process = start("run", "--config", config)
    eventually((run_dir / "sidecar").exists)
    assert ask(run_dir, Request()).pid == process.pid
    shown = wactl("status")
    assert shown.returncode == 0
    assert "no engine in" in shown.stdout
    assert sentence(wactl("run", "--config", config)).startswith("another sidecar already uses")
    process.terminate()
    assert process.wait(timeout=10) == 0


def test_a_killed_sidecar_frees_the_folder(
    start: Callable[..., subprocess.Popen[bytes]],
    config: Path,
    run_dir: Path,
    eventually: Callable[..., Any],
) -> None:
    """After a kill -9 the next sidecar starts in the same folder and answers."""
    first = start("run", "--config", config)
    eventually((run_dir / "sidecar").exists)
    first.kill()
    first.wait()
    second = start("run", "--config", config)

    def answers() -> bool:
        try:
            return ask(run_dir, Request()).pid == second.pid
        except NoSidecar:  # not yet: the first one's socket is still there
            return False

    eventually(answers)
    second.terminate()
    assert second.wait(timeout=10) == 0


def test_the_status_as_json_and_as_a_table(
    wactl: Command,
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    eventually: Callable[..., Any],
) -> None:
    """JSON has every documented key, and the table fits into eighty columns."""
    one = engine()
    daemon(mode="enforce")
    eventually(lambda: one.intake.in_force(one.clock()), one.traffic)
    status = eventually(
        lambda: (s := json.loads(wactl("status", "--json").stdout))["engines"] and s, one.traffic
    )
    assert set(status) == set(Status.__struct_fields__)
    assert status["mode"] == "enforce"
    (found,) = status["engines"]
    assert set(found) == set(Engine.__struct_fields__)
    assert found["requests"] > 0
    for category in found["categories"]:
        assert set(category) == set(Category.__struct_fields__)
    table = wactl("status")
    assert table.returncode == 0
    assert all(len(line) <= 80 for line in table.stdout.splitlines())
    for word in ("mode enforce", "engine 0", "other", "reused"):
        assert word in table.stdout


def test_the_mode_is_changed_or_refused(
    wactl: Command, run_dir: Path, daemon: Callable[..., Daemon]
) -> None:
    """A mode that exists is taken over, and one that does not is refused with those that do."""
    daemon()
    assert wactl("mode", "observe").stdout == "mode observe\n"
    assert ask(run_dir, Request()).mode == "observe"
    said = sentence(wactl("mode", "nonsense"))
    assert said == "no mode 'nonsense'; there are observe, shadow, enforce"
    assert ask(run_dir, Request()).mode == "observe"


def test_usage_mistakes_end_with_two(wactl: Command) -> None:
    """An unknown command or option is a matter of usage, and no traceback either."""
    for arguments in (["frobnicate"], ["status", "--frobnicate"], ["mode"]):
        done = wactl(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_the_command_starts_without_heavy_imports() -> None:
    """Importing it brings in none of the libraries that only some commands need."""
    heavy = ("numpy", "numba", "scipy", "river", "vllm", "pydantic", "yaml", "zmq", "rich")
    code = f"import sys, wactl.__main__; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_status_needs_no_heavy_imports(
    environment: dict[str, str],
    engine: Callable[..., Any],
    daemon: Callable[..., Daemon],
    run_dir: Path,
    eventually: Callable[..., Any],
) -> None:
    """Run to its end with an engine to show, it brings in nothing that takes long to load."""
    one = engine()
    daemon()
    eventually(lambda: ask(run_dir, Request()).engines, one.traffic)
    heavy = ("numpy", "numba", "scipy", "river", "vllm", "pydantic", "yaml")
    code = (
        "import sys, wactl.__main__ as w; sys.argv = ['wactl', 'status']\n"
        "try: w.main()\n"
        f"finally: print([m for m in {heavy} if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "engine 0" in done.stdout
    assert done.stdout.endswith("\n[]\n")
