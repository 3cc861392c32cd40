"""Words have a few places: bounded whatever is sent, and kept by those in use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wactl.controller.words import FADING, HARDLY, PLACES, hear, new_words, place_of
from wactl.policies.features import digest

DIGESTS = st.integers(0, 40).map(float)
HEARD = st.lists(st.tuples(DIGESTS, st.floats(-10.0, 2 * FADING)), max_size=200)


@settings(deadline=None)
@given(HEARD)
def test_whatever_is_sent_the_places_are_few_and_belong_to_one_word_each(
    heard: list[tuple[float, float]],
) -> None:
    """The table stays as large as it was; a word has one place or none, and no word has none."""
    words = new_words(1)
    now = 0.0
    for word, passed in heard:
        now += passed
        before = place_of(words[0], word)
        taken = hear(words[0], word, now)
        after = place_of(words[0], word)
        assert after == (taken or before)
        assert not (taken and before)
        assert (after == 0) if word == 0.0 else (0 <= after <= PLACES)
    assert words.shape == (1, PLACES)
    named = words[0]["digest"][words[0]["digest"] != 0.0]
    assert len(named) == len(set(named.tolist())) == min(PLACES, len(named))


def test_a_flood_does_not_displace_a_word_in_use() -> None:
    """Ten unheard words a second for an hour, and one heard each minute keeps its place."""
    words = new_words(1)
    used = digest("tenant")
    hear(words[0], used, 0.0)
    place = place_of(words[0], used)
    for second in range(3600):
        for number in range(10):
            hear(words[0], digest(f"{second} {number}"), float(second))
        if second % 60 == 0:
            hear(words[0], used, float(second))
        assert place_of(words[0], used) == place


def test_a_word_of_late_finds_no_place_while_all_are_in_use() -> None:
    """The sixteenth word is nobody's until one of the others is hardly heard any more."""
    words = new_words(1)
    for number in range(PLACES):
        assert hear(words[0], digest(str(number)), 0.0) == number + 1
    fades = -FADING * np.log(HARDLY)
    assert hear(words[0], digest("late"), fades - 1.0) == 0
    assert place_of(words[0], digest("late")) == 0
    hear(words[0], digest("3"), fades - 1.0)
    assert hear(words[0], digest("late"), fades + 1.0) == 1
    assert place_of(words[0], digest("0")) == 0
    assert place_of(words[0], digest("3")) == 4


@pytest.mark.parametrize("uses", [1, 2, 10, 100])
def test_a_word_keeps_its_place_the_longer_the_more_it_was_used(uses: int) -> None:
    """So many uses at once hold a place until they have faded to the least that counts."""
    words = new_words(1)
    for number in range(PLACES):
        for _ in range(uses):
            hear(words[0], digest(str(number)), 0.0)
    fades = FADING * np.log(uses / HARDLY)
    assert hear(words[0], digest("late"), fades - 1.0) == 0
    assert hear(words[0], digest("late"), fades + 1.0) == 1


def test_a_clock_that_goes_back_counts_as_standing_still() -> None:
    """A time before the last one fades nothing and breaks nothing."""
    words = new_words(1)
    hear(words[0], 7.0, 100.0)
    hear(words[0], 7.0, 50.0)
    assert words[0]["uses"][0] == 2.0
