"""The bytes of a segment file, read window by window.

Files are read, never memory-mapped: with a memory map, a bad sector or a truncated file would cause
a signal that ends the process. If a read fails, only that read raises an error.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakebed.base.files.protocol import File


class Window(NamedTuple):
    """A part of a file: its bytes from `offset` on."""

    buffer: memoryview
    offset: int


class ByteSource(Protocol):
    """A segment file whose bytes can be read in windows."""

    @property
    def size(self) -> int: ...

    def window(self, start: int, end: int) -> Window:
        """Returns a window that contains the bytes `[start, end)`, or only those up to the end of
        the file if it ends before `end`.
        """

    def close(self) -> None: ...


class FileBytes:
    """A `ByteSource` that reads an open file on demand."""

    def __init__(self, file: File) -> None:
        self._file = file

    @property
    def size(self) -> int:
        """The current size of the file."""
        return self._file.size()

    def window(self, start: int, end: int) -> Window:
        return Window(memoryview(self._file.pread(start, end - start)), start)

    def close(self) -> None:
        self._file.close()


def open_source(file: File, *, is_sealed: bool) -> FileBytes:
    """Returns a `ByteSource` for an open file. Closing the source closes the file. `is_sealed`
    means that the file will not be changed again.
    """
    if is_sealed:
        file.declare_sealed()
    return FileBytes(file)
