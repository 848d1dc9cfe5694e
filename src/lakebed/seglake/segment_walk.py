"""Reads a segment record by record and checks every hash: for recovery and verification.

It needs no footer and no index. Bytes below `confirmed_end` are known to have been durable; there
everything that is not a record is damage. From there on, a bad record is damage only if a whole
one is found behind it; with none behind it, it is the torn tail of a crash, and the walk ends.

Records have no magic to look for. Behind a bad record the next one is looked for where lengths
lead to (a few records far), where `known_offsets` has one, and at `confirmed_end`: the first whole
one of these. What lies between may be lost; what manifests refer to is among the known.

Memory: one record, or a window of 1 MiB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from lakebed.base.errors import UnknownVersion
from lakebed.base.files import File
from lakebed.kernels.checksum import blake3
from lakebed.seglake.format import (
    CHUNK_HEADER,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    IndexEntry,
)
from lakebed.seglake.model import CHUNK_BYTES

_WINDOW_BYTES = 1 << 20
_HOPS_MAX = 8


class Damage(NamedTuple):
    """Bytes that are not what they were."""

    offset: int
    length: int
    why: str


class Walk(NamedTuple):
    """What a segment holds."""

    entries: list[tuple[IndexEntry, int]]  # and the length of the data
    end: int  # behind the last whole record, and behind all damage in the file: cut nothing before
    torn: bool  # bytes other than zeros are behind it
    damage: list[Damage]


class _Record(NamedTuple):
    """What stands at a place where a record could begin."""

    hash: bytes
    length: int
    why: str  # it is not whole; empty if it is

    @property
    def is_plausible(self) -> bool:
        return 0 < self.length <= CHUNK_BYTES


def walk(
    file: File, *, size: int, confirmed_end: int = 0, known_offsets: Sequence[int] = ()
) -> Walk:
    """The records of the file's first `size` bytes.

    `known_offsets` are those of the data. `UnknownVersion` if the header has another version.
    """
    return _Walker(file, size, confirmed_end, known_offsets).walk()


class _Walker:
    def __init__(self, file: File, size: int, confirmed_end: int, known: Sequence[int]) -> None:
        self._file = file
        self._size = size
        self._confirmed_end = confirmed_end
        starts = {offset - CHUNK_HEADER.size for offset in known}
        self._starts = sorted(starts | {confirmed_end})
        self._window = memoryview(b"")
        self._window_start = 0
        self._entries: list[tuple[IndexEntry, int]] = []
        self._damage: list[Damage] = []

    def walk(self) -> Walk:
        position = self._after_header()
        while 0 < position < self._size:
            record = self._record(position)
            if not record.why:
                data_at = position + CHUNK_HEADER.size
                self._entries.append((IndexEntry(data_at, record.hash), record.length))
                position = data_at + record.length
                continue
            behind = self._end_of_record(position, record)
            if behind is None:
                break
            self._damage.append(Damage(position, behind - position, record.why))
            position = behind
        if position < self._confirmed_end:
            missing = self._confirmed_end - position
            self._damage.append(Damage(position, missing, "the file is too short"))
        end = min(position, self._size)
        return Walk(self._entries, end, self._has_bytes(end), self._damage)

    def _after_header(self) -> int:
        """Where the records begin; 0 if none do."""
        header = self._read(0, SEGMENT_HEADER.size)
        if len(header) == SEGMENT_HEADER.size:
            magic, version = SEGMENT_HEADER.unpack(header)
            if magic == SEGMENT_MAGIC and version != SEGMENT_VERSION:
                raise UnknownVersion("not a version that is read", path=self._file.path, offset=0,
                                     expected=SEGMENT_VERSION, found=version)  # fmt: skip
            if magic == SEGMENT_MAGIC:
                return SEGMENT_HEADER.size
        if not self._confirmed_end and not self._is_followed():
            return 0
        self._damage.append(Damage(0, SEGMENT_HEADER.size, "wrong magic"))
        return SEGMENT_HEADER.size

    def _is_followed(self) -> bool:
        """Whether a whole record is behind a header that is not one."""
        starts = [SEGMENT_HEADER.size, *self._starts]
        return any(not self._record(start).why for start in starts if 0 < start < self._size)

    def _end_of_record(self, position: int, record: _Record) -> int | None:
        """Where to go on behind a bad record; None at the end of what is there."""
        by_length = self._whole_by_length(position, record)
        until = self._size if by_length is None else by_length
        for start in self._starts[bisect_right(self._starts, position) :]:
            if start >= until:
                break
            if not self._record(start).why:
                return start
        if by_length is not None:
            return by_length
        return min(self._confirmed_end, self._size) if position < self._confirmed_end else None

    def _whole_by_length(self, position: int, record: _Record) -> int | None:
        for _ in range(_HOPS_MAX):
            position += CHUNK_HEADER.size + record.length
            if not record.is_plausible or position >= self._size:
                return None
            record = self._record(position)
            if not record.why:
                return position
        return None

    def _record(self, position: int) -> _Record:
        header = self._read(position, CHUNK_HEADER.size)
        if len(header) < CHUNK_HEADER.size:
            return _Record(b"", 0, "a record is cut short")
        hash_, length = CHUNK_HEADER.values(header, 0)
        record = _Record(hash_, length, why="")
        if not record.is_plausible:
            return record._replace(why=f"a record's length is {record.length}")
        data = self._read(position + CHUNK_HEADER.size, record.length)
        if len(data) < record.length:
            return record._replace(why="a record is cut short")
        if blake3(data) != record.hash:
            return record._replace(why="a record's data does not match its hash")
        return record

    def _has_bytes(self, start: int) -> bool:
        """Whether anything but zeros is from there on."""
        while start < self._size:
            piece = self._read(start, min(_WINDOW_BYTES, self._size - start))
            if not piece:
                return False
            if bytes(piece).strip(b"\0"):
                return True
            start += len(piece)
        return False

    def _read(self, offset: int, length: int) -> memoryview:
        """Fewer bytes only at the end of what is there."""
        length = min(length, self._size - offset)
        start = offset - self._window_start
        if start < 0 or start + length > len(self._window):
            ahead = min(max(length, _WINDOW_BYTES), self._size - offset)
            self._window = memoryview(self._file.pread(offset, ahead))
            self._window_start = offset
            start = 0
        return self._window[start : start + length]
