"""The sidecar's account: all that was sent is seen, and everything is told. Never how long."""

from __future__ import annotations

import pytest
from wactl.simulations.bench.controller import fed, lived


@pytest.mark.parametrize(("cache", "followed"), [(4096, (256, 256)), (100_000, (4, 14))])
def test_the_loop_takes_in_all_it_is_fed(cache: int, followed: tuple[int, int]) -> None:
    """Through a real socket; a small cache's blocks are all followed, of a large one's few."""
    row = fed(cache, 1500)
    assert (row.cache_blocks, row.admissions) == (cache, 1500)
    assert followed[0] <= row.followed_blocks <= followed[1]
    assert row.us_per_admission > 0.0
    assert row.core_share == pytest.approx(row.us_per_admission / 1e6 * 100)
    assert 0.0 < row.refit_ms <= row.refit_worst_ms


def test_a_real_sidecar_is_measured_from_outside() -> None:
    """It keeps up, which the bench checks, and the kernel says what it took."""
    row = lived(100_000, 2.0)
    assert row.admissions == 200 and row.seconds == pytest.approx(2.0, abs=0.5)
    assert 0.0 <= row.core_share < 2.0
    assert 20.0 < row.anonymous_mb < row.resident_mb
