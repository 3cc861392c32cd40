"""The regression says what river's says, and learns."""

from __future__ import annotations

import numpy as np
from wactl.controller.cells import COLUMNS
from wactl.simulations.alternatives.labels import CLASSES
from wactl.simulations.alternatives.linear import Linear, inputs


def test_it_says_what_river_says() -> None:
    """Before anything was learned the last class; then the likeliest, also just after learning."""
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, (300, COLUMNS)).astype(np.uint8)
    model = Linear()
    assert model.predict(rows[0]) == CLASSES - 1
    said = set()
    for row in rows:
        model.predict(row)  # what is remembered of it is old in a moment
        model.learn(row, int(row[1]))
        chances = model.model.predict_proba_one(inputs(row))
        assert model.predict(row) == max(chances, key=lambda label: chances[label])
        said.add(model.predict(row))
    assert said == {0, 1, 2, 3}
    right = [model.predict(row) == row[1] for row in rows]
    assert np.mean(right) > 0.9
