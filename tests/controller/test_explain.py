"""A request in an operator's words, and which rule it falls under."""

from __future__ import annotations

import pytest
from wactl.controller.explain import parse_request, rule_for
from wactl.controller.rules import Rule
from wactl.policies.errors import WactlError
from wactl.policies.features import (
    FEATURES,
    GAP,
    GENERATED,
    LENGTH,
    POSITION,
    PREVIOUS_GAP,
    TURN,
    TYPE,
    WORDS,
    digest,
)
from wactl.policies.table import Condition

INF = float("inf")


def test_nothing_known_is_a_first_turn_never_seen() -> None:
    """What is left out has the value that stands for not known."""
    known = {FEATURES[at]: value for at, value in enumerate(parse_request("")) if value}
    assert known == {"turn": 1.0, "gap": -1.0, "previous_gap": -1.0, "generated": -1.0}


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_can_be_named(name: str) -> None:
    """Numbers as they are, words as their digests."""
    at = FEATURES.index(name)
    assert parse_request(f"{name}=3")[at] == (digest("3") if at in WORDS else 3.0)


def test_several_and_how_they_are_written() -> None:
    """Blanks do not matter, the position is a word, and words may hold blanks and equal signs."""
    found = parse_request(" turn = 2 ,gap=1.5,, position=carried, type=night = shift, ")
    assert (found[TURN], found[GAP], found[POSITION]) == (2.0, 1.5, 1.0)
    assert found[TYPE] == digest("night = shift")
    assert parse_request("position=new")[POSITION] == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age=3", "no feature 'age'; there are turn, gap"),
        ("turn", "turn needs a number, not ''"),
        ("turn=soon", "turn needs a number, not 'soon'"),
        ("gap=nan", "gap needs a number, not 'nan'"),
        ("length=inf", "length needs a number, not 'inf'"),
        ("position=old", "position needs a number, not 'old'"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    """In one sentence, with the option it is about."""
    with pytest.raises(WactlError, match=f"^--request: {said}"):
        parse_request(text)


def test_the_first_rule_that_fits() -> None:
    """In their order, and the last one when none does."""
    rules = (
        Rule("done", (Condition(GENERATED, 1.0, INF),)),
        Rule("long", (Condition(LENGTH, 2048.0, INF), Condition(PREVIOUS_GAP, -1.0, -1.0))),
        Rule("longer", (Condition(LENGTH, 1024.0, INF),)),
        Rule("other"),
    )
    for text, name in (
        ("length=4096, generated=5", "done"),
        ("length=4096", "long"),
        ("length=4096, previous_gap=3", "longer"),
        ("length=1000", "other"),
    ):
        assert rule_for(rules, parse_request(text)).name == name
