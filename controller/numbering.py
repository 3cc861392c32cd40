"""Category numbers that outlive the tree: the same region of features keeps the same number.

The tree is grown anew now and then, and mostly comes out alike. A leaf whose region was there
before keeps its number, and so the blocks that carry it. The number of a region that is gone
stays reserved, and the region has a law as before, until the engine has no block of it left;
only then the number may mean something else. A region that comes back sooner has it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..policies.blocks import FIRST_CATEGORY, MAX_CATEGORIES
from .tree import Masks

NUMBERS = MAX_CATEGORIES - FIRST_CATEGORY
"""Numbers there are."""


class Numbers(msgspec.Struct, frozen=True):
    """A numbering as it is kept: regions by number, and the change each retired one went with."""

    count: int
    changes: int
    used: dict[int, Masks]
    retired: dict[int, Masks]
    went: dict[int, int]


class Numbering:
    """Who has which category number, from 0."""

    def __init__(self) -> None:
        self.count = 0
        """One more than the highest number in use."""
        self.changes = 0
        """How often regions went; whoever knows the last change knows all before."""
        self._numbers: dict[Masks, int] = {}
        self.retired: dict[int, Masks] = {}
        """Regions that are gone but for their blocks, by number."""
        self._went: dict[int, int] = {}  # retired number -> the change it went with

    def numbers(self) -> dict[Masks, int]:
        """The number of each region."""
        return dict(self._numbers)

    def take(self, regions: Iterable[Masks]) -> bool:
        """Number these regions and no others; False, and nothing changes, if too few are free."""
        wanted = dict.fromkeys(regions)
        back = {region: number for number, region in self.retired.items() if region in wanted}
        new = [region for region in wanted if region not in self._numbers and region not in back]
        taken = {*self._numbers.values(), *self.retired}
        free = [number for number in range(NUMBERS) if number not in taken][: len(new)]
        if len(free) < len(new):
            return False
        for number in back.values():
            del self.retired[number], self._went[number]
        gone = self._numbers.keys() - wanted
        if gone:
            self.changes += 1
        for region in gone:
            number = self._numbers.pop(region)
            self.retired[number], self._went[number] = region, self.changes
        self._numbers |= back | dict(zip(new, free, strict=True))
        self.count = max((self.count, *(number + 1 for number in free)))
        return True

    def drained(self, cached: Sequence[int], known: int) -> None:
        """An engine that knows of change ``known`` has so many cached blocks, by category id."""
        for number, change in list(self._went.items()):
            at = FIRST_CATEGORY + number
            if change <= known and (at >= len(cached) or cached[at] == 0):
                del self.retired[number], self._went[number]

    def numbers_held(self) -> Numbers:
        """All of it, to be kept."""
        used = {number: region for region, number in self._numbers.items()}
        return Numbers(self.count, self.changes, used, dict(self.retired), dict(self._went))

    def go_on(self, numbers: Numbers) -> None:
        """Go on from what was kept."""
        self.count, self.changes = numbers.count, numbers.changes
        self._numbers = {region: number for number, region in numbers.used.items()}
        self.retired, self._went = dict(numbers.retired), dict(numbers.went)
