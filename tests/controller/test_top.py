"""The busiest names: few, complete, and never falling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.controller.top import OTHER, Top

NAMES = ("a", "b", "c", "d", "e", OTHER)
GROWTH = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    max_size=12,
)


@given(GROWTH, st.integers(1, 4))
def test_nothing_is_lost_and_nothing_falls(growth: list[dict[str, tuple[int, int]]], size: int):
    """Credits add up to the totals as long as nobody leaves, whoever is busiest when."""
    top, totals = Top(size), dict.fromkeys(NAMES, (0, 0))
    credited: dict[str, tuple[int, ...]] = {}
    for step in growth:
        for name, (one, two) in step.items():
            totals[name] = (totals[name][0] + one, totals[name][1] + two)
        shown = top.update(dict(totals))
        assert len(shown) <= size + 1
        busiest = sorted((n for n in NAMES if n != OTHER), key=lambda n: -totals[n][0])[:size]
        assert set(shown) == {*busiest, OTHER}
        for name, counts in shown.items():
            before = credited.get(name, (0, 0))
            assert all(new >= old for new, old in zip(counts, before, strict=True))
        credited |= shown
        for number in (0, 1):
            assert sum(c[number] for c in credited.values()) == sum(
                c[number] for c in totals.values()
            )


def test_with_room_for_all_each_has_its_own() -> None:
    """Nobody is among the others who need not be."""
    top = Top(3)
    assert top.update({"a": (1, 0), "b": (2, 1), OTHER: (0, 0)}) == {
        "a": (1, 0),
        "b": (2, 1),
        OTHER: (0, 0),
    }
    assert top.update({"a": (5, 2), "b": (2, 1), OTHER: (1, 0)})["a"] == (5, 2)


def test_who_joins_the_busiest_brings_nothing_along() -> None:
    """What was counted with the others stays there."""
    top = Top(1)
    assert top.update({"a": (5,), "b": (4,)}) == {"a": (5,), OTHER: (4,)}
    assert top.update({"a": (5,), "b": (6,)}) == {"b": (2,), OTHER: (4,)}
    assert top.update({"a": (8,), "b": (7,)}) == {"a": (8,), OTHER: (5,)}


@pytest.mark.parametrize("after", [(3, 1), (12, 1)])
def test_a_restart_goes_on_from_where_it_was(after: tuple[int, int]) -> None:
    """Any count that is lower than before means that all began anew."""
    top = Top(2)
    top.update({"a": (10, 4)})
    assert top.update({"a": after}) == {"a": (10 + after[0], 4 + after[1])}
