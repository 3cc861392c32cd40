"""docs/stream.md names every field of the wire, in its place, and the bounds that hold."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from wactl.policies import chains, channel, messages, recorder
from wactl.policies.features import FEATURES
from wactl.policies.messages import Admission, EngineState, Finish, Heartbeat, Records
from wactl.policies.sample import TARGET_BLOCKS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "stream.md").read_text()


def numbered(text: str) -> list[str]:
    """Names in the second column of a table whose first counts from 0."""
    found = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    assert [int(place) for place, _ in found] == list(range(len(found)))
    return [name for _, name in found]


def names(text: str) -> set[str]:
    """Names in the first column of all tables."""
    rows = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_place_of_a_record_is_told() -> None:
    """In order, those of a finish and the features likewise."""
    part = TEXT.partition("**`records`**")[2]
    fields, _, rest = part.partition("A finish, ")
    finish, _, features = rest.partition("| place | feature |")
    assert numbered(fields) == list(Admission.__struct_fields__)
    assert numbered(finish) == list(Finish.__struct_fields__)
    assert numbered(features) == list(FEATURES)


def test_every_key_of_the_messages_is_told() -> None:
    """No more and no less."""
    common = TEXT.partition("## Messages")[2].partition("**`records`**")
    heartbeat = common[2].partition("**`heartbeat`**")[2].partition("## Gaps")[0]
    shared = names(common[0])
    assert shared == {"type", "wire", "engine", "sequence"}
    assert shared | {"admissions", "finishes"} == {"type", *Records.__struct_fields__}
    assert names(heartbeat) == {
        *({*Heartbeat.__struct_fields__} - shared),
        *EngineState.__struct_fields__,
    }


def test_types_are_as_sent() -> None:
    """Maps with a type, records as arrays."""
    one = Admission(0.0, (0.0,) * len(FEATURES), 0, 0, 0, False, False, b"", b"", 7)
    end = Finish(1.5, 7, 20)
    sent = msgspec.msgpack.decode(messages.encode(Records(messages.WIRE, "e", 0, (one,), (end,))))
    assert sent["type"] == "records"
    assert len(sent["admissions"][0]) == len(Admission.__struct_fields__)
    assert sent["admissions"][0][9] == 7
    assert sent["finishes"] == [[1.5, 7, 20]]


def test_the_numbers_are_those_of_the_code() -> None:
    """Version, bounds and rates."""
    assert f"version of this format: {messages.WIRE}" in TEXT
    assert f"at most {messages.MAX_MESSAGE >> 20} MiB" in TEXT
    assert f"At most {channel.BATCH}, within about {1000 * channel.TICK:.0f} ms" in TEXT
    waiting = f"{channel.QUEUE:,} or {channel.QUEUE_BYTES >> 20} MiB were waiting"
    assert waiting in TEXT
    assert channel.HEARTBEAT * channel.TICK == 0.5
    assert "about twice a second" in TEXT
    assert f"counts 1/e after {chains.FADING / 60:.0f} minutes" in TEXT
    assert f"its first {recorder.TEMPLATE_TOKENS} tokens or so" in TEXT
    assert f"up to {TARGET_BLOCKS:,} blocks of cache" in TEXT


def test_the_client_is_as_long_as_said() -> None:
    """And short enough to be read."""
    lines = (ROOT / "examples" / "hits.py").read_text().count("\n")
    assert f"a whole client in {lines} lines" in TEXT
    assert lines < 80
