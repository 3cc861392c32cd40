"""Numbers for people: short, with their unit, and never a wrong one."""

from __future__ import annotations

import doctest

import pytest
from wactl.controller import units


def test_the_examples_hold() -> None:
    """Those in the docstrings."""
    assert doctest.testmod(units) == (0, 5)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0.0 s"), (119.9, "119.9 s"), (120.0, "2 min"), (7200.0, "2 h")]
)
def test_times_change_their_unit_where_it_is_easier_to_read(seconds: float, text: str) -> None:
    """Seconds, minutes, hours."""
    assert units.seconds(seconds) == text


def test_a_sparkline_has_its_length_whatever_it_shows() -> None:
    """One bar as high as all others may be; nothing before there is anything."""
    assert units.spark(()) == units.spark((0.0,) * 16) == ""
    assert units.spark((0.0,) * 15 + (1e-9,)) == "▁▁▁▁▁▁▁▇"
    assert units.spark((5.0,) * 16) == "▇" * units.SPARK
