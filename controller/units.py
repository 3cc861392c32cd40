"""Numbers in few characters, for people."""

from __future__ import annotations

from collections.abc import Sequence

SPARK = 8
"""Characters of a sparkline."""
_BARS = "▁▂▃▅▇"


def percent(share: float | None) -> str:
    """A share.

    >>> percent(0.5832), percent(None)
    ('58.3 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"


def points(ahead: float, noise: float) -> str:
    """A difference of two shares and its standard error.

    >>> points(0.0712, 0.004)
    '+7.1 ± 0.4 points'
    """
    return f"{100 * ahead:+.1f} ± {100 * noise:.1f} points"


def seconds(value: float | None) -> str:
    """A time.

    >>> seconds(6.04), seconds(300), seconds(90000), seconds(None)
    ('6.0 s', '5 min', '25 h', '–')
    """
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def count(number: float) -> str:
    """A whole number, rounded where it is large.

    >>> count(712.4), count(48_200), count(1_240_000), count(-9_000_000)
    ('712', '48.2 k', '1.2 M', '-9.0 M')
    """
    for unit, least, size in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if abs(number) >= least:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


def spark(numbers: Sequence[float]) -> str:
    """Numbers as `SPARK` bars, neighbours added up; nothing if there are none.

    >>> spark((0, 0, 0, 0, 1, 1, 2, 3, 9, 4, 0, 0, 0, 0, 0, 0))
    '▁▁▂▃▇▁▁▁'
    """
    wide = len(numbers) // SPARK
    sums = [sum(numbers[first : first + wide]) for first in range(0, SPARK * wide, wide or 1)]
    most = max(sums, default=0.0)
    if not most:
        return ""
    return "".join(_BARS[round(total / most * (len(_BARS) - 1))] for total in sums)
