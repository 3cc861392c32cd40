"""A trace as a file of wactl's capture form (docs/capture.md), which every replay reads.

The same trace gives the same bytes, packed or not: gzip's header holds neither name nor time.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard

from ..readers.capture import VERSION
from ..trace import Trace
from .plan import GenerateError, Plan

Put = Callable[[bytes], object]
"""Takes the next bytes."""


def write(trace: Trace, plan: Plan, out: str) -> None:
    """Write a trace that declares types, turns and sessions to a new file.

    ``out`` is its name, packed if that is ``*.gz`` or ``*.zst``, or ``-`` for standard output.
    Raises `GenerateError`; of a file that cannot be finished nothing is left.
    """
    with _standard_output() if out == "-" else _new_file(Path(out)) as put:
        for line in _lines(trace, plan):
            put(line + b"\n")


def _lines(trace: Trace, plan: Plan) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    about = {"wactl_capture": VERSION, "block_tokens": trace.block_tokens, "preset": trace.name}
    yield encode({**about, **{name: getattr(plan, name) for name in plan.__dataclass_fields__}})
    assert trace.types is not None and trace.turns is not None and trace.sessions is not None
    for i in range(trace.requests):
        row = {
            "t": float(trace.times[i]),
            "in": int(trace.input_tokens[i]),
            "out": int(trace.output_tokens[i]),
            "b": trace.prompt(i).tolist(),
            "type": trace.types[i],
            "turn": int(trace.turns[i]),
            "session": trace.sessions[i],
        }
        yield encode(row)


@contextmanager
def _standard_output() -> Iterator[Put]:
    try:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    except OSError as error:
        # What is still buffered has nowhere to go; the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise GenerateError(f"standard output: cannot be written: {error.strerror}") from None


@contextmanager
def _new_file(path: Path) -> Iterator[Put]:
    try:
        raw = path.open("xb")
    except FileExistsError:
        raise GenerateError(f"{path} exists already; name another file") from None
    except OSError as error:
        raise GenerateError(f"{path}: cannot be created: {error.strerror}") from None
    try:
        with raw, _packer(raw, path.suffix) as file:
            yield file.write
    except BaseException as error:
        path.unlink()
        if isinstance(error, OSError):
            raise GenerateError(f"{path}: cannot be written: {error.strerror}") from None
        raise


def _packer(
    raw: BinaryIO, suffix: str
) -> BinaryIO | gzip.GzipFile | zstandard.ZstdCompressionWriter:
    """What packs into the file as its name says, the file itself for any other name."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 6, raw, 0)
    if suffix == ".zst":
        return zstandard.ZstdCompressor().stream_writer(raw)
    return raw
