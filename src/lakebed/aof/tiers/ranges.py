"""Bytes that can be read in ranges, from a local file, memory or an object of Tier 2.

Code that reads warm files or uploads takes one of these sources. The source for objects is
`object_store.ObjectSource`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lakebed.base.errors import Corrupt
from lakebed.base.files import File
from lakebed.base.units import MIB
from lakebed.kernels import crc64nvme

_PIECE_BYTES = MIB


class RangeSource(Protocol):
    """Bytes that do not change while they are read. Thread-safe."""

    @property
    def name(self) -> str:
        """A path or a key, for error messages."""

    @property
    def size(self) -> int: ...

    def read_range(self, offset: int, length: int) -> bytes:
        """Returns all of `[offset, offset + length)`, which must be within the source.

        Raises if fewer bytes can be read.
        """

    def close(self) -> None:
        """Closes the underlying file. Idempotent."""


class FileSource:
    """A complete file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.name = file.path
        self.size = file.size()

    def read_range(self, offset: int, length: int) -> bytes:
        data = self._file.pread(offset, length)
        if len(data) != length:
            raise Corrupt(
                "the file ended early: it was truncated while it was being read",
                path=self.name,
                offset=offset,
                expected=f"{length} bytes",
                found=len(data),
            )
        return data

    def close(self) -> None:
        self._file.close()


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes, *, name: str = "memory") -> None:
        self._data = data
        self.name = name
        self.size = len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def pieces(source: RangeSource, *, bytes_max: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Yields all of the source in order, in pieces of `bytes_max`."""
    for offset in range(0, source.size, bytes_max):
        yield source.read_range(offset, min(bytes_max, source.size - offset))


def crc64_of(source: RangeSource) -> int:
    """Returns the crc64-nvme of the whole source."""
    crc = 0
    for piece in pieces(source):
        crc = crc64nvme(piece, crc)
    return crc
