"""Which words of a feature are told apart: a few at a time, whoever sends how many.

A client may send any type, tenant or adapter it likes, so a feature has fifteen places for the
words heard most of late. A new word takes a free place, or that of one heard hardly ever by now;
until then it is nobody's, place 0, like no word at all. So a flood of words never heard again
costs a place for minutes, and one that is in use keeps its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

PLACES = 15
"""Words told apart, of each feature; with place 0 they fit into half a byte."""

Words = NDArray[np.void]
WORD = np.dtype(
    [
        ("digest", np.float64),
        ("last", np.float64),  # seconds
        ("uses", np.float64),  # older ones count less, as of `last`
    ]
)

FADING = 600.0
"""Seconds after which the use of a word counts 1/e."""

HARDLY = 0.5
"""Uses below which a word has to give way."""


def new_words(features: int) -> Words:
    """No words of so many features, shape ``(features, PLACES)``."""
    words = np.zeros((features, PLACES), WORD)
    words["last"] = -np.inf
    return words


@njit(cache=True)
def place_of(words: Words, digest: float) -> int:
    """The place of a word among those of its feature, from 1; 0 if it has none."""
    if digest != 0.0:
        for at in range(PLACES):
            if words[at].digest == digest:
                return at + 1
    return 0


@njit(cache=True)
def hear(words: Words, digest: float, now: float) -> int:
    """A word was sent ``now``: it keeps its place, or takes one if there is one to take.

    Returns the place it took, which stood for another word before; 0 if it took none.
    """
    if digest == 0.0:
        return 0
    at, least = 0, np.inf
    for place in range(PLACES):
        word = words[place]
        uses = word.uses * np.exp(min(0.0, word.last - now) / FADING)
        if word.digest == digest:
            word.uses, word.last = uses + 1.0, now
            return 0
        if uses < least:
            at, least = place, uses
    if least >= HARDLY:
        return 0
    words[at].digest, words[at].last, words[at].uses = digest, now, 1.0
    return at + 1
