"""gzip and zstd, recognised by how they begin, so that a pipe needs no name."""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

STEP = 1 << 13
"""Bytes unpacked at once: hostile ones may swell 30,000 times."""


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Unpacker:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Unpacker:
    return zstandard.ZstdDecompressor().decompressobj()


MAGIC = {b"\x1f\x8b": _gzip, b"\x28\xb5\x2f\xfd": _zstd}


def unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks, unpacked if they are packed. Raises ``ValueError`` if they are damaged.

    ``EOFError`` if they are cut short, after all that can be unpacked.
    """
    first = next(chunks, b"")
    chunks = itertools.chain([first], chunks)
    new = next((new for magic, new in MAGIC.items() if first.startswith(magic)), None)
    return chunks if new is None else _unpack(chunks, new)


def _unpack(chunks: Iterator[bytes], new: Callable[[], _Unpacker]) -> Iterator[bytes]:
    unpacker = new()
    for chunk in chunks:
        for start in range(0, len(chunk), STEP):
            step = chunk[start : start + STEP]
            while step:
                if unpacker.eof:  # Packed files may be concatenated.
                    unpacker = new()
                try:
                    yield unpacker.decompress(step)
                except (zlib.error, zstandard.ZstdError) as error:
                    raise ValueError(f"the compressed data is damaged ({error})") from None
                step = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof:
        raise EOFError("the compressed data ends too early")


class Stream(io.RawIOBase):
    """Chunks as a file, for a buffer to be put around."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the base takes any buffer
        """Fill the buffer with what there is; 0 at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
