"""Bytes that can be read in ranges, wherever they are: a local file, memory, an object of Tier 2.

Whoever reads a warm file, or uploads something, is given one of these and nothing else. The one
for objects is `object_store.ObjectSource`.
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
        """For errors: a path or a key."""

    @property
    def size(self) -> int: ...

    def read_range(self, offset: int, length: int) -> bytes:
        """All of `[offset, offset + length)`, which must lie inside; less than that is an error."""

    def close(self) -> None:
        """Let go of what it reads from. Idempotent."""


class FileSource:
    """A file that is complete."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.name = file.path
        self.size = file.size()

    def read_range(self, offset: int, length: int) -> bytes:
        data = self._file.pread(offset, length)
        if len(data) != length:
            raise Corrupt(
                "the file became shorter",
                path=self.name,
                offset=offset,
                expected=f"{length} bytes",
                found=len(data),
            )
        return data

    def close(self) -> None:
        self._file.close()


class BytesSource:
    """What is in memory already."""

    def __init__(self, data: bytes, *, name: str = "memory") -> None:
        self._data = data
        self.name = name
        self.size = len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Nothing to let go of."""


def pieces(source: RangeSource, *, bytes_max: int = _PIECE_BYTES) -> Iterator[bytes]:
    """All of it, in order."""
    for offset in range(0, source.size, bytes_max):
        yield source.read_range(offset, min(bytes_max, source.size - offset))


def crc64_of(source: RangeSource) -> int:
    """The crc64-nvme of all of it."""
    crc = 0
    for piece in pieces(source):
        crc = crc64nvme(piece, crc)
    return crc
