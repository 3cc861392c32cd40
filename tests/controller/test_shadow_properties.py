"""Whatever is admitted, released and dropped in whatever order, a shadow stays whole."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from wactl.controller.shadow import Shadow
from wactl.policies.blocks import FIRST_CATEGORY
from wactl.policies.intake import orders_of
from wactl.policies.parameters import Law, ParameterSet, Score
from wactl.policies.table import DecisionTable, Rule

PLACES = 24
CATEGORIES = 3
LAWS = tuple(Law((p,), (rate,), 1e6) for p, rate in ((0.1, 0.01), (0.6, 0.05), (0.9, 0.2)))

chains = st.lists(st.integers(0, PLACES - 1), max_size=8, unique=True)
categories = st.integers(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES - 1)


class Shadows(RuleBasedStateMachine):
    """Requests come, end and lose places to others; ``running`` knows what is in use."""

    @initialize(capacity=st.integers(1, 12))
    def start(self, capacity: int) -> None:
        self.shadow = Shadow(PLACES, capacity)
        self.running: list[list[int]] = []
        self.now = 0.0
        self.version = 0

    @rule(places=chains)
    def admit(self, places: list[int]) -> None:
        """It hits what is there from the head on."""
        self.now += 1.0
        there = self.shadow._resident[places].tolist()
        hits = self.shadow.admit(np.array(places, np.int64), self.now)
        assert hits == (there.index(0) if 0 in there else len(there))
        self.running.append(places)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), carried=st.integers(0, 8), new=categories, old=categories)
    def release(self, data: st.DataObject, carried: int, new: int, old: int) -> None:
        self.now += 1.0
        places = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        both = np.array([new, old])
        self.shadow.release(np.array(places, np.int64), carried, both, self.now - 0.5, self.now)

    @rule(places=chains)
    def drop(self, places: list[int]) -> None:
        """Nobody's any more, free, in use, or not there at all; whoever used them forgets them."""
        self.shadow.drop(np.array(places, np.int64))
        self.running = [[p for p in chain if p not in places] for chain in self.running]
        assert not self.shadow._resident[places].any()

    @rule(trust=st.sampled_from([0.0, 1.0]), lineage=st.integers(1, 2))
    def obey(self, trust: float, lineage: int) -> None:
        """Orders of one controller or, after a restart, of another."""
        self.version += 1
        table = DecisionTable(lineage, CATEGORIES, (Rule("all", (), -1),), ())
        parameters = ParameterSet(
            self.version, 60.0, trust, Score.HAZARD, 60.0, LAWS[1], LAWS, table
        )
        self.shadow.obey(orders_of(parameters))

    @invariant()
    def whole(self) -> None:
        """All that is in use is there, and no more than fits unless it is in use."""
        shadow = self.shadow
        used = {place for chain in self.running for place in chain}
        there = set(np.flatnonzero(shadow._resident).tolist())
        free = set(shadow.queue.order().tolist())
        assert used <= there
        assert there == used | free and not used & free
        assert shadow._held == len(used)
        assert shadow.queue.length == len(free)
        assert len(there) <= shadow.capacity or not free


TestShadows = Shadows.TestCase
TestShadows.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)
