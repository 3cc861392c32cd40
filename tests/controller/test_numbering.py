"""Category numbers: kept by their regions, and given to others only when nobody has them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.controller.numbering import NUMBERS, Numbering
from wactl.policies.blocks import FIRST_CATEGORY

REGIONS = st.sets(st.integers(0, 12).map(lambda number: (number, -1)), max_size=10)
TAKE = st.tuples(st.just("take"), REGIONS)
DRAIN = st.tuples(st.just("drain"), st.sets(st.integers(0, 20)), st.integers(0, 3))


@settings(max_examples=300, deadline=None)
@given(st.lists(TAKE | DRAIN, max_size=30))
def test_any_sequence_agrees_with_a_plain_model(steps: list[tuple]) -> None:
    """A region keeps its number until the engine, knowing of its end, has no block of it left."""
    numbering = Numbering()
    held: dict[tuple[int, ...], tuple[int, int | None]] = {}  # region -> number, end
    changes, highest = 0, 0
    for step in steps:
        if step[0] == "take":
            assert numbering.take(step[1])
            found = numbering.numbers()
            assert set(found) == step[1]
            ending = [r for r, (_, end) in held.items() if end is None and r not in step[1]]
            changes += bool(ending)
            for region in ending:
                held[region] = held[region][0], changes
            for region, number in found.items():
                if region in held:
                    assert held[region][0] == number
                else:
                    assert number not in {n for n, _ in held.values()}
                held[region] = number, None
            highest = max(highest, 1 + max(found.values(), default=-1))
        else:
            _, occupied, behind = step
            cached = [0] * FIRST_CATEGORY + [int(n in occupied) for n in range(15)]
            numbering.drained(cached, changes - behind)
            for region, (number, end) in list(held.items()):
                empty = number >= 15 or number not in occupied
                if end is not None and end <= changes - behind and empty:
                    del held[region]
        ended = {number: region for region, (number, end) in held.items() if end is not None}
        assert numbering.retired == ended
        assert (numbering.changes, numbering.count) == (changes, highest)


def many(first: int, count: int) -> list[tuple[int, ...]]:
    return [(number,) for number in range(first, first + count)]


def test_with_too_few_numbers_free_nothing_changes() -> None:
    """What is refused leaves everything as it was; once drained there is room again."""
    numbering = Numbering()
    assert numbering.take(many(0, 300))
    assert numbering.take(many(1000, NUMBERS - 300))
    before = numbering.numbers(), dict(numbering.retired), numbering.changes, numbering.count
    assert not numbering.take([*many(1000, 1), *many(2000, 1)])
    after = numbering.numbers(), dict(numbering.retired), numbering.changes, numbering.count
    assert before == after
    assert numbering.count == NUMBERS
    numbering.drained((), 1)
    assert numbering.take([*many(1000, 1), *many(2000, 300)])
    assert max(numbering.numbers().values()) < NUMBERS


def test_a_region_that_comes_back_needs_no_other_number() -> None:
    """Two divisions that alternate while nothing drains never run out of numbers."""
    numbering = Numbering()
    one, two = many(0, 250), many(1000, 250)
    assert numbering.take(one)
    first = numbering.numbers()
    for _ in range(10):
        assert numbering.take(two)
        assert numbering.take(one)
        assert numbering.numbers() == first
    assert len(numbering.retired) == 250
