"""The bytes of a trace: from a file or standard input, unpacked, hashed, counted."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import CutShort, TraceError
from .packing import Stream, unpacked

CHUNK = 1 << 20
"""Bytes read at once."""
MAX_LINE = 1 << 26
"""Bytes of a line: far more than a prompt of a million one-token blocks takes."""

Progress = Callable[[int, int], None]
"""Called with the bytes read and the bytes in all, 0 if unknown."""


class Source:
    """One trace being read; to be closed. Every method may raise `TraceError`."""

    def __init__(self, path: str, progress: Progress) -> None:
        self.label = "standard input" if path == "-" else path
        self._progress = progress
        self._digest = hashlib.sha256()
        self._standard = path == "-"
        self._total = 0
        self._raw: BinaryIO = sys.stdin.buffer
        try:
            if not self._standard:
                self._total = Path(path).stat().st_size
                self._raw = Path(path).open("rb")  # noqa: SIM115 (`close` closes it)
            self._file = io.BufferedReader(Stream(unpacked(self._chunks())), CHUNK)
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from None

    def close(self) -> None:
        """Close the file; standard input is not ours to close."""
        if not self._standard:
            self._raw.close()

    @property
    def digest(self) -> str:
        """SHA-256 of the unpacked bytes given out so far."""
        return self._digest.hexdigest()

    def head(self, size: int) -> bytes:
        """The first bytes, which stay to be read."""
        return self._held(lambda: self._file.peek(size)[:size])

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        data = self._held(lambda: self._file.read(size))
        self._digest.update(data)
        return data

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their numbers."""
        number = 0
        while line := self._held(lambda: self._file.readline(MAX_LINE)):
            number += 1
            if len(line) == MAX_LINE:
                raise TraceError(f"{self.label}:{number}: is longer than {MAX_LINE} bytes")
            self._digest.update(line)
            if not line.isspace():
                yield number, line

    def _held(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except EOFError as error:
            raise CutShort(f"{self.label}: cannot be read: {error}") from None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from None

    def _chunks(self) -> Iterator[bytes]:
        done = 0
        while chunk := self._raw.read(CHUNK):
            done += len(chunk)
            self._progress(done, self._total)
            yield chunk

    def _unreadable(self, error: Exception) -> TraceError:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        return TraceError(f"{self.label}: cannot be read: {reason}")
