"""The status in a terminal: within 80 columns, what runs and why, and what is wrong in red."""

from __future__ import annotations

import io
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console
from wactl.controller.shown import CHANGES, NAME, PARTS, render
from wactl.controller.status import Category, Change, Contestant, Engine, Gate, Status

RED = "\x1b[31m"


def category(name: str, rule: bool = False, evidence: float = 50_000.0) -> Category:
    reuse = tuple(float(number) for number in range(16))
    return Category(
        *(name, rule, 123_456, 9_999_999, 99, 0.123, 0.9876, 119.9, 100_000.0, evidence, 0.25),
        *(1.0, reuse, reuse),
    )


GATE = Gate(
    phase="steady",
    running="exponential",
    since_seconds=240.0,
    reason="exponential is 12.3 points ahead of life-table",
    falls=0,
    saved_tokens=1_240_000,
    contestants=(
        Contestant("lru", 0.5123, 0.0, 0.0, 1.0),
        Contestant("life-table", 0.5801, 0.0678, 0.012, 1.0),
        Contestant("exponential", 0.6234, 0.1111, 0.012, 1.0),
        Contestant("engine", 0.6321, 0.1198, 0.013, 1.0),
    ),
)
ENGINE = Engine(
    rank=0,
    pid=4_194_303,
    time=1e6,
    vllm="0.32.0",
    alive=True,
    silent_seconds=0.1,
    order="scored",
    reason="version 58 in force",
    version=58,
    version_age_seconds=4.0,
    blocks=100_000,
    block_tokens=256,
    cached_blocks=99_999,
    sample=1,
    requests=12_345_678,
    prompt_blocks=1,
    hit_blocks=1,
    hit_ratio=0.5,
    evicted=1,
    pushed=58,
    accepted=58,
    rejected=0,
    refusal="",
    lost_messages=0,
    dropped_records=0,
    errors=0,
    exempt_groups=0,
    gate=GATE,
    changes=tuple(Change(3600.0 * n, "gate", f"steady: reason {n}") for n in range(30)),
    categories=(category("opening", rule=True), category("opening, turn 2-3, gap <2")),
)


def shown(mode: str = "enforce", color: bool = False, **engine: Any) -> str:
    """What the command prints of one engine."""
    status = Status("0.1.0", mode, 4_194_303, "rules.yaml", "", "/tmp/x", (ENGINE,))
    return text_of(replace(status, engines=(replace(ENGINE, **engine),)), color)


def text_of(status: Status, color: bool) -> str:
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=color).print(render(status))
    return out.getvalue()


def test_in_enforce_it_says_what_runs_what_it_brings_and_why() -> None:
    """In one line each, none of which is broken."""
    lines = shown().splitlines()
    assert lines[:8] == [
        "wactl 0.1.0  mode enforce  pid 4194303",
        "engine 0  vLLM 0.32.0  pid 4194303",
        "  scored: version 58 in force, 4 s old",
        "  runs exponential: +11.1 ± 1.2 points, 1.2 M prefill tokens saved, in shadow",
        "  steady for 4 min: exponential is 12.3 points ahead of life-table",
        "  hit ratio 63.2 % now, +12.0 ± 1.3 points against LRU's shadow",
        "  shadows: lru 51.2 %, life-table 58.0 %, exponential 62.3 %",
        "  12345678 requests, 99999 of 100000 blocks cached, 256 tokens each",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_in_shadow_it_says_what_enforce_would_run() -> None:
    """And that nothing is learned in mode observe."""
    line = "  enforce would run exponential: +11.1 ± 1.2 points, 1.2 M prefill tokens saved,"
    assert line in shown("shadow").splitlines()
    assert "  nothing is learned in this mode" in shown("observe")
    assert "exponential:" not in shown("observe")
    assert "  runs lru\n" in shown(gate=replace(GATE, running="lru"))


def test_before_any_request_there_is_no_number() -> None:
    """None is shown as a dash, and nothing divides by it."""
    nobody = tuple(replace(one, hit_ratio=None) for one in GATE.contestants)
    text = shown(gate=replace(GATE, contestants=nobody), categories=())
    assert "  hit ratio – (no requests yet)" in text


def test_a_category_in_a_line() -> None:
    """Name, curve, law, evidence with its error, share of the cache."""
    (line,) = (line for line in shown().splitlines() if "turn 2-3" in line)
    assert line.split() == [
        *("turn", "2-3,", "gap", "<2", "▁▂▂▃▃▅▅▇", "98.8", "%", "119.9", "s", "28", "h"),
        *("50.0", "k", "±25", "%", "100.0", "%"),
    ]


def test_of_many_categories_the_rules_and_the_best_known_parts_are_shown() -> None:
    """It says how many are left out; long names are cut where that can be seen."""
    rules = [category(f"rule {number}", rule=True, evidence=0.0) for number in range(30)]
    parts = [category(f"rule 0, part {n} {'x' * 60}", evidence=float(n)) for n in range(34)]
    text = shown(categories=(*rules, *parts))
    assert all(f"rule {number} " in text for number in range(30))
    assert [n for n in range(34) if f"  part {n} " in text] == list(range(34 - PARTS, 34))
    assert f"  {34 - PARTS} more in --json" in text
    assert f"  part 33 {'x' * (NAME - 11)}… " in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_last_changes_are_shown() -> None:
    """With how long ago they were."""
    changes = [line for line in shown().splitlines() if "steady: reason" in line]
    assert len(changes) == CHANGES
    assert changes[2] == "     2 h ago  gate: steady: reason 2"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"alive": False, "silent_seconds": 9.0}, "silent for 9 s"),
        ({"dropped_records": 7, "errors": 1}, "records dropped 7, errors 1"),
        ({"lost_messages": 3}, "messages lost 3"),
        ({"refusal": "version 2 is not new"}, "last refusal: version 2 is not new"),
    ],
)
def test_what_is_wrong_is_red(fields: dict[str, Any], text: str) -> None:
    """And is not there when nothing is."""
    assert f"{RED}  {text}" in shown(color=True, **fields)
    assert RED not in shown(color=True)
    assert text not in shown()


def test_rules_that_are_not_in_use_are_red() -> None:
    """The mistake is told; so is why nothing outlives the sidecar."""
    status = Status(
        *("0.1.0", "shadow", 1, "rules.yaml", "rules.yaml:3: no", "/tmp/x", ()),
        state_problem="/x: disk full",
    )
    text = text_of(status, color=True)
    assert f"{RED}the rules as last edited are not in use: rules.yaml:3: no" in text
    assert f"{RED}nothing is kept of what is learned: /x: disk full" in text
