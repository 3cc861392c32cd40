"""The columns of a trace while it is read: flat arrays, so that no line outlives its turn."""

from __future__ import annotations

import logging
from array import array

import numpy as np
from numpy.typing import NDArray

from ..trace import Trace
from .errors import TraceError
from .numbering import number
from .request import Request

MAX_ACCESSES = 2**31 - 1
"""Block accesses of a trace: as many as there are block numbers."""


class Columns:
    """Requests in the order of the file."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.block_tokens = 0
        self.sample = 1
        self.unseen = 0
        self.skipped = 0
        self._times = array("d")
        self._lengths = array("q")
        self._blocks = array("Q")
        self._inputs = array("i")
        self._outputs = array("i")
        self._turns = array("i")
        self._types: list[str] = []
        self._sessions: list[str] = []
        self._names: dict[str, str] = {}

    @property
    def requests(self) -> int:
        """Number of requests so far."""
        return len(self._times)

    def add(self, request: Request) -> None:
        """One more request."""
        self._times.append(request.time)
        self._lengths.append(len(request.blocks))
        self._blocks.frombytes(request.blocks.tobytes())
        self._inputs.append(request.input_tokens)
        self._outputs.append(request.output_tokens)
        self._turns.append(request.turn)
        self._types.append(self._names.setdefault(request.type, request.type))
        self._sessions.append(self._names.setdefault(request.session, request.session))
        self._check()

    def add_single(self, times: NDArray[np.uint32], blocks: NDArray[np.uint64]) -> None:
        """Requests of one block each, of which nothing else is known."""
        none = bytes(4 * len(times))
        self._times.frombytes(times.astype(np.float64).tobytes())
        self._lengths.frombytes(np.ones(len(times), np.int64).tobytes())
        self._blocks.frombytes(blocks.tobytes())
        self._inputs.frombytes(none)
        self._outputs.frombytes(none)
        self._check()

    def warn(self, remark: str) -> None:
        """Say what whoever uses the trace should know of it."""
        logging.getLogger("wactl").warning("%s: %s", self._label, remark)

    def trace(self, name: str, digest: str) -> Trace:
        """All of it in time order, blocks numbered, the first request at 0."""
        if self.requests == 0:
            broken = f", only broken lines ({self.skipped})" if self.skipped else ""
            raise TraceError(f"{self._label}: holds no requests{broken}")
        order = self._order()
        lengths = np.array(self._lengths)
        blocks = np.frombuffer(self._blocks, np.uint64)
        if order is not None:
            blocks = _reordered(blocks, lengths, order)
        else:
            order = np.arange(self.requests)
        offsets = np.concatenate(([0], np.cumsum(lengths[order])))
        numbers, distinct = number(blocks, offsets)
        times = np.array(self._times)[order]
        return Trace(
            name=name,
            times=times - times[0],
            offsets=offsets,
            blocks=numbers,
            distinct=distinct,
            input_tokens=np.array(self._inputs)[order],
            output_tokens=np.array(self._outputs)[order],
            types=[self._types[i] for i in order] if any(self._types) else None,
            turns=np.array(self._turns)[order] if any(self._turns) else None,
            sessions=[self._sessions[i] for i in order] if any(self._sessions) else None,
            block_tokens=self.block_tokens,
            sample=self.sample,
            unseen=self.unseen,
            skipped=self.skipped,
            digest=digest,
        )

    def _order(self) -> NDArray[np.int64] | None:
        """The order of time, None if that is the file's."""
        times = np.array(self._times)
        if np.all(times[1:] >= times[:-1]):
            return None
        self.warn("requests are not in time order and were sorted")
        return np.argsort(times, kind="stable")

    def _check(self) -> None:
        if len(self._blocks) > MAX_ACCESSES:
            raise TraceError(
                f"{self._label}: has more than {MAX_ACCESSES} block accesses; set a limit"
            )


def _reordered(
    blocks: NDArray[np.uint64], lengths: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.uint64]:
    starts = np.cumsum(lengths) - lengths
    return np.concatenate([blocks[starts[i] : starts[i] + lengths[i]] for i in order])
