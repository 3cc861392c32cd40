"""A request as a capture shows it: numbers, and names that mean nothing anywhere else.

Keys of blocks and digests of words are renamed by a `Veil` whose secret is made here and never
written. Equal stays equal within one engine's life; nothing can be looked up, and nothing
joined with another capture, not even of the same engine.
"""

from __future__ import annotations

import numpy as np

from ..policies.features import FEATURES, LENGTH, TURN, WORDS
from ..policies.messages import Admission
from ..policies.veil import Veil

LABEL = 12
"""Hex digits of a word's label."""
EXACT = 53
"""Bits of a block's id: what every reader of JSON takes for a whole number without loss. Two
blocks that follow the same one are mixed up once in 2**53 pairs."""


class Anonymous:
    """The requests of one engine's life; the first is at ``time`` seconds of the trace."""

    def __init__(self, time: float) -> None:
        self.time = time
        """Seconds of the trace at the last request."""
        self._start: float | None = None  # of the trace, on the engine's clock
        self._veil = Veil()

    def line(self, admission: Admission, generated: int) -> dict[str, object]:
        """The line of a request with so many output tokens, see docs/capture.md."""
        if self._start is None:
            self._start = admission.time - self.time
        self.time = max(self.time, admission.time - self._start)
        keys = np.frombuffer(self._veil(admission.keys), np.dtype("<u8"))
        return {
            "t": self.time,
            "in": int(admission.features[LENGTH]),
            "out": generated,
            "n": admission.blocks,
            "h": admission.hits,
            "turn": int(admission.features[TURN]),
            **({"unread": True} if admission.unread else {}),
            **self._labels(admission.features),
            "b": (keys >> np.uint64(64 - EXACT)).tolist(),
        }

    def _labels(self, features: tuple[float, ...]) -> dict[str, str]:
        found = {}
        for word in WORDS:
            # A digest is at most 2**52, so the word's kind has room above it: the label of a
            # tenant tells nothing of a session by the same name.
            if digest := int(features[word]):
                renamed = self._veil((digest + (word << EXACT)).to_bytes(8, "little"))
                found[FEATURES[word]] = renamed.hex()[:LABEL]
        return found
