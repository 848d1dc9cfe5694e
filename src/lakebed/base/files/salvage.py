"""Reads files that may have bad sectors: returns the readable bytes, with zeros in place of the
others, and lists the unreadable ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import DiskError
from lakebed.base.files.protocol import File, ReadableFile
from lakebed.base.files.windows import Window
from lakebed.base.units import KIB, MIB

_READ_BYTES = 4 * MIB
PAGE_BYTES = 4 * KIB  # the unit that becomes unreadable with a bad sector


class Unreadable(NamedTuple):
    """The bytes `[start, end)` of a file, which could not be read, and the error of the read."""

    start: int
    end: int
    error: DiskError

    def __str__(self) -> str:
        return f"bytes {self.start} to {self.end - 1}: {self.error}"


class Salvaged(NamedTuple):
    """The bytes of a file, with zeros in place of those that could not be read."""

    data: memoryview
    unreadable: tuple[Unreadable, ...]


class SalvagedBytes:
    """A `ByteSource` of a file that may have bad sectors, for verification and repair.

    It returns zeros for bytes that cannot be read, so ordinary readers must not use it.
    `unreadable` lists the unreadable ranges found so far.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._pages: dict[int, Unreadable] = {}  # by start position

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
            first = start // PAGE_BYTES * PAGE_BYTES  # so that each page is recorded once
            data, pages = _read_pages(self._file, first, end)
        self._pages.update((page.start, page) for page in pages)
        return Window(memoryview(data), first)

    def close(self) -> None:
        self._file.close()


def read_around(file: ReadableFile, size: int) -> Salvaged:
    """Reads the first `size` bytes of the file, or the whole file if it is shorter, with zeros in
    place of pages that cannot be read.
    """
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
    """Reads the bytes `[start, end)` page by page. Returns them, with zeros in place of unreadable
    pages, and a list of these pages.
    """
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
    """Merges adjacent pages into ranges. `pages` must be sorted."""
    stretches: list[Unreadable] = []
    for page in pages:
        if stretches and stretches[-1].end == page.start:
            stretches[-1] = stretches[-1]._replace(end=page.end)
        else:
            stretches.append(page)
    return tuple(stretches)
