"""Counts of the busiest few by name, and of all others together, none of which ever falls.

Who is among the busiest changes. Were a name to take its total along when it joins them, the count
of the others would fall, and Prometheus takes a counter that falls for one that started anew. So
what is shown are sums of increases, each credited where its name stood when it was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest

OTHER = "other"
"""The name of the rest. Whatever is really called so is counted with it."""

Counts = tuple[int, ...]


class Top:
    """Follows counts by name; ``size`` names are shown beside `OTHER`.

    >>> top = Top(1)
    >>> top.update({"a": (5,), "b": (3,)})
    {'a': (5,), 'other': (3,)}
    >>> top.update({"a": (5,), "b": (10,)})
    {'b': (7,), 'other': (3,)}
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._seen: Mapping[str, Counts] = {}
        self._credited: dict[str, Counts] = {}

    def update(self, totals: Mapping[str, Counts]) -> dict[str, Counts]:
        """What to show for these totals; the busiest are those with the highest first counts.

        A total that is lower than before belongs to a source that was restarted. A name that is no
        longer there is forgotten, and begins at 0 when it comes back.
        """
        names = [name for name in totals if name != OTHER]
        busiest = nlargest(self._size, names, key=lambda name: totals[name][0])
        for name, now in totals.items():
            before = self._seen.get(name, (0,) * len(now))
            restarted = any(new < old for new, old in zip(now, before, strict=True))
            grown = now if restarted else tuple(map(int.__sub__, now, before))
            shown = name if name in busiest else OTHER
            credit = self._credited.get(shown, (0,) * len(now))
            self._credited[shown] = tuple(map(int.__add__, credit, grown))
        self._seen = totals
        self._credited = {n: c for n, c in self._credited.items() if n in totals or n == OTHER}
        return {name: self._credited[name] for name in (*busiest, OTHER) if name in self._credited}
