"""docs/capture.md names what a capture writes and says, and the options it has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer
from wactl.controller import waiting
from wactl.controller.capture import FLUSH, VERSION, Capture, Limits
from wactl.controller.cli.capture import capture
from wactl.policies.features import FEATURES, LENGTH, TURN, WORDS, digest
from wactl.policies.messages import WIRE, Admission, EngineState, Heartbeat, Records

TEXT = (Path(__file__).parent.parent.parent / "docs" / "capture.md").read_text()


def names(heading: str, end: str) -> list[str]:
    """Names in the first column of the tables between two places of the text."""
    part = TEXT.partition(heading)[2].partition(end)[0]
    rows = re.findall(r"^\| (`[^|]+) \|", part, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([\w-]+)[ `]", row)]


def test_every_key_of_the_file_is_told(tmp_path: Path) -> None:
    """Those of a header and of a request that declares everything; no others."""
    features = [1.0 if index in (LENGTH, TURN) else 0.0 for index in range(len(FEATURES))]
    for word in WORDS:
        features[word] = digest("a")
    one = Admission(0.0, tuple(features), 1, 0, 0, False, True, bytes(8), bytes(8), 0)
    numbers = {name: 0 for name in EngineState.__struct_fields__}
    words = {"version": "0", "order": "lru", "reason": "", "cached": ()}
    made = Capture(tmp_path / "a.jsonl", Limits(), 0.0)
    made.take(Heartbeat(WIRE, "e", 0, 0.0, EngineState(**(numbers | words))), 0.0)
    made.take(Records(WIRE, "e", 1, (one,)), 0.0)
    made.take(Records(WIRE, "e", 3, ()), 0.0)
    made.end("seconds")
    head, request, gap, end = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert sorted(names("First what the file is:", "Then the")) == sorted(head)
    assert sorted(names("Then the requests", "Between them")) == sorted(request)
    assert '{"gap": messages, "dropped": records, "t": seconds}' in TEXT
    assert list(gap) == ["gap", "dropped", "t"]
    assert '{"end": why, "requests": number}' in TEXT
    assert list(end) == ["end", "requests"]


def test_every_option_is_told() -> None:
    """With the defaults that are mentioned."""
    app = typer.Typer()
    app.command()(capture)
    command = typer.main.get_command(app)
    options = [
        max(parameter.opts, key=len) if parameter.param_type_name == "option" else "OUT"
        for parameter in command.params
        if "--install-completion" not in parameter.opts
        and "--show-completion" not in parameter.opts
    ]
    assert sorted(names("## The command", "* **Files**")) == sorted(options)
    defaults = {parameter.name: parameter.default for parameter in command.params}
    assert f"{defaults['megabytes']} unless said otherwise" in TEXT


def test_the_numbers_are_those_of_the_code() -> None:
    """Version, what a kill costs, and who waits for how long."""
    assert f"version of this format: {VERSION}" in TEXT
    assert FLUSH == 1.0
    assert "flushed once a second" in TEXT
    assert waiting.SECONDS == 600.0
    assert "within ten minutes of the engine's clock" in TEXT
    assert f"{waiting.REQUESTS:,} requests or {waiting.BYTES >> 20} MiB waiting" in TEXT
