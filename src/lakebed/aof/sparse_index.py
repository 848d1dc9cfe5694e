"""The optional index of a sealed segment, which speeds up searches by time.

Each entry has the offset of a record and the largest timestamp before that offset. The index is
created when the segment is sealed, if `enable_sparse_index` is set. If the index is missing,
damaged or of another version, searches read the segment from its start.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_left
from collections.abc import Sequence

from lakebed.aof.format import (
    RECORDS_START,
    SPARSE_INDEX_ENTRY,
    SPARSE_INDEX_HEADER,
    SPARSE_INDEX_MAGIC,
    SPARSE_INDEX_VERSION,
    SparseIndexEntry,
    SparseIndexHeader,
)
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import Disk, read_file, replace_atomically
from lakebed.base.units import KIB, MIB
from lakebed.kernels import aof_scan, crc64nvme

_log = logging.getLogger(__name__)

INDEX_SUFFIX = ".idx"
STRIDE_BYTES = 64 * KIB
INDEX_BYTES_MAX = MIB  # far more than a 1 GiB segment needs


def index_path(segment_path: str) -> str:
    return segment_path.removesuffix(".seg") + INDEX_SUFFIX


def write_index(disk: Disk, segment_path: str, *, segment_id: int, end: int) -> None:
    """Writes the index of a sealed segment. If that fails, only logs the error."""
    try:
        with disk.open(segment_path) as file:
            data = file.pread(0, end)
        replace_atomically(disk, index_path(segment_path), encode_index(segment_id, _entries(data)))
    except LakebedError as error:
        _log.warning("the sparse index could not be written: %s", error)


def remove_index(disk: Disk, segment_path: str) -> None:
    with contextlib.suppress(NotFound):
        disk.unlink(index_path(segment_path))


def load_index(disk: Disk, segment_path: str, *, segment_id: int) -> Sequence[SparseIndexEntry]:
    """Returns the entries of a segment's index in order; empty if there is no valid index."""
    try:
        data = read_file(disk, index_path(segment_path), size_max=INDEX_BYTES_MAX)
        return decode_index(data, segment_id=segment_id)
    except LakebedError:
        return ()


def start_for_timestamp(entries: Sequence[SparseIndexEntry], timestamp_ns: int) -> int:
    """Returns the offset at which to begin a search for `timestamp_ns`.

    All records before that offset are older.
    """
    index = bisect_left(entries, timestamp_ns, key=lambda entry: entry.timestamp_before)
    return entries[index - 1].offset if index else RECORDS_START


def encode_index(segment_id: int, entries: Sequence[SparseIndexEntry]) -> bytes:
    body = b"".join(map(SPARSE_INDEX_ENTRY.pack, entries))
    header = SparseIndexHeader(
        magic=SPARSE_INDEX_MAGIC,
        version=SPARSE_INDEX_VERSION,
        reserved=0,
        segment_index=segment_id,
        stride_bytes=STRIDE_BYTES,
        entry_count=len(entries),
        crc64=crc64nvme(body),
    )
    return SPARSE_INDEX_HEADER.pack(header) + body


def decode_index(data: bytes, *, segment_id: int) -> Sequence[SparseIndexEntry]:
    """Decodes an index file; returns no entries if it is not a valid index of that segment."""
    if len(data) < SPARSE_INDEX_HEADER.size:
        return ()
    header = SPARSE_INDEX_HEADER.unpack(data)
    body = data[SPARSE_INDEX_HEADER.size :]
    expected = (SPARSE_INDEX_MAGIC, SPARSE_INDEX_VERSION, segment_id)
    if (header.magic, header.version, header.segment_index) != expected:
        return ()
    if len(body) != header.entry_count * SPARSE_INDEX_ENTRY.size:
        return ()
    if crc64nvme(body) != header.crc64:
        return ()
    return tuple(SPARSE_INDEX_ENTRY.iter_unpack(body))


def _entries(data: bytes) -> list[SparseIndexEntry]:
    scan = aof_scan(data, RECORDS_START, len(data), count_max=len(data))
    entries: list[SparseIndexEntry] = []
    last, newest, noted = RECORDS_START, 0, 0
    for index, offset in enumerate(scan.offsets):
        if offset - last >= STRIDE_BYTES:
            newest = max(newest, *scan.timestamps[noted:index])
            entries.append(SparseIndexEntry(offset, newest))
            last, noted = offset, index
    return entries
