"""The files a capture is written to: JSON lines, readable up to the last flush come what may.

A file named ``.zst`` is one zstd frame in which every flush ends a block: a decoder gets all
lines up to there out of a file whose writer was killed, and prompts that repeat earlier ones
still take next to no room, which a frame of their own would not give them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import zstandard

from ..policies.errors import WactlError

ENDINGS = (".jsonl.zst", ".jsonl")
"""What a capture may be called; the first is compressed."""
BUFFER = 1 << 20
"""Bytes that may wait for a flush."""
WINDOW = 23
"""Binary exponent of how many bytes back a repetition is found: what every decoder must allow."""


class CaptureError(WactlError):
    """The capture cannot begin or go on; the text says why, and what is kept."""


class Part:
    """A new file, for this user alone. Every method may raise `CaptureError`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes on disk."""
        self.requests = 0
        """Counted by whoever writes them."""
        self._waiting = bytearray()
        packed = path.name.endswith(ENDINGS[0])
        self._packer = _packer() if packed else None
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise CaptureError(f"{path} exists already; name another file") from None
        except OSError as error:
            raise CaptureError(f"{path}: cannot be created: {error.strerror}") from None
        self._file = io.FileIO(descriptor, "w")

    @property
    def largest(self) -> int:
        """Bytes the file will have at most when everything is flushed."""
        return self.size + len(self._waiting)

    def add(self, line: bytes) -> None:
        """Take a line, its end included."""
        self._waiting += line
        if len(self._waiting) >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write all lines so far: from here on they survive the process."""
        if not self._waiting:
            return
        data = bytes(self._waiting)
        if self._packer is not None:
            data = self._packer.compress(data)
            data += self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        self._waiting.clear()
        self._write(data)

    def close(self) -> None:
        """Flush and end the file, once."""
        if self._file.closed:
            return
        self.flush()
        if self._packer is not None:
            self._write(self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        self._file.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            # The torn end is cut off; where even that fails, readers stop before it.
            with suppress(OSError):
                self._file.truncate(self.size)
            self._file.close()
            raise CaptureError(
                f"{self.path}: cannot be written: {error.strerror}; "
                f"the {self.size} bytes written before are kept and can be replayed"
            ) from None
        self.size += len(data)


def part_names(out: Path) -> Iterator[Path]:
    """``out``, then its name with 2, 3, … before the ending, as long as anybody asks.

    Raises `CaptureError` if it has another ending, or any such file is there already.
    """
    ending = next((ending for ending in ENDINGS if out.name.endswith(ending)), None)
    if ending is None:
        raise CaptureError(f"{out}: must be called {' or '.join(f'*{end}' for end in ENDINGS)}")
    stem = out.name.removesuffix(ending)
    for path in (out, *out.parent.glob(f"{stem}.*{ending}")):
        number = path.name.removeprefix(f"{stem}.").removesuffix(ending)
        if path.exists() and (path == out or number.isdecimal()):
            raise CaptureError(f"{path} exists already; name another file")
    return _numbered(out, stem, ending)


def _numbered(out: Path, stem: str, ending: str) -> Iterator[Path]:
    yield out
    number = 1
    while number := number + 1:
        yield out.with_name(f"{stem}.{number}{ending}")


def _packer() -> zstandard.ZstdCompressionObj:
    far = zstandard.ZstdCompressionParameters.from_level(3, window_log=WINDOW, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=far).compressobj()
