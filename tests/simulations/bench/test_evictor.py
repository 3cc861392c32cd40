"""The account of the queues: what is counted, and that it adds up. Never how long it took."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from wactl.simulations.bench.evictor import _cell, _frozen, measure
from wactl.simulations.bench.tape import Kind, Tape


@pytest.mark.parametrize("categories", [0, 3])
def test_a_cell_tells_what_both_queues_did(categories: int) -> None:
    """One list of operations for both; of one repeat, the ratio is that of the totals."""
    cell = measure(500, categories, repeats=1, requests=50)
    assert (cell.blocks, cell.categories, cell.repeats) == (500, categories, 1)
    assert cell.operations > 50 * 4
    assert 0 < cell.hit < cell.evicted and cell.tagged > cell.freed // 2
    # Every measured request gave back what it held, up to what was under way before or is yet.
    assert abs(cell.freed - cell.evicted - cell.hit) < 500
    assert cell.ratio == pytest.approx(cell.ours.total_ms / cell.stock.total_ms)
    assert cell.ratio_low == cell.ratio == cell.ratio_high < cell.ratio_with_tags
    for side in (cell.ours, cell.stock):
        assert side.worst_us == side.worst_seen_us >= side.p999_us > 0.0
        parts = (
            side.us_per_evicted * cell.evicted
            + side.us_per_freed * cell.freed
            + side.us_per_hit * cell.hit
        )
        assert parts == pytest.approx(1e3 * side.total_ms)


def test_the_repeats_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians over repeats, the least of each operation for the worst, tags apart."""
    monkeypatch.setattr("wactl.simulations.bench.evictor.clock_cost", lambda: 10)
    tape = Tape(8)
    for kind, ids in ((Kind.POP, (1, 2)), (Kind.TAG, (1, 2)), (Kind.APPEND, (2, 1))):
        tape.note(kind, 0.0, ids)
    stock = [np.array([1010, 10, 1010]) for _ in range(3)]
    ours = [np.array([2010, 510, 1010]), np.array([9010, 510, 1010]), np.array([3010, 510, 1010])]
    visits = (0, 2)
    cell = _cell("test", 1, tape, [(s, o, visits) for s, o in zip(stock, ours, strict=True)])
    assert (cell.ratio, cell.ratio_low, cell.ratio_high) == (2.0, 1.5, 5.0)
    assert cell.ratio_with_tags == 2.25 and cell.tag_us_per_request == 0.5
    assert (cell.operations, cell.evicted, cell.freed, cell.tagged) == (2, 2, 2, 2)
    assert (cell.ours.us_per_evicted, cell.ours.us_per_freed) == (1.5, 0.5)
    assert (cell.ours.worst_us, cell.ours.worst_seen_us) == (2.0, 9.0)
    assert (cell.ours.collections, cell.stock.collections) == (6, 0)


def test_the_garbage_collector_is_on_and_seen() -> None:
    """What exists is frozen, as the engine does it; later visits are counted."""
    before = gc.get_freeze_count()
    with _frozen() as visits:
        assert gc.isenabled() and gc.get_freeze_count() > before
        kept = [[i] for i in range(100_000)]
        assert visits and set(visits) <= {0, 1, 2}
    assert gc.get_freeze_count() == 0 and len(kept) == 100_000
