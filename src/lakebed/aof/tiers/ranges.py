"""Sources of bytes that are read in ranges: local files, memory, and objects of Tier 2.

Warm files are read from a source, and objects are uploaded from a source. The source for objects
is `object_store.ObjectSource`.
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
    """The interface of a source. Its bytes do not change while they are read. Thread-safe."""

    @property
    def name(self) -> str:
        """The path or key of the source, for error messages."""

    @property
    def size(self) -> int: ...

    def read_range(self, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset` on; the range must be within the source.

        Raises an error if fewer bytes can be read.
        """

    def close(self) -> None:
        """Closes the file, if the source has one. Idempotent."""


class FileSource:
    """A source that reads a file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.name = file.path
        self.size = file.size()

    def read_range(self, offset: int, length: int) -> bytes:
        data = self._file.pread(offset, length)
        if len(data) != length:
            raise Corrupt(
                "the file was truncated while it was being read",
                path=self.name,
                offset=offset,
                expected=f"{length} bytes",
                found=len(data),
            )
        return data

    def close(self) -> None:
        self._file.close()


class BytesSource:
    """A source that reads bytes in memory."""

    def __init__(self, data: bytes, *, name: str = "memory") -> None:
        self._data = data
        self.name = name
        self.size = len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Does nothing: bytes in memory need not be closed."""


def pieces(source: RangeSource, *, bytes_max: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Yields all bytes of the source in order, in pieces of at most `bytes_max` bytes."""
    for offset in range(0, source.size, bytes_max):
        yield source.read_range(offset, min(bytes_max, source.size - offset))


def crc64_of(source: RangeSource) -> int:
    """Returns the crc64-nvme checksum of all bytes of the source."""
    crc = 0
    for piece in pieces(source):
        crc = crc64nvme(piece, crc)
    return crc
