"""Reads a segment record by record and checks every hash, for recovery.

The walk needs no footer and no index. Bytes before `confirmed_end` are known to have been durable,
so anything there that is not a valid record is damage. After `confirmed_end` a bad record is damage
only if a valid record follows it; otherwise it is an unfinished write at the time of a crash (a
torn tail), and the walk ends.

Records have no magic number to search for. After a bad record, the walk looks for a valid record in
three ways: by following up to eight length fields, at `known_offsets`, and at `confirmed_end`. It
continues at the first valid record that it finds. Valid records before that are missed, but none
that a manifest refers to, if the caller passes the offsets of these as `known_offsets`.

Memory is bounded by the result, and one record or a window of 1 MiB of the file.
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
    """A range of damaged bytes in a segment."""

    offset: int
    length: int
    why: str


class Walk(NamedTuple):
    """The records and the damage that were found in a segment."""

    entries: list[tuple[IndexEntry, int]]  # valid records, with the length of their data
    end: int  # after the last valid record and all damage; the file must keep all bytes before it
    torn: bool  # whether any byte after `end` is not zero
    damage: list[Damage]


class _Record(NamedTuple):
    """The bytes at an offset, interpreted as a record, which may not be valid."""

    hash: bytes
    length: int
    why: str  # why the record is not valid; empty if it is valid

    @property
    def is_plausible(self) -> bool:
        return 0 < self.length <= CHUNK_BYTES


def walk(
    file: File, *, size: int, confirmed_end: int = 0, known_offsets: Sequence[int] = ()
) -> Walk:
    """Reads the records in the first `size` bytes of a segment, and checks their hashes.

    Bytes before `confirmed_end` were durable, so a bad record there is damage and never a torn
    tail. `known_offsets` are where the data of some records starts; after a bad record, the walk
    can resume there. Raises `UnknownVersion` if the segment's header has another version.
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
            next_position = self._end_of_record(position, record)
            if next_position is None:
                break
            self._damage.append(Damage(position, next_position - position, record.why))
            position = next_position
        if position < self._confirmed_end:
            missing = self._confirmed_end - position
            self._damage.append(Damage(position, missing, "the file is too short"))
        end = min(position, self._size)
        return Walk(self._entries, end, self._has_bytes(end), self._damage)

    def _after_header(self) -> int:
        """Checks the segment's header and returns the offset after it.

        Returns 0 if the header is invalid and nothing shows that records follow it: neither a
        confirmed end nor a valid record.
        """
        header = self._read(0, SEGMENT_HEADER.size)
        if len(header) == SEGMENT_HEADER.size:
            magic, version = SEGMENT_HEADER.unpack(header)
            if magic == SEGMENT_MAGIC and version != SEGMENT_VERSION:
                raise UnknownVersion("unknown segment version", path=self._file.path, offset=0,
                                     expected=SEGMENT_VERSION, found=version)  # fmt: skip
            if magic == SEGMENT_MAGIC:
                return SEGMENT_HEADER.size
        if not self._confirmed_end and not self._is_followed():
            return 0
        self._damage.append(
            Damage(0, SEGMENT_HEADER.size, "the segment header has a wrong magic number")
        )
        return SEGMENT_HEADER.size

    def _is_followed(self) -> bool:
        """Whether there is a valid record after the header, or at one of the known offsets."""
        starts = [SEGMENT_HEADER.size, *self._starts]
        return any(not self._record(start).why for start in starts if 0 < start < self._size)

    def _end_of_record(self, position: int, record: _Record) -> int | None:
        """Returns the offset at which to continue after a bad record, or None at a torn tail."""
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
            return _Record(b"", 0, "a record is truncated")
        hash_, length = CHUNK_HEADER.values(header, 0)
        record = _Record(hash_, length, why="")
        if not record.is_plausible:
            return record._replace(why=f"a record has the impossible length {record.length}")
        data = self._read(position + CHUNK_HEADER.size, record.length)
        if len(data) < record.length:
            return record._replace(why="a record is truncated")
        if blake3(data) != record.hash:
            return record._replace(why="a record's data does not match its hash")
        return record

    def _has_bytes(self, start: int) -> bool:
        """Whether any byte from offset `start` on is not zero."""
        while start < self._size:
            piece = self._read(start, min(_WINDOW_BYTES, self._size - start))
            if not piece:
                return False
            if bytes(piece).strip(b"\0"):
                return True
            start += len(piece)
        return False

    def _read(self, offset: int, length: int) -> memoryview:
        """Returns `length` bytes at the offset, or fewer at the end of the segment."""
        length = min(length, self._size - offset)
        start = offset - self._window_start
        if start < 0 or start + length > len(self._window):
            ahead = min(max(length, _WINDOW_BYTES), self._size - offset)
            self._window = memoryview(self._file.pread(offset, ahead))
            self._window_start = offset
            start = 0
        return self._window[start : start + length]
