"""Every variant plays, the same each time; what is done is not done again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from wactl.simulations import ablation
from wactl.simulations.ablation import Store
from wactl.simulations.baselines import belady, lru
from wactl.simulations.learning import BASE
from wactl.simulations.trace import Trace
from wactl.simulations.variants import Done, Variant, measure, variants

CAPACITY = 60
BY_KEY = {variant.key: variant for variant in variants()}


@pytest.mark.parametrize("key", BY_KEY)
def test_each_variant_plays_the_same_each_time(key: str, chats: Trace) -> None:
    """It finds no more blocks than Belady, and none finds as few as random choice would."""
    play = BY_KEY[key].play
    played = play(chats, CAPACITY)
    assert played.hits.tolist() == play(chats, CAPACITY).hits.tolist()
    best = belady.run(chats, CAPACITY).hits.sum()
    assert 0.5 * lru.run(chats, CAPACITY).hits.sum() < played.hits.sum() <= best


def test_variants_have_names_of_their_own() -> None:
    """A result belongs to one variant; the learner as shipped is among them."""
    assert len(BY_KEY) == len(variants())
    assert BASE in BY_KEY


def test_what_declares_nothing_is_not_asked_for_it(chats: Trace) -> None:
    """The variant with declared types wants a trace that declares some."""
    declared = BY_KEY["declared: types and sessions seen"]
    assert declared.fits(chats)
    assert not declared.fits(replace(chats, types=None, sessions=None))


def test_a_measure_is_a_hit_ratio_over_prompts(chats: Trace) -> None:
    """LRU's, block by block."""
    done = measure(BY_KEY["bounds: lru"], chats, CAPACITY)
    hits = lru.run(chats, CAPACITY).prefix_hits(chats.offsets)
    assert (done.trace, done.capacity, done.requests) == ("chats", CAPACITY, chats.requests)
    assert done.hit_ratio == hits / len(chats.blocks)


def test_a_run_goes_on_where_it_was_stopped(
    chats: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run plays nothing, and writes the same page."""
    played: list[int] = []

    def play(trace: Trace, capacity: int) -> Any:
        played.append(capacity)
        if len(played) == 4:
            raise KeyboardInterrupt
        return lru.run(trace, capacity)

    def load(path: str, limit: int | None = None) -> Trace:
        return replace(chats, name=Path(path).name.removesuffix(".jsonl.gz"))

    only = [Variant("bounds", "lru", play)]
    monkeypatch.setattr(ablation, "variants", lambda: only)
    monkeypatch.setattr(ablation, "load_trace", load)
    monkeypatch.setattr(ablation.tempfile, "gettempdir", lambda: str(tmp_path))
    run = partial(ablation.main, tmp_path, tmp_path / "page.md")
    with pytest.raises(KeyboardInterrupt):
        run()
    run()
    assert len(played) == 4 + 1 + 12 - 2  # a first try of each run warms up
    page = (tmp_path / "page.md").read_text()
    run()
    assert len(played) == 15
    assert (tmp_path / "page.md").read_text() == page


def test_the_store_reads_what_it_wrote(tmp_path: Path) -> None:
    """Line by line, in the order in which it came."""
    path = tmp_path / "store.jsonl"
    done = [Done(f"variant {n}", "trace", 10, 5, 0.1 * n, 1.5) for n in range(3)]
    store = Store(path)
    for one in done:
        store.add(one)
    again = Store(path)
    assert list(again) == done
    assert again.get("variant 1", "trace", 10) == done[1]
    assert again.get("variant 1", "trace", 11) is None
