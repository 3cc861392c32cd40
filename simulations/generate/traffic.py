"""Requests as columns, without their blocks: to be put together, cut, and made a trace.

A prompt is a template, if it has one, and then the text of its own session. Both are known by
a number and block ids are made of that and a position, so a block stands for itself after its
whole prefix, and a later turn begins with all blocks of the one before, its answer included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from ..readers.numbering import number
from ..trace import Trace
from .plan import BLOCK_TOKENS, MAX_ACCESSES, GenerateError

POSITIONS = 20
"""Bits of a block id for its position in the prompt."""
TEMPLATE = np.uint64(1 << 63)
"""Set in ids of template blocks."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Requests in any order; every column has their shape."""

    times: NDArray[np.float64]
    sessions: NDArray[np.int64]
    """Numbers, each for one text that grows from turn to turn."""
    turns: NDArray[np.int32]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    templates: NDArray[np.int64]
    shared: NDArray[np.int64]
    """Blocks of the template, 0 if there is none."""
    types: NDArray[np.str_]
    """What is declared of the request."""
    parts: NDArray[np.str_]
    """What it is: the name of the kind. It is seen in the name of the session only."""

    def where(self, wanted: NDArray[np.bool_] | NDArray[np.intp]) -> Traffic:
        """Some of the requests, by a mask or in the order of their indices."""
        return Traffic(*(getattr(self, field.name)[wanted] for field in fields(self)))

    def between(self, start: float, end: float) -> NDArray[np.bool_]:
        """Which requests came from ``start`` until before ``end``."""
        return (self.times >= start) & (self.times < end)

    def trace(self, name: str) -> Trace:
        """The requests in time order, which is in whole microseconds, with their blocks.

        Raises `GenerateError` if there are none, or too many blocks.
        """
        ordered = self.where(np.argsort(np.rint(1e6 * self.times), kind="stable"))
        times = np.rint(1e6 * ordered.times)
        lengths = ordered.input_tokens // BLOCK_TOKENS
        if not len(times):
            raise GenerateError(f"{name}: no request came; raise --seconds or --rate")
        if (accesses := int(lengths.sum(dtype=np.int64))) > MAX_ACCESSES:
            raise GenerateError(
                f"{name}: {accesses} block accesses are more than {MAX_ACCESSES}; "
                "lower --seconds or --rate"
            )
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        blocks, distinct = number(ordered._ids(offsets), offsets)
        return Trace(
            name=name,
            times=(times - times[0]) / 1e6,
            offsets=offsets,
            blocks=blocks,
            distinct=distinct,
            input_tokens=ordered.input_tokens,
            output_tokens=ordered.output_tokens,
            types=ordered.types.tolist(),
            turns=ordered.turns,
            sessions=[
                f"{part}-{session}"
                for part, session in zip(ordered.parts, ordered.sessions, strict=True)
            ],
            block_tokens=BLOCK_TOKENS,
        )

    def _ids(self, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        lengths = np.diff(offsets)
        position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        session = np.repeat(self.sessions << POSITIONS, lengths) + position
        template = np.repeat(self.templates << POSITIONS, lengths) + position
        of_template = position < np.repeat(self.shared, lengths)
        return np.where(
            of_template, template.astype(np.uint64) | TEMPLATE, session.astype(np.uint64)
        )


def together(parts: Sequence[Traffic]) -> Traffic:
    """All requests of several populations, whose sessions have nothing to do with each other."""
    first, numbered = 0, []
    for part in parts:
        numbered.append(replace(part, sessions=part.sessions + first))
        first += int(part.sessions.max(initial=-1)) + 1
    return Traffic(
        *(
            np.concatenate([getattr(part, field.name) for part in numbered])
            for field in fields(Traffic)
        )
    )
