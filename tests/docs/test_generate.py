"""docs/generate.md names every preset and option, and its figures are those that come out."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from wactl.simulations.baselines import belady, lru
from wactl.simulations.cli.generate import generate as command
from wactl.simulations.generate.plan import BLOCK_TOKENS, MAX_ACCESSES, MAX_REQUESTS, WARM, Plan
from wactl.simulations.generate.presets import PRESETS, generate

TEXT = (Path(__file__).parent.parent.parent / "docs" / "generate.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| .* \| (\d\.\d{4} \| \d\.\d{4}) \|$", TEXT, re.MULTILINE))


def test_every_preset_is_told() -> None:
    """In the order of the code."""
    assert list(ROWS) == [name for names in PRESETS.values() for name in names]


@pytest.mark.parametrize("name", ROWS)
def test_the_figures_come_out(name: str) -> None:
    """Hit ratios at 1,000 blocks, and what the example says of its trace."""
    trace = generate(name, Plan())
    ratios = [
        policy.run(trace, 1000).prefix_hits(trace.offsets) / trace.accesses
        for policy in (lru, belady)
    ]
    assert ROWS[name] == " | ".join(f"{ratio:.4f}" for ratio in ratios)
    if name == "flip":
        told = f"{trace.requests} requests, {trace.accesses} block accesses, {trace.distinct} dist"
        assert f"\n    flip: {told}" in TEXT
        for policy, ratio in zip(("lru", "belady"), ratios, strict=True):
            assert re.search(rf"│ {policy} +│ {ratio:.4f} │", TEXT)


def test_every_option_is_told_with_its_default() -> None:
    """As the command has them, which are those of a plan."""
    options = re.findall(r"^\| `(?:--)?(\w+)[ `].*\|$", TEXT.partition("## The")[0], re.MULTILINE)
    parameters = inspect.signature(command).parameters
    assert [name.lower() for name in options] == list(parameters)
    plan = Plan()
    for name in ("seconds", "rate", "blocks", "seed"):
        assert parameters[name].default == getattr(plan, name)
        (row,) = re.findall(rf"^\| `--{name} .*$", TEXT, re.MULTILINE)
        assert re.search(rf"\b{getattr(plan, name):g}\b", row)


def test_the_bounds_are_those_of_the_code() -> None:
    """Block, requests, time before the beginning, accesses."""
    assert f"Blocks have {BLOCK_TOKENS} tokens" in TEXT
    assert (MAX_REQUESTS, WARM, MAX_ACCESSES) == (10**6, 2 * 3600.0, 20 * 10**6)
    assert "at most a million requests, two\nhours before" in TEXT
    assert "20 million block accesses" in TEXT
