"""The policy of the ATC'25 paper as its authors' own patch has it: fitted once, then frozen.

"KVCache Cache in the Wild" (USENIX ATC'25) and vLLM pull request 22236. Categories are the
declared type and the turn; of each, the gaps between uses give a rate ``λ = 1 / (mean − least)``
and their share of all uses a probability ``p``, gaps of up to 0.3 s left out; the score is
``p (e^(−λt) − e^(−λ(t + 5 s)))``. Fitted on the first hour, or the first quarter of a shorter
trace, during which the order is LRU.

Differs from the patch where that is a defect rather than a choice: a block's last use counts
from every use and not only from hits, its category is that of its last user, an unseen
category has the law of all traffic instead of score 0, and logarithms keep scores apart. As
everywhere here, only leaves are evicted.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ..policies.blocks import FIRST_CATEGORY
from ..policies.features import TURN, TYPE, digest
from ..policies.intake import orders_of
from ..policies.parameters import MAX_RATE, MAX_SECONDS, Law, ParameterSet, Score
from ..policies.table import Condition, DecisionTable, Node, Rule, classify, compile_table
from .cache import SimulatedCache
from .played import Played
from .trace import Trace

HOUR = 3600.0
SHARE = 0.25
LEAST_GAP = 0.3
LIFE = 5.0
TURNS = (1, 2, 4)
"""The last turn of each class of turns but the highest."""
TYPES = 50
"""Declared types with a category of their own, the most frequent ones."""


def run(trace: Trace, capacity: int) -> Played:
    """Replay a trace with laws fitted on its beginning."""
    table = categories(trace)
    compiled = compile_table(table)
    cache = SimulatedCache(trace, capacity)
    until = min(HOUR, SHARE * float(trace.times[-1]))
    labels: list[int] = []
    fitted = False
    for request in range(trace.requests):
        if not fitted and trace.times[request] >= until:
            cache.obey(orders_of(fit(trace, np.array(labels, np.int64), table)))
            fitted = True
        admission, _ = cache.serve(request, declared=True)
        if not fitted:
            labels.append(classify(compiled, np.array(admission.features)))
    return cache.played()


def categories(trace: Trace) -> DecisionTable:
    """A category for each declared type and turn; by turn alone if no types are declared."""
    kinds = [] if trace.types is None else Counter(trace.types).most_common(TYPES)
    rules: list[Rule] = []
    nodes: list[Node] = []
    for name, conditions in (
        *((kind[:64] or "-", (Condition(TYPE, digest(kind), digest(kind)),)) for kind, _ in kinds),
        ("other", ()),
    ):
        first = len(rules) * (len(TURNS) + 1)
        rules.append(Rule(name, conditions, len(nodes)))
        for number, most in enumerate(TURNS):
            last = number == len(TURNS) - 1
            further = -2 - first - number if last else len(nodes) + 1
            nodes.append(Node(Condition(TURN, 0, most), -1 - first - number, further))
    return DecisionTable(1, len(rules) * (len(TURNS) + 1), tuple(rules), tuple(nodes))


def fit(trace: Trace, labels: NDArray[np.int64], table: DecisionTable) -> ParameterSet:
    """The parameters of the first ``len(labels)`` requests, whose category ids are given."""
    requests = len(labels)
    blocks = trace.blocks[: trace.offsets[requests]]
    sizes = np.diff(trace.offsets[: requests + 1])
    category = np.repeat(labels, sizes) - FIRST_CATEGORY
    time = np.repeat(trace.times[:requests], sizes)
    order = np.argsort(blocks, kind="stable")
    again = blocks[order][1:] == blocks[order][:-1]
    gaps = np.diff(time[order])[again]
    before = category[order][:-1][again]
    counted = gaps > LEAST_GAP
    gaps, before = gaps[counted], before[counted]
    uses = np.bincount(category, minlength=table.categories)
    laws = tuple(
        _law(gaps[before == number], int(uses[number])) for number in range(table.categories)
    )
    everything = _law(gaps, len(blocks)) or Law((1e-6,), (1.0,), MAX_SECONDS)
    return ParameterSet(
        version=1,
        ttl=HOUR,
        trust=1.0,
        score=Score.PAPER,
        horizon=LIFE,
        default=everything,
        laws=tuple(law or everything for law in laws),
        table=table,
    )


def _law(gaps: NDArray[np.float64], uses: int) -> Law | None:
    """The law of a category, None if nothing of it was ever used again."""
    if len(gaps) == 0:
        return None
    spread = float(gaps.mean() - gaps.min()) or float(gaps.mean())
    rate = min(max(1.0 / spread, 1.0 / MAX_SECONDS), MAX_RATE)
    return Law((min(1.0, len(gaps) / uses),), (rate,), MAX_SECONDS)
