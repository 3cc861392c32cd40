"""What is kept of a loop when it ends, and how another loop goes on from it.

What was learned of the traffic holds for the next engine too: the counts of the cells, the words,
the slots of the rules, how the gate stands. What belongs to one engine's life, its totals and the
waits of its blocks, counts again only with that same engine; and the numbers of its categories only
if nobody has pushed since. Else the next table has a lineage of its own, and the engine relabels
its blocks once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..policies.ages import AGES
from ..policies.recent import Table, new_table
from ..policies.table import Condition
from .cells import CELL, Counts
from .contest import LRU
from .gate import Gate
from .learner import Tally
from .loop import Loop
from .numbering import Numbers
from .reuse import GHOST
from .rules import Rule
from .words import WORD, Words

WAITING = 300.0
"""Seconds away after which the waits under way are taken to have ended when they were kept:
too many of the blocks may have been used unseen."""


class Origin(msgspec.Struct, frozen=True):
    """Where it was learned."""

    engine: str
    """The identity of one engine's life."""
    block_tokens: int
    shift: int
    """One block in 2**shift is followed."""


class Pushed(msgspec.Struct, frozen=True):
    """What was pushed last: its version, the changes of regions it knows of, what it orders by."""

    version: int
    changes: int
    running: str


class Slot(msgspec.Struct, frozen=True):
    """Which number a rule has."""

    number: int
    name: str
    conditions: tuple[Condition, ...]


class Totals(msgspec.Struct, frozen=True):
    """What was counted in an engine's life, in blocks unless said."""

    blocks: int
    hits: int
    saved_blocks: int
    shadow_blocks: int
    shadow_hits: dict[str, float]
    by_rule: tuple[bytes, bytes, bytes]
    """Requests, blocks and hits by slot, 8 bytes each."""
    by_category: tuple[bytes, bytes, bytes]
    """The same by category id."""
    misses: bytes = b""
    """`Misses.by_rule`, 8 bytes each; empty in what was kept before they were explained."""


class Tables(msgspec.Struct, frozen=True):
    """The tables but for what is empty, as bytes, little-endian."""

    rows: bytes = b""
    """The used rows of the cells, 8 bytes each; then what these rows hold, counts in 4 bytes."""
    cells: bytes = b""
    events: bytes = b""
    censored: bytes = b""
    words: bytes = b""
    places: bytes = b""
    """The used places of the ghost index, 8 bytes each; then what these hold."""
    ghosts: bytes = b""


class Learned(msgspec.Struct, frozen=True):
    """All that is kept of a loop."""

    origin: Origin
    time: float
    """Seconds of the engine's clock, as are all times in here."""
    pushed: Pushed | None
    lineage: int
    slots: tuple[Slot, ...]
    last_slot: int
    numbers: Numbers
    fitted_at: float | None
    gate: Gate
    totals: Totals
    tables: Tables = Tables()


@dataclass(frozen=True)
class Kept:
    """What was learned, and when that was so, on the clock of the sidecar that holds it."""

    pack: Callable[[], Learned]
    """To be called from any thread."""
    at: float


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a loop, made in an instant. What takes longer, `pack`, may be done in a thread."""

    bare: Learned
    cells: Table
    events: Counts
    censored: Counts
    words: Words
    ghosts: Table

    def pack(self) -> Learned:
        """What is to be kept."""
        rows, places = np.flatnonzero(self.cells["key"]), np.flatnonzero(self.ghosts["key"])
        tables = Tables(
            rows=rows.tobytes(),
            cells=self.cells[rows].tobytes(),
            events=self.events[rows].astype(np.float32).tobytes(),
            censored=self.censored[rows].astype(np.float32).tobytes(),
            words=self.words.tobytes(),
            places=places.tobytes(),
            ghosts=self.ghosts[places].tobytes(),
        )
        return msgspec.structs.replace(self.bare, tables=tables)


def snapshot(loop: Loop, origin: Origin, pushed: Pushed | None, now: float) -> Snapshot:
    """A loop as it is at ``now`` (seconds of the engine's clock)."""
    learner, contest = loop.learner, loop.contest
    cells, categories = learner.cells, learner.categories
    bare = Learned(
        origin=origin,
        time=now,
        pushed=pushed,
        lineage=categories.lineage,
        slots=tuple(Slot(n, rule.name, rule.conditions) for n, rule in categories.rules.items()),
        last_slot=categories.last_slot,
        numbers=categories.numbering.numbers_held(),
        fitted_at=learner.fitted_at,
        gate=loop.gate,
        totals=Totals(
            learner.blocks,
            learner.hits,
            int(loop.saved_blocks),
            int(contest.total_blocks),
            dict(zip(contest.names, contest.total_hits.tolist(), strict=True)),
            _bytes(learner.by_rule),
            _bytes(learner.tally),
            learner.misses.by_rule.tobytes(),
        ),
    )
    return Snapshot(
        bare,
        cells.table.copy(),
        cells.events.copy(),
        cells.censored.copy(),
        cells.words.copy(),
        learner.reuse.ghosts.copy(),
    )


def go_on(
    loop: Loop, kept: Learned, origin: Origin, newest: int, now: float, away: float
) -> Pushed | None:
    """Let a new loop go on from what was kept ``away`` seconds ago; ``now`` is the engine's clock.

    ``newest`` is the highest version the engine has accepted. Returns what it is known to run by.
    """
    learner, same = loop.learner, kept.origin.engine == origin.engine
    shift = 0.0 if same else now - (kept.time + away)
    slots = {slot.number: Rule(slot.name, slot.conditions) for slot in kept.slots}
    learner.categories.go_on(slots, kept.last_slot)
    _fill(loop, kept.tables, shift)
    if not same or now - kept.time > WAITING:
        censored = learner.reuse.counts(kept.time + shift)[1]
        learner.cells.censored[:] = censored
        learner.reuse.ghosts[:] = new_table(1, GHOST)[0]
    if kept.fitted_at is not None:
        learner.fitted_at = kept.fitted_at + shift
    learner.hurry()
    if kept.gate.running in (LRU, *loop.candidates):
        loop.gate = replace(kept.gate, since=kept.gate.since + shift)
    if not same:
        return None
    _count(loop, kept.totals)
    if kept.pushed is None or kept.pushed.version != newest:
        return None
    learner.categories.lineage = kept.lineage
    learner.categories.numbering.go_on(kept.numbers)
    learner.tally = _tally(kept.totals.by_category)
    return kept.pushed


def _fill(loop: Loop, kept: Tables, shift: float) -> None:
    """The tables as they were, all times later by ``shift`` seconds."""
    cells, ghosts = loop.learner.cells, loop.learner.reuse.ghosts
    rows = np.frombuffer(kept.rows, np.int64)
    cells.table[rows] = _later(np.frombuffer(kept.cells, CELL), shift)
    cells.events[rows] = _counts(kept.events)
    cells.censored[rows] = _counts(kept.censored)
    cells.words[:] = _later(np.frombuffer(kept.words, WORD), shift).reshape(cells.words.shape)
    ghosts[np.frombuffer(kept.places, np.int64)] = _later(np.frombuffer(kept.ghosts, GHOST), shift)


def _count(loop: Loop, totals: Totals) -> None:
    """The totals go on where they were."""
    learner, contest = loop.learner, loop.contest
    learner.blocks, learner.hits = totals.blocks, totals.hits
    learner.by_rule = _tally(totals.by_rule)
    if totals.misses:
        learner.misses.by_rule[:] = np.frombuffer(totals.misses, np.int64).reshape(
            learner.misses.by_rule.shape
        )
    loop.saved_blocks = totals.saved_blocks
    contest.total_blocks = totals.shadow_blocks
    contest.total_hits[:] = [totals.shadow_hits.get(name, 0.0) for name in contest.names]


def _later(table: Table, shift: float) -> Table:
    table = table.copy()
    table["last"] += shift
    return table


def _counts(raw: bytes) -> NDArray[np.float32]:
    return np.frombuffer(raw, np.float32).reshape(-1, len(AGES))


def _bytes(tally: Tally) -> tuple[bytes, bytes, bytes]:
    return tally.requests.tobytes(), tally.blocks.tobytes(), tally.hits.tobytes()


def _tally(raw: tuple[bytes, bytes, bytes]) -> Tally:
    requests, blocks, hits = (np.frombuffer(part, np.int64).copy() for part in raw)
    return Tally(requests, blocks, hits)
