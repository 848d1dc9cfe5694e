"""The bytes of a segment file, read window by window.

Files are read and never mapped: a bad sector or a truncated file fails that one read. With a memory
map it would be a signal that ends the process.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from lakebed.base.files.protocol import File


class Window(NamedTuple):
    """Bytes of a file, starting at `offset`."""

    buffer: memoryview
    offset: int


class ByteSource(Protocol):
    """The bytes of a segment's file."""

    @property
    def size(self) -> int: ...

    def window(self, start: int, end: int) -> Window:
        """Returns bytes that contain `[start, end)`, as far as the file has them."""

    def close(self) -> None: ...


class FileBytes:
    """A file on disk, read on demand."""

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


def open_source(file: File, *, is_sealed: bool) -> FileBytes:
    """Wraps a file that was just opened. The result owns the file."""
    if is_sealed:
        file.declare_sealed()
    return FileBytes(file)
