"""docs/status.md names every field of the status and the history, and the bounds that hold."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from wactl.controller import history, shown, status
from wactl.controller.curve import BINS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "status.md").read_text()
LARGEST = 200_000
"""Bytes that a picture may have."""


def records(*roots: type[msgspec.Struct]) -> dict[str, set[str]]:
    """The fields of these structs and of all that are inside them, by name."""
    found: dict[str, set[str]] = {}

    def walk(kind: msgspec.inspect.Type) -> None:
        if isinstance(kind, msgspec.inspect.StructType):
            found[kind.cls.__name__] = {field.name for field in kind.fields}
            for field in kind.fields:
                walk(field.type)
        elif isinstance(kind, msgspec.inspect.VarTupleType):
            walk(kind.item_type)
        elif isinstance(kind, msgspec.inspect.UnionType):
            for one in kind.types:
                walk(one)

    for root in roots:
        walk(msgspec.inspect.type_info(root))
    return found


def told() -> dict[str, list[str]]:
    """Names in the first column of the table below each heading of the third level."""
    parts = re.split(r"^#{2,3} ", TEXT, flags=re.MULTILINE)
    tables = {part.partition("\n")[0]: part for part in parts if "| field | is |" in part}
    return {
        name: re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", part, re.MULTILINE)))
        for name, part in tables.items()
    }


def test_every_field_is_told_once() -> None:
    """No more and no less, of every record that can be in the documents."""
    pages = told()
    assert {name: set(fields) for name, fields in pages.items()} == records(
        status.Status, history.Past
    )
    for fields in pages.values():
        assert len(fields) == len(set(fields))


@pytest.mark.parametrize(
    "said",
    [
        f"newest first, at most {history.CHANGES} ",
        f"a *sample* each {history.EVERY:g} s, the last {history.SAMPLES} ",
        f"of the {history.FOLLOWED} categories with most evidence",
        f"in {BINS} equal steps of log age",
    ],
)
def test_the_bounds_are_those_of_the_code(said: str) -> None:
    """As are the steps of age and the spans of idle time."""
    assert said in TEXT
    spans = "1 s, 5 s, 15 s, 1 min, 3 min, 10 min, 30 min, 2 h"
    scale = {"s": 1.0, "min": 60.0, "h": 3600.0}
    seconds = [float(n) * scale[unit] for n, unit in (one.split() for one in spans.split(", "))]
    assert tuple(seconds) == status.IDLE_AGES
    assert spans in TEXT
    assert shown.PARTS == 8
    assert "the eight parts with most evidence" in TEXT


def test_the_example_fits_into_a_terminal() -> None:
    """Its lines, indented by four, have at most eighty columns."""
    lines = [line[4:] for line in TEXT.splitlines() if line.startswith("    ")]
    assert len(lines) > 15
    assert [line for line in lines if len(line) > 80] == []


def test_the_picture_is_there_and_small() -> None:
    """A PNG, linked."""
    picture = (ROOT / "docs" / "status-page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < LARGEST
    assert "](status-page.png)" in TEXT
