"""The bytes of a file that records are read from: mapped as a whole, or read piece by piece.

A sealed file is mapped: its bytes never change, and scans copy nothing. One that is still written
is read in windows.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakebed.base.files.protocol import File


class Window(NamedTuple):
    """Bytes of a file, from `offset` on."""

    buffer: memoryview
    offset: int


class ByteSource(Protocol):
    """The bytes of a segment's file."""

    is_mapped: bool

    @property
    def size(self) -> int: ...

    def window(self, start: int, end: int) -> Window:
        """Bytes that contain `[start, end)`, as far as the file has them."""

    def close(self) -> None: ...


class MappedBytes:
    """All of a sealed file, at no cost; the window is always the whole."""

    is_mapped = True

    def __init__(self, file: File) -> None:
        self._whole = Window(file.map(), 0)
        self.size = len(self._whole.buffer)

    def window(self, start: int, end: int) -> Window:  # noqa: ARG002 - all of it, always
        return self._whole

    def close(self) -> None:
        """The map ends with its last view, which may be a reader's."""
        self._whole = Window(memoryview(b""), 0)


class FileBytes:
    """A file that is still written: what is asked for is read."""

    is_mapped = False

    def __init__(self, file: File) -> None:
        self._file = file

    @property
    def size(self) -> int:
        """As it is now."""
        return self._file.size()

    def window(self, start: int, end: int) -> Window:
        return Window(memoryview(self._file.pread(start, end - start)), start)

    def close(self) -> None:
        self._file.close()


def open_source(file: File, *, is_sealed: bool) -> ByteSource:
    """The bytes of a file just opened, which belongs to what is returned."""
    if not is_sealed:
        return FileBytes(file)
    with file:
        return MappedBytes(file)
