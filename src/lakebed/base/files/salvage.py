"""Reads files that may have bad sectors: everything that can be read, and a list of what cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import DiskError
from lakebed.base.files.protocol import File, ReadableFile
from lakebed.base.files.windows import Window
from lakebed.base.units import KIB, MIB

_READ_BYTES = 4 * MIB
PAGE_BYTES = 4 * KIB  # what a bad sector takes with it


class Unreadable(NamedTuple):
    """Bytes `[start, end)` that the device could not read."""

    start: int
    end: int
    error: DiskError

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end - 1}: {self.error}"


class Salvaged(NamedTuple):
    """The bytes of a file, with zeros where they could not be read."""

    data: memoryview
    unreadable: tuple[Unreadable, ...]


class SalvagedBytes:
    """A `ByteSource` of such a file, for verification and repair. `unreadable` lists what could
    not be read so far. Ordinary readers must not use it, because the zeros are not what was
    written.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._pages: dict[int, Unreadable] = {}  # by where they begin

    @property
    def size(self) -> int:
        return self._file.size()

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        return _merged(self._pages[start] for start in sorted(self._pages))

    def window(self, start: int, end: int) -> Window:
        try:
            return Window(memoryview(self._file.pread(start, end - start)), start)
        except DiskError:
            first = start // PAGE_BYTES * PAGE_BYTES  # so that a page is noted once
            data, pages = _read_pages(self._file, first, end)
        self._pages.update((page.start, page) for page in pages)
        return Window(memoryview(data), first)

    def close(self) -> None:
        self._file.close()


def read_around(file: ReadableFile, size: int) -> Salvaged:
    """Returns the first `size` bytes of the file, as far as they exist."""
    pieces: list[bytes] = []
    pages: list[Unreadable] = []
    for start in range(0, size, _READ_BYTES):
        end = min(size, start + _READ_BYTES)
        try:
            pieces.append(file.pread(start, end - start))
        except DiskError:
            data, bad = _read_pages(file, start, end)
            pieces.append(data)
            pages += bad
    return Salvaged(memoryview(b"".join(pieces)), _merged(pages))


def _read_pages(file: ReadableFile, start: int, end: int) -> tuple[bytes, list[Unreadable]]:
    """Reads page by page, and returns the pages that cannot be read."""
    pieces: list[bytes] = []
    pages: list[Unreadable] = []
    for page in range(start, end, PAGE_BYTES):
        page_end = min(end, page + PAGE_BYTES)
        try:
            pieces.append(file.pread(page, page_end - page))
        except DiskError as error:
            pieces.append(bytes(page_end - page))
            pages.append(Unreadable(page, page_end, error))
    return b"".join(pieces), pages


def _merged(pages: Iterable[Unreadable]) -> tuple[Unreadable, ...]:
    """Merges adjacent pages, which are in order, into ranges."""
    stretches: list[Unreadable] = []
    for page in pages:
        if stretches and stretches[-1].end == page.start:
            stretches[-1] = stretches[-1]._replace(end=page.end)
        else:
            stretches.append(page)
    return tuple(stretches)
