"""What holds for every preset: the same for the same seed, in time, built of chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from wactl.policies.errors import WactlError
from wactl.simulations.generate import adversaries, drift, steady
from wactl.simulations.generate.plan import BLOCK_TOKENS, Plan
from wactl.simulations.generate.presets import PRESETS, find, generate
from wactl.simulations.trace import Trace

NAMES = [name for names in PRESETS.values() for name in names]
LONGEST_TEMPLATE = 8192 // BLOCK_TOKENS
every = pytest.mark.parametrize("name", NAMES)
Make = Callable[..., Trace]


@every
def test_the_same_seed_gives_the_same_trace(name: str, made: Make) -> None:
    """To the last bit; another seed gives another one, but of the scan, which has no chance."""
    one, again, other = made(name), generate(name, Plan()), made(name, seed=8)
    for column in ("times", "offsets", "blocks", "input_tokens", "output_tokens", "turns"):
        assert np.array_equal(getattr(one, column), getattr(again, column))
    assert (one.types, one.sessions) == (again.types, again.sessions)
    assert np.array_equal(one.blocks, other.blocks) == (name == "scan")


@every
def test_requests_are_in_time_and_as_many_as_asked(name: str, made: Make) -> None:
    """Within the hour, about ten thousand; floods and bursts come on top; jobs leave pauses."""
    trace = made(name)
    assert np.all(np.diff(trace.times) >= 0.0)
    assert trace.times[0] == 0.0 and 3400.0 < trace.times[-1] < 3600.0
    extra = {"template": 1.5, "burst": 1.0 + drift.BURST / 20.0}.get(name, 1.0)
    assert trace.requests == pytest.approx(10800 * extra, rel=0.12)


@every
def test_a_turn_extends_the_turn_before(
    name: str, made: Make, follows: Callable[[Trace], Any]
) -> None:
    """A later prompt begins with all of the one before; there is room for its answer, too."""
    trace = made(name)
    pairs = follows(trace)
    assert trace.turns is not None
    steps = trace.turns[pairs.after] - trace.turns[pairs.before]
    # Turns that came while chats were switched off went elsewhere.
    assert np.all(steps == 1) or (name == "switch" and steps.min() == 1)
    for before, after in zip(pairs.before, pairs.after, strict=True):
        old, new = trace.prompt(before), trace.prompt(after)
        assert np.array_equal(new[: len(old)], old)
    if name != "scan":  # which repeats its prompts as they are
        grown = trace.input_tokens[pairs.before] + trace.output_tokens[pairs.before]
        assert np.all(trace.input_tokens[pairs.after] > grown)


@every
def test_sessions_share_nothing_but_templates(name: str, made: Make) -> None:
    """Whatever stands behind a template belongs to one session; full blocks only."""
    trace = made(name)
    assert np.array_equal(np.diff(trace.offsets), trace.input_tokens // BLOCK_TOKENS)
    assert trace.sessions is not None
    owner: dict[int, str] = {}
    for request, session in enumerate(trace.sessions):
        for block in trace.prompt(request)[LONGEST_TEMPLATE:].tolist():
            assert owner.setdefault(block, session) == session
    heads = {
        (int(trace.prompt(request)[0]), session)
        for request, session in enumerate(trace.sessions)
        if len(trace.prompt(request))
    }
    templates = {"batch", "flood", "scan", "lifespan"}
    assert (len({block for block, _ in heads}) == len(heads)) == (name in templates)


def test_the_registry_names_what_the_modules_make() -> None:
    """Each public function of the three modules that takes a plan, no other."""
    modules = {"steady": steady, "drift": drift, "adversaries": adversaries}
    for module, names in PRESETS.items():
        defined = [
            name
            for name, value in vars(modules[module]).items()
            if getattr(value, "__module__", "") == modules[module].__name__
        ]
        assert defined == list(names)
        for name in names:
            assert find(name).__name__ == name


def test_an_unknown_preset_names_those_there_are() -> None:
    """In one sentence."""
    with pytest.raises(WactlError, match=r"no preset 'chats'; there are chat, agents, .*, flood$"):
        find("chats")


@pytest.mark.parametrize(
    ("name", "plan", "words"),
    [
        ("chat", {"seconds": 0.0}, "--seconds must be a number above 0, not 0"),
        ("chat", {"rate": float("nan")}, "--rate must be a number above 0, not nan"),
        ("chat", {"rate": 100.0}, "are more than 1000000 requests; lower --seconds or --rate"),
        ("chat", {"seconds": 0.01}, "chat: no request came; raise --seconds or --rate"),
        ("agents", {"seconds": 6000.0, "rate": 75.0}, "block accesses are more than 20000000"),
        ("scan", {"seconds": 60.0}, "two rounds of a scan of 1000 blocks have 276 requests, more"),
    ],
)
def test_what_cannot_be_made_says_why(name: str, plan: dict[str, float], words: str) -> None:
    """And by which option it can."""
    with pytest.raises(WactlError) as caught:
        generate(name, Plan(**plan))  # type: ignore[arg-type]  # floats only
    assert words in str(caught.value)
