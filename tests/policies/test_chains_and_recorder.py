"""What the recorder infers of a request from the hashes of its blocks alone."""

from __future__ import annotations

import hashlib
import itertools
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wactl.policies.blocks import DEFAULT
from wactl.policies.features import (
    CARRIED,
    FEATURES,
    GAP,
    GENERATED,
    POPULARITY,
    POSITION,
    PREVIOUS_GAP,
    SESSION,
    TEMPLATE,
    TURN,
    blank_features,
    digest,
)
from wactl.policies.messages import Admission, Finish
from wactl.policies.parameters import ParameterSet
from wactl.policies.recent import Keys
from wactl.policies.recorder import Recorder
from wactl.policies.sample import keys_of
from wactl.policies.table import EMPTY, DecisionTable, compile_table

Make = Callable[..., ParameterSet]
Naive = Callable[[DecisionTable, Sequence[float]], int]


def chain(*words: str) -> Keys:
    """Keys of a prompt of these blocks: each depends on all before it."""
    hashes, last = [], b""
    for word in words:
        last = hashlib.sha256(last + word.encode()).digest()
        hashes.append(last)
    return keys_of(hashes)


def prompt(name: str, blocks: int, system: int = 0) -> Keys:
    """A prompt of so many blocks, the first ``system`` of which everybody shares."""
    shared = [f"system {i}" for i in range(system)]
    return chain(*shared, *(f"{name} {i}" for i in range(system, blocks)))


class Client:
    """Sends requests one after another and ends each at once."""

    def __init__(self, blocks: int = 1000, salt: int = 0) -> None:
        self.recorder = Recorder(blocks, salt=salt)
        self.count = 0

    def ask(self, hashes: Keys, now: float, *, hits: int = 0, session: str = "") -> Admission:
        """Admit a request and end it; its record."""
        self.count += 1
        features = blank_features(16 * len(hashes))
        features[SESSION] = digest(session)
        admission = self.recorder.admit(str(self.count), hashes, hits, features, now)
        assert self.recorder.finish(str(self.count), 5, now) is not None
        return admission

    def inferred(self, hashes: Keys, now: float, session: str = "") -> list[float]:
        """Turn, gap and previous gap of a request."""
        features = self.ask(hashes, now, session=session).features
        return [features[TURN], features[GAP], features[PREVIOUS_GAP]]


def test_a_continued_conversation_counts_turns() -> None:
    """A prompt that goes on where the last one ended is its next turn, with the gaps between."""
    client = Client()
    assert client.inferred(prompt("a", 10), 0.0) == [1, -1, -1]
    assert client.inferred(prompt("a", 14), 5.0) == [2, 5, -1]
    assert client.inferred(prompt("a", 20), 35.0) == [3, 30, 5]
    assert client.inferred(prompt("a", 21), 36.5) == [4, 1.5, 30]
    # The very same prompt again goes on too, by nothing.
    assert client.inferred(prompt("a", 21), 40.5) == [5, 4, 1.5]
    assert client.inferred(prompt("b", 21), 40.5) == [1, -1, -1]


def test_an_edited_end_still_goes_on() -> None:
    """The template may rewrite the last two blocks of the former prompt, not more."""
    former = [f"a {i}" for i in range(10)]
    for kept, turn in ((8, 2), (7, 1)):
        client = Client()
        client.ask(chain(*former), 0.0)
        edited = chain(*former[:kept], *(f"new {i}" for i in range(8)))
        assert client.inferred(edited, 3.0) == [turn, 3, -1]


def test_a_shared_system_prompt_is_no_turn() -> None:
    """Who shares only the beginning of a longer prompt starts a conversation of its own."""
    client = Client()
    assert client.inferred(prompt("a", 12, system=6), 0.0) == [1, -1, -1]
    assert client.inferred(prompt("b", 12, system=6), 4.0) == [1, 4, -1]
    # The gap is that of what is shared; the next turn of each has its own.
    assert client.inferred(prompt("a", 14, system=6), 10.0) == [2, 10, -1]
    assert client.inferred(prompt("b", 14, system=6), 11.0) == [2, 7, 4]


def test_gaps_do_not_depend_on_the_cache() -> None:
    """With no hit at all, as after an eviction, turn and gaps are those of full hits."""
    told = []
    for hits in (0, 1):
        client = Client()
        asked = [client.ask(prompt("a", n), 50.0 * n, hits=hits * (n - 1)) for n in (4, 6, 8)]
        told.append([a.features[:CARRIED] for a in asked])
        assert [a.hits for a in asked] == [hits * (n - 1) for n in (4, 6, 8)]
        # What was seen before is carried over, found in the cache or not.
        assert [a.carried for a in asked] == [hits * 3, 4 + hits, 6 + hits]
    assert told[0] == told[1]


def test_a_named_session_tells_the_turn() -> None:
    """A client's session counts turns and gaps, whatever its prompts have in common."""
    client = Client()
    assert client.inferred(prompt("a", 8), 0.0, "s") == [1, -1, -1]
    assert client.inferred(prompt("b", 8), 9.0, "s") == [2, 9, -1]
    assert client.inferred(prompt("a", 9), 20.0, "s") == [3, 11, 9]
    # A new session is a first turn, even where its prompt goes on with a known one.
    assert client.inferred(prompt("a", 10), 25.0, "t")[0] == 1
    assert client.inferred(prompt("c", 8), 26.0)[0] == 1


def test_turns_are_counted_from_a_sample_too() -> None:
    """A large cache follows one block in 64, and long conversations are still recognised."""
    client = Client(blocks=250_000)
    assert client.recorder.shift == 6
    for name in "abc":
        turns = [client.inferred(prompt(name, 1000 * n), 30.0 * n)[0] for n in (1, 2, 3, 4)]
        assert turns == [1, 2, 3, 4]
    record = client.ask(prompt("d", 2000), 1e3)
    keys = np.frombuffer(record.keys, np.uint64)
    assert 5 < len(keys) < 100 and (keys % 64 == 0).all()
    assert (np.diff(np.frombuffer(record.positions, np.int64)) > 0).all()


def test_the_share_that_is_carried_over() -> None:
    """Of the prompt's blocks, seen before or found in the cache; of no blocks it is none."""
    client = Client()
    shares = [
        client.ask(prompt("a", 10), 0.0).features[CARRIED],
        client.ask(prompt("a", 16), 1.0).features[CARRIED],
        client.ask(prompt("a", 16), 2.0).features[CARRIED],
        client.ask(prompt("b", 8, system=2), 3.0, hits=4).features[CARRIED],
        client.ask(prompt("", 0), 4.0).features[CARRIED],
    ]
    assert shares == [0.0, 10 / 16, 1.0, 0.5, 0.0]


def test_popularity_counts_who_began_alike_lately() -> None:
    """Each use of a template counts, 1/e of it after ten minutes; another one is of no account."""
    client = Client()

    def asked(name: str, now: float, system: int = 4) -> float:
        return client.ask(prompt(name, 9, system), now).features[POPULARITY]

    assert asked("a", 0.0) == 1.0
    assert asked("b", 0.0) == 2.0
    assert asked("c", 600.0) == pytest.approx(1.0 + 2.0 / np.e)
    assert asked("alone", 600.0, system=3) == 1.0
    assert asked("d", 600.0) == pytest.approx(2.0 + 2.0 / np.e)
    # A clock that steps back adds none.
    assert asked("e", 0.0) == pytest.approx(3.0 + 2.0 / np.e)
    assert asked("f", 1e9) == 1.0


def test_a_template_is_named_with_the_engines_secret() -> None:
    """Prompts that begin alike share it, it is no key of a block, and another salt renames it."""
    first, second = Client(salt=12345), Client(salt=54321)
    shared = prompt("a", 9, system=4)
    name = first.ask(shared, 0.0).features[TEMPLATE]
    assert first.ask(prompt("b", 20, system=5), 1.0).features[TEMPLATE] == name
    assert first.ask(prompt("a", 9, system=3), 1.0).features[TEMPLATE] != name
    assert second.ask(shared, 0.0).features[TEMPLATE] not in (name, 0.0)
    assert name not in {float((int(key) >> 12) + 1) for key in shared}
    assert 1.0 <= name <= 2.0**52
    # What fills no block has none, and what fills fewer than 64 tokens is its own.
    assert first.ask(prompt("", 0), 2.0).features[TEMPLATE] == 0.0
    assert first.ask(prompt("a", 2), 3.0).features[TEMPLATE] not in (name, 0.0)


def test_a_preempted_replay_is_no_turn(example: Make, naive_category: Naive) -> None:
    """Admitted again after a preemption a request is the same one: all it was known by stays."""
    table = example().table
    recorder = Recorder(1000)
    recorder.follow(compile_table(table))
    hashes = prompt("a", 10)
    first = recorder.admit("first", hashes, 0, blank_features(160), 0.0)
    known = recorder.preempt("first")
    assert known is not None and (known.admitted, known.carried) == (0.0, 0)
    record = recorder.admit("first", hashes, 9, blank_features(999), 60.0, replay=True)
    assert record.replay and record.hits == 9 and record.carried == 0
    assert (record.features, record.number) == (first.features, first.number)
    done = recorder.finish("first", 70, 90.0)
    assert done is not None
    assert (done[0].admitted, done[0].carried) == (60.0, 0)
    assert done[1] == Finish(90.0, first.number, 70)
    features = list(first.features)
    features[GENERATED] = 70
    assert done[0].categories[0] == naive_category(table, features)
    assert recorder.finish("first", 70, 90.0) is None and recorder.preempt("first") is None
    following = recorder.admit("second", prompt("a", 12), 0, blank_features(192), 100.0)
    assert [following.features[f] for f in (TURN, GAP, PREVIOUS_GAP)] == [2, 100, -1]
    assert (following.number, recorder.admitted) == (first.number + 1, 2)


def test_a_replay_of_an_unknown_request_is_a_request() -> None:
    """Forgotten or admitted before there was a recorder, it gets a number of its own."""
    recorder = Recorder(1000)
    record = recorder.admit("old", prompt("a", 4), 2, blank_features(64), 1.0, replay=True)
    assert (record.replay, record.number, record.features[TURN]) == (True, 0, 1.0)
    done = recorder.finish("old", 3, 2.0)
    assert done is not None and done[1].number == 0


def test_the_table_at_the_end_decides(example: Make) -> None:
    """A request is of a category when it has finished, by the table that is followed then."""
    recorder = Recorder(1000)
    recorder.follow(compile_table(example().table))
    recorder.admit("old", prompt("a", 4), 2, blank_features(64), 1.0)
    recorder.follow(compile_table(EMPTY))
    done = recorder.finish("old", 1, 2.0)
    assert done is not None and (done[0].admitted, done[0].carried) == (1.0, 2)
    assert done[0].categories.tolist() == [DEFAULT, DEFAULT]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.integers(1, 6), st.floats(0.0, 900.0), st.integers(0, 200)
        )
    )
)
def test_categories_are_those_of_the_table(
    example: Make, naive_category: Naive, requests: list[tuple[str, int, float, int]]
) -> None:
    """Both parts of a prompt get the category that a plain reading gives for its features."""
    table, now = example().table, 0.0
    recorder = Recorder(1000)
    recorder.follow(compile_table(table))
    for count, (name, blocks, gap, generated) in enumerate(requests):
        now += gap
        record = recorder.admit(name, prompt(name, blocks), 0, blank_features(16 * blocks), now)
        done = recorder.finish(name, generated, now + 1.0)
        assert done is not None
        released, finish = done
        assert finish == Finish(now + 1.0, count, generated)
        features = list(record.features)
        assert (features[POSITION], features[GENERATED]) == (0.0, -1.0)
        features[GENERATED] = generated
        assert released.categories[0] == naive_category(table, features)
        features[POSITION] = 1.0
        assert released.categories[1] == naive_category(table, features)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a hundred thousand different prompts that never end, one more costs no memory."""
    monkeypatch.setattr("wactl.policies.recorder.IN_FLIGHT", 1000)
    recorder, names = Recorder(1000), iter(range(100_000))
    hashes = np.random.default_rng(1).bytes(32 * 100_000)

    def admit(count: int) -> None:
        for i in itertools.islice(names, count):
            block = hashes[32 * i : 32 * i + 32]
            recorder.admit(str(i), keys_of([block]), 0, blank_features(16), float(i))

    admit(88_000)
    tracemalloc.start()
    try:
        admit(2_000)
        before = tracemalloc.get_traced_memory()[0]
        admit(10_000)
        assert tracemalloc.get_traced_memory()[0] < before + 100_000
    finally:
        tracemalloc.stop()
    assert recorder.admitted == 100_000
    # The oldest are forgotten, the latest thousand are known.
    assert recorder.finish("98999", 0, 1e5) is None
    for name in ("99000", "99999"):
        done = recorder.finish(name, 0, 1e5)
        assert done is not None and done[1].number == int(name)


def test_a_prompt_without_a_full_block_is_recorded() -> None:
    """Nothing can be told of it but what it declares."""
    record = Client().ask(keys_of([]), 3.0)
    assert (record.blocks, record.hits, record.carried, record.keys) == (0, 0, 0, b"")
    assert len(record.features) == len(FEATURES)
    assert record.features[TURN] == 1.0 and record.features[GAP] == -1.0
