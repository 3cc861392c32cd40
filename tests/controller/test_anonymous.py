"""What a capture shows of a request: the same under new names, and no way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from wactl.controller.anonymous import Anonymous
from wactl.policies.features import FEATURES, LENGTH, SESSION, TENANT, TURN, TYPE, digest
from wactl.policies.messages import Admission

Make = Callable[..., Admission]


@pytest.fixture
def admitted(hashes: Callable[[Sequence[object]], list[bytes]]) -> Make:
    """Makes admissions of these blocks, with words declared."""

    def make(time: float, blocks: Sequence[object], words: Any = (), **changed: Any) -> Admission:
        features = np.zeros(len(FEATURES))
        features[LENGTH], features[TURN] = 16 * len(blocks) + 3, 2
        for feature, word in words:
            features[feature] = digest(word)
        keys = b"".join(digest[:8] for digest in hashes(blocks))
        fields = {"carried": 0, "hits": 0, "blocks": len(blocks), "replay": False, "unread": False}
        places = np.arange(len(blocks), dtype=np.uint64).tobytes()
        return Admission(
            time=time,
            features=tuple(features.tolist()),
            keys=keys,
            positions=places,
            number=0,
            **(fields | changed),
        )

    return make


def test_a_line_holds_what_the_record_does(admitted: Make) -> None:
    """Times from the first request on, exactly; lengths, hits; no word that is not declared."""
    names = Anonymous(0.0)
    names.line(admitted(100.25, []), 0)
    line = names.line(admitted(100.75, "abc", hits=2), 77)
    assert {key: value for key, value in line.items() if key != "b"} == {
        **{"t": 0.5, "in": 51, "out": 77, "n": 3, "h": 2, "turn": 2}
    }
    assert names.line(admitted(101.0, "a", unread=True), 0)["unread"] is True


def test_equal_blocks_stay_equal_and_others_different(admitted: Make) -> None:
    """Ids are whole numbers below 2**53, the same for the same block, a new one for another."""
    names = Anonymous(0.0)
    many = names.line(admitted(0.0, range(5000)), 0)["b"]
    again = names.line(admitted(1.0, range(4990, 5010)), 0)["b"]
    assert isinstance(many, list)
    assert isinstance(again, list)
    assert len(set(many)) == 5000
    assert all(0 <= block < 2**53 for block in many)
    assert again[:10] == many[-10:]
    assert not set(again[10:]) & set(many)


def test_two_captures_cannot_be_joined(admitted: Make) -> None:
    """The same request under two salts has no id and no label in common."""
    words = (TYPE, "chat"), (SESSION, "s1"), (TENANT, "acme")
    one, two = (Anonymous(0.0).line(admitted(0.0, range(100), words), 0) for _ in range(2))
    assert not set(one["b"]) & set(two["b"])  # type: ignore[call-overload]  # lists of numbers
    assert all(one[word] != two[word] for word in ("type", "session", "tenant"))


def test_keys_and_digests_do_not_show(admitted: Make) -> None:
    """Neither the block's key, in part or whole, nor a word's digest is in the line."""
    admission = admitted(0.0, range(200), [(TENANT, "acme")])
    line = Anonymous(0.0).line(admission, 0)
    keys = {int(key) for key in np.frombuffer(admission.keys, "<u8")}
    shown = line["b"]
    assert isinstance(shown, list)
    assert not keys & set(shown)
    assert not {key >> 11 for key in keys} & set(shown)
    assert not {key & (2**53 - 1) for key in keys} & set(shown)
    assert str(int(digest("acme"))) not in str(line)
    assert f"{int(digest('acme')):x}"[:8] not in str(line)


def test_labels_are_short_stable_and_of_their_kind(admitted: Make) -> None:
    """One word has one label, another one in another field."""
    names = Anonymous(0.0)
    first = names.line(admitted(0.0, [], [(TYPE, "a"), (TENANT, "a"), (SESSION, "b")]), 0)
    second = names.line(admitted(1.0, [], [(TYPE, "a"), (SESSION, "c")]), 0)
    assert first["type"] == second["type"]
    assert len({first["type"], first["tenant"], first["session"], second["session"]}) == 4
    assert all(len(str(first[word])) == 12 for word in ("type", "tenant", "session"))
    assert "tenant" not in second


def test_time_goes_on_after_a_restart_and_never_back(admitted: Make) -> None:
    """A later life's clock may stand anywhere; the trace's continues where it was."""
    names = Anonymous(7.5)
    assert [names.line(admitted(time, []), 0)["t"] for time in (900.0, 901.0, 899.0, 902.0)] == [
        *(7.5, 8.5, 8.5, 9.5)
    ]
