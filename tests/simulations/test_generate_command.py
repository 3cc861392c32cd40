"""`wactl generate` as typed: into a file, into a pipe to a replay, and what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WACTL = [sys.executable, "-m", "wactl"]
SHORT = ("--seconds", "120", "--blocks", "100")


def generate(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run([*WACTL, "generate", *arguments], capture_output=True, timeout=120)


def test_a_file_or_standard_output(tmp_path: Path) -> None:
    """The same bytes; what was made is told on standard error."""
    path = tmp_path / "mixed.jsonl"
    written = generate("mixed", *SHORT, "--out", str(path))
    assert (written.returncode, written.stdout) == (0, b"")
    piped = generate("mixed", *SHORT)
    assert piped.returncode == 0 and piped.stdout == path.read_bytes()
    lines = path.read_text().splitlines()
    blocks = sum(len(json.loads(line)["b"]) for line in lines[1:])
    told = f"mixed: {len(lines) - 1} requests, {blocks} block accesses, "
    assert written.stderr.decode().startswith(told) and written.stderr == piped.stderr


def test_every_option_counts() -> None:
    """The first line holds what was asked for; a seed changes what follows."""
    options = ("--seconds", "90", "--rate", "5", "--blocks", "64", "--seed", "3")
    head, *rows = generate("scan", *options).stdout.splitlines()
    about = json.loads(head)
    assert {name: about[name] for name in ("preset", "seconds", "rate", "blocks", "seed")} == {
        **{"preset": "scan", "seconds": 90.0, "rate": 5.0, "blocks": 64, "seed": 3}
    }
    assert len(rows) == 450
    ids = {block for row in rows for block in json.loads(row)["b"]}
    assert 64 < len(ids) < 90


def test_a_pipe_into_a_replay() -> None:
    """Nothing is hit of a flood; the policy needs no learner."""
    made = generate("flood", *SHORT)
    replay = [*WACTL, "replay", "-", "--policy", "lru", "--capacity", "100", "--json"]
    done = subprocess.run(replay, input=made.stdout, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(done.stdout)
    assert cell["requests"] > 300 and cell["hit_ratio"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chats"], "no preset 'chats'; there are chat, agents, api, batch, mixed, switch"),
        (["chat", "--rate", "0"], "--rate must be a number above 0, not 0"),
        (["chat", "--rate", "999"], "lower --seconds or --rate"),
        (["chat", "--out", "/dev/null"], "/dev/null exists already; name another file"),
        (["scan", "--seconds", "1"], "raise --seconds or --rate, or lower --blocks"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: str) -> None:
    """What, where, how to put it right; exit code 1, no traceback, nothing on standard output."""
    done = generate(*arguments)
    assert done.returncode == 1 and done.stdout == b""
    message = done.stderr.decode()
    assert words in message and message.startswith("wactl: ") and message.count("\n") == 1


@pytest.mark.parametrize(
    ("end", "reason"),
    [("| true", "Broken pipe"), ("> /dev/full", "No space left on device")],
)
def test_an_output_that_ends_early_is_one_sentence(end: str, reason: str) -> None:
    """Whoever reads may leave at any time; nor does the interpreter complain at its end."""
    command = f"set -o pipefail; {sys.executable} -m wactl generate mixed {end}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.decode() == f"wactl: standard output: cannot be written: {reason}\n"


def test_help_names_the_presets_without_making_any() -> None:
    """The names cost no numpy, so that other commands start as fast as before."""
    code = (
        "import sys, wactl.simulations.cli.generate as command\n"
        "print(command.NAMES)\n"
        "print([name for name in ('numpy', 'numba', 'zstandard') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    names, heavy = done.stdout.splitlines()
    assert names.startswith("steady: chat, agents") and names.endswith("imitation, flood")
    assert heavy == "[]"
    assert b"adversaries: flip" in generate("--help").stdout
