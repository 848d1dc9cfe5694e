"""The two indexes of a segment: `.idx` finds records by offset, `.tidx` by timestamp.

Both are derived from the log, and recovery rebuilds them from it when that is needed. Only their
headers have a checksum. So a reader must verify that an index entry leads to the expected record.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file
from lakebed.base.layout import Buffer, Layout
from lakebed.base.units import MIB
from lakebed.keratin.format import (
    HEADER_BYTES_MAX,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_MAGIC,
    RECORDS_START,
    TIME_ENTRY,
    TIME_INDEX_MAGIC,
    VERSION,
    IndexEntry,
    IndexHeader,
    TimeEntry,
)
from lakebed.kernels import crc32c

INDEX_BYTES_MAX = 256 * MIB
_CHECKED_BYTES = INDEX_HEADER.offset_of("crc32c")
Entry = TypeVar("Entry", IndexEntry, TimeEntry)


class Indexes(NamedTuple):
    """The index entries of one segment, oldest first."""

    places: Sequence[IndexEntry]
    times: Sequence[TimeEntry]


def encode_index_header(magic: bytes, *, base_offset: int, created_ms: int) -> bytes:
    header = IndexHeader(
        magic=magic,
        version=VERSION,
        flags=0,
        header_length=INDEX_HEADER.size,
        base_offset=base_offset,
        created_ms=created_ms,
        entry_length=INDEX_ENTRY.size,
        reserved=0,
        reserved_more=bytes(32),
        crc32c=0,
    )
    crc = crc32c(INDEX_HEADER.pack(header)[:_CHECKED_BYTES])
    return INDEX_HEADER.pack(header._replace(crc32c=crc))


def encode_index(entries: Sequence[IndexEntry], *, base_offset: int, created_ms: int) -> bytes:
    """Returns the contents of an `.idx` file."""
    header = encode_index_header(INDEX_MAGIC, base_offset=base_offset, created_ms=created_ms)
    return b"".join([header, *map(INDEX_ENTRY.pack, entries)])


def encode_time_index(entries: Sequence[TimeEntry], *, base_offset: int, created_ms: int) -> bytes:
    """Returns the contents of a `.tidx` file."""
    header = encode_index_header(TIME_INDEX_MAGIC, base_offset=base_offset, created_ms=created_ms)
    return b"".join([header, *map(TIME_ENTRY.pack, entries)])


def load_index(disk: Disk, path: PathLike, *, base_offset: int) -> list[IndexEntry]:
    """Returns the entries of an `.idx` file, up to the first entry that is out of order.

    Raises `NotFound` if there is no such file, `Corrupt` if it is not a valid index of this
    segment, and `UnknownVersion` if a newer release wrote it.
    """
    data = read_file(disk, path, size_max=INDEX_BYTES_MAX)
    return decode_index(data, path=path, base_offset=base_offset)


def load_time_index(disk: Disk, path: PathLike, *, base_offset: int) -> list[TimeEntry]:
    """Returns the entries of a `.tidx` file; otherwise the same as `load_index`."""
    data = read_file(disk, path, size_max=INDEX_BYTES_MAX)
    return decode_time_index(data, path=path, base_offset=base_offset)


def decode_index(data: Buffer, *, path: PathLike, base_offset: int) -> list[IndexEntry]:
    entries = _entries(data, INDEX_MAGIC, INDEX_ENTRY, path=path, base_offset=base_offset)
    good: list[IndexEntry] = []
    last = IndexEntry(-1, 0, RECORDS_START - 1)
    for entry in entries:
        # Zeros after the last entry, or leftovers of a crash, are recognized by the order.
        if entry.relative_offset <= last.relative_offset or entry.position <= last.position:
            break
        good.append(entry)
        last = entry
    return good


def decode_time_index(data: Buffer, *, path: PathLike, base_offset: int) -> list[TimeEntry]:
    entries = _entries(data, TIME_INDEX_MAGIC, TIME_ENTRY, path=path, base_offset=base_offset)
    good: list[TimeEntry] = []
    last = TimeEntry(0, -1, 0)
    for entry in entries:
        if entry.relative_offset < last.relative_offset or entry.timestamp_ms < last.timestamp_ms:
            break
        good.append(entry)
        last = entry
    return good


def position_for(places: Sequence[IndexEntry], relative_offset: int) -> int:
    """Returns the position of the last indexed record at or before `relative_offset`.

    Returns `RECORDS_START` if no such record is indexed.
    """
    index = bisect_right(places, relative_offset, key=lambda entry: entry.relative_offset)
    return places[index - 1].position if index else RECORDS_START


def time_entry_before(times: Sequence[TimeEntry], timestamp_ms: int) -> TimeEntry | None:
    """Returns the last entry with a timestamp below `timestamp_ms`, or None if there is none."""
    index = bisect_left(times, timestamp_ms, key=lambda entry: entry.timestamp_ms)
    return times[index - 1] if index else None


def _entries(
    data: Buffer, magic: bytes, layout: Layout[Entry], *, path: PathLike, base_offset: int
) -> list[Entry]:
    if len(data) < INDEX_HEADER.size:
        raise Corrupt("the index is shorter than its header", path=path, offset=0, found=len(data))
    header = INDEX_HEADER.unpack(data)
    crc = crc32c(data[:_CHECKED_BYTES])
    start = header.header_length
    if INDEX_HEADER.size < start <= HEADER_BYTES_MAX:  # it has additional, unknown fields
        crc = crc32c(data[INDEX_HEADER.size : start], crc)
    is_sound = crc == header.crc32c
    if header.magic == magic and header.version > VERSION and is_sound:
        raise UnknownVersion(
            "unsupported index version", path=path, expected=VERSION, found=header.version
        )
    expected = (magic, base_offset, layout.size)
    actual = (header.magic, header.base_offset, header.entry_length)
    is_length_right = INDEX_HEADER.size <= start <= min(HEADER_BYTES_MAX, len(data))
    if actual != expected or not is_length_right or not is_sound:
        raise Corrupt(
            "not a valid index of this segment: a field of its header or its checksum is wrong",
            path=path,
            expected=expected,
            found=actual,
        )
    whole = (len(data) - start) // layout.size * layout.size
    return list(layout.iter_unpack(data[start : start + whole]))
