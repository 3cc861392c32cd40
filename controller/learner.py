"""The loop for one engine: records in, laws out.

It reads no clock and does no input or output, so a replay runs the very same steps on the
trace's time. `admit` and `finish` take one record through classify and reuse; `step`, called as
time passes, refits when it is due, and now and then grows the tree of categories anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import FIRST_CATEGORY, MAX_CATEGORIES, Ids
from ..policies.features import GENERATED, POSITION, TENANT, Features
from ..policies.messages import Admission, Finish
from ..policies.parameters import Law, ParameterSet
from ..policies.recent import Keys
from ..policies.sample import TARGET_BLOCKS
from .cells import Cells
from .classify import SLOTS, Categories
from .family import Family
from .fit import Fits, Observed, fit_all
from .misses import Counts, Misses
from .reuse import Reuse
from .rules import Rules
from .settings import Settings
from .tree import exposure, grow

GHOSTS = 16 * TARGET_BLOCKS
"""Followed blocks in the ghost index: sixteen times what a cache holds of them, 1.5 MB."""

REGROW = 4
"""Refits between two growths of the tree."""

NOBODY = np.empty(0, np.int64)
"""What there is of users where nobody counts them."""

RUNNING = 8192
"""Requests remembered until they finish; the oldest is forgotten first."""


@dataclass(frozen=True, eq=False)
class Running:
    """A request that has been admitted: what is moved when it finishes."""

    admission: Admission
    features: Features
    keys: Keys
    positions: Keys
    cells: tuple[int, int]
    sizes: tuple[int, int]
    """Followed blocks that are new, and that were carried over."""
    places: Ids
    """Where these are in the ghost index, −1 where they are not."""
    displaced: Ids
    """Places that belonged to other blocks until now."""
    missed: Counts
    """Why blocks of it were missed, see `Misses.explain`."""


@dataclass(frozen=True)
class Tally:
    """What was counted: arrays by category id, or by rule."""

    requests: NDArray[np.int64]
    blocks: NDArray[np.int64]
    hits: NDArray[np.int64]

    @classmethod
    def empty(cls, size: int) -> Tally:
        """Nothing counted yet."""
        return cls(*(np.zeros(size, np.int64) for _ in range(3)))

    def count(self, new: int, old: int, admission: Admission) -> None:
        """A request whose new blocks belong to ``new``, those carried over to ``old``."""
        self.requests[new] += 1
        if not admission.unread:
            carried = min(admission.carried, admission.blocks)
            self.blocks[old] += carried
            self.hits[old] += admission.hits
            self.blocks[new] += admission.blocks - carried


class Learner:
    """Learns the laws of one engine's traffic under the operator's rules.

    ``lineage`` is a number that no other learner has: see `DecisionTable`. ``misses`` counts for
    the size of its blocks and the share of them that is followed.
    """

    def __init__(
        self, settings: Settings, rules: Rules, lineage: int = 1, misses: Misses | None = None
    ) -> None:
        self.settings = settings
        self.cells = Cells()
        self.reuse = Reuse(self.cells, GHOSTS, settings.half_life_seconds)
        self.categories = Categories(rules, lineage)
        self.tally = Tally.empty(MAX_CATEGORIES)
        self.by_rule = Tally.empty(SLOTS)
        self.misses = misses or Misses()
        self.blocks = 0
        self.hits = 0
        self.fits: Fits | None = None
        self.fitted_at: float | None = None
        self._due = False
        self._refits = 0
        self._laws: dict[Family, tuple[Law, dict[int, Law]]] = {}
        self._running: OrderedDict[int, Running] = OrderedDict()

    def follow(self, rules: Rules) -> None:
        """Other rules from now on; what was learned of those that stay is kept."""
        self.categories.follow(rules)
        self.fits = None
        self.hurry()

    def hurry(self) -> None:
        """Refit with the next step, and grow the tree anew, if there was any step before."""
        self._due = self.fitted_at is not None
        self._refits = 0

    def admit(self, admission: Admission, users: Ids = NOBODY) -> Running | None:
        """Take in one admitted request; what is remembered of it, None if it was replayed.

        ``users`` tells by place in the ghost index how many requests hold a block, if known.
        """
        if admission.replay:
            return None
        self.make_room(admission)
        if not admission.unread:
            self.blocks += admission.blocks
            self.hits += admission.hits
        features = np.array(admission.features)
        self.cells.hear(features, admission.time)
        keys = np.frombuffer(admission.keys, np.uint64)
        positions = np.frombuffer(admission.positions, np.uint64)
        old = int(np.searchsorted(positions, admission.carried))
        sizes = (len(keys) - old, old)
        cells = self._cells(features, sizes, admission.time)
        carried, now = admission.carried, admission.time
        places, gone, idle = self.reuse.observe(keys, positions, carried, *cells, now)
        missed = self.misses.explain(admission, positions, places, idle, users)
        known = keys, positions, cells, sizes, places, gone, missed
        running = Running(admission, features, *known)
        self._running[admission.number] = running
        return running

    def make_room(self, admission: Admission) -> Running | None:
        """Forget the request that has this one's number, or the oldest of too many, if any.

        `admit` does so by itself; who wants to know which one it is asks before.
        """
        if admission.replay:
            return None
        if (before := self._running.pop(admission.number, None)) is not None:
            return before
        return self._running.popitem(last=False)[1] if len(self._running) >= RUNNING else None

    def finish(self, finish: Finish) -> tuple[Running, tuple[int, int]] | None:
        """A request has ended: its blocks belong where its output puts them.

        Returns what was known of it and the category ids of its new and its carried blocks.
        """
        running = self._running.pop(finish.number, None)
        if running is None:
            return None
        admission, features = running.admission, running.features
        for cell, size in zip(running.cells, running.sizes, strict=True):
            if size:
                self.cells.count(cell, size, -1.0)
        features[GENERATED] = finish.generated
        cells = self._cells(features, running.sizes, admission.time)
        self.reuse.move(running.keys, running.positions, admission.carried, *cells, admission.time)
        categories = self.categories.of(features)
        self.tally.count(*categories, admission)
        rules = self.categories.rules_of(features)
        self.by_rule.count(*rules, admission)
        self.misses.count(running.missed, rules, features[TENANT], finish.time)
        return running, categories

    def still(self, running: Running) -> Ids:
        """The places in the ghost index that its blocks still have."""
        places = running.places
        return places[(places >= 0) & (self.reuse.ghosts["key"][places] == running.keys)]

    def step(self, now: float) -> bool:
        """Refit if it is due at ``now`` (seconds); whether it was."""
        if self.fitted_at is None:
            self.fitted_at = now
        elapsed = now - self.fitted_at
        if elapsed < self.settings.refit_seconds and not self._due:
            return False
        self.fitted_at, self._due = now, False
        seen = self._seen(now)
        if self._refits % REGROW == 0:
            self._grow(seen)
        self._refits += 1
        hints = {slot: rule.hints for slot, rule in self.categories.rules.items()}
        borrowed, families = self.settings.borrowed_requests, self.settings.families
        retired = tuple(self.categories.numbering.retired.values())
        fits = fit_all(seen, self.categories.tree, retired, borrowed, families, hints)
        if fits is not None:
            self.fits = fits[families[0]]
            self._laws = {family: self._by_number(of) for family, of in fits.items()}
        self.reuse.forget(elapsed)
        return True

    def parameters(
        self, version: int, family: Family | None = None, trust: float = 1.0
    ) -> ParameterSet | None:
        """The laws of a family (the first one) as a parameter set, None before there are any."""
        if self.fits is None:
            return None
        default, laws = self._laws[family or self.settings.families[0]]
        table = self.categories.table
        return ParameterSet(
            version=version,
            ttl=self.settings.ttl_seconds,
            trust=trust,
            score=self.settings.score,
            horizon=self.settings.horizon_seconds,
            default=default,
            laws=tuple(laws.get(number, default) for number in range(table.categories)),
            table=table,
        )

    def drained(self, cached: Sequence[int]) -> None:
        """The engine has the newest table, and so many cached blocks of each category id."""
        self.categories.drained(cached)

    def _by_number(self, fits: Fits) -> tuple[Law, dict[int, Law]]:
        """The law of all traffic, and those of the categories by number."""
        retired = self.categories.numbering.retired
        laws = dict(zip(retired, (fit.law for fit in fits.regions), strict=True))
        laws |= {number: fits.nodes[leaf].law for number, leaf in self.categories.leaves.items()}
        return fits.everything.law, laws

    def _cells(self, features: Features, sizes: tuple[int, int], now: float) -> tuple[int, int]:
        """The cells of a request's new and carried blocks, where it is counted; 0 of none."""
        found = [0, 0]
        for position, size in enumerate(sizes):
            if size:
                features[POSITION] = position
                rule = self.categories.rule_of(features)
                found[position] = self.cells.key(rule, features, now)
                self.cells.count(found[position], size)
        return found[0], found[1]

    def _seen(self, now: float) -> Observed:
        events, censored = self.reuse.counts(now)
        table = self.cells.table
        rows = np.flatnonzero(table["key"])
        return Observed(
            table["buckets"][rows],
            events[rows],
            censored[rows],
            table["requests"][rows],
            table["blocks"][rows],
        )

    def _grow(self, seen: Observed) -> None:
        share = np.minimum(1.0, seen.requests / np.maximum(seen.blocks, 1e-9))[:, None]
        waited = exposure(seen.events, seen.censored)
        divided = [(slot, rule.refine) for slot, rule in self.categories.rules.items()]
        limit = self.settings.categories
        fresh = self.categories.use(
            grow(seen.buckets, seen.events * share, waited * share, divided, limit),
            self.cells.words,
        )
        for number in fresh:
            for counts in (self.tally.requests, self.tally.blocks, self.tally.hits):
                counts[FIRST_CATEGORY + number] = 0.0
