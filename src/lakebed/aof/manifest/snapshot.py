"""Encodes and decodes a snapshot: the state of all segments at a position in the manifest log.

    bytes = encode_snapshot(Snapshot(7, Position(12, 4096), index))
    index = decode_snapshot(bytes).index     # the state after all records before that position

A replay that starts from a snapshot gives the same result as a replay from the first record:
segments, deletes, watermark, record count and last marker. Only the counts of anomalies, and of
flagged, custom and unknown records, start at 0 again.

Decoding raises `Torn` if the file is shorter than its header states or holds only zeros,
`UnknownVersion` if another version wrote it, and `Corrupt` if it is damaged. The version field is
trusted only if the checksum matches, or if the field has a higher version and the file's size is
wrong for this version, so that one flipped bit does not look like a newer version. The counts in
the file are compared with the file's length before memory is allocated for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.aof.manifest.format import (
    DELETE_COUNT,
    MANIFEST_ITSELF,
    SNAPSHOT_ENTRY,
    SNAPSHOT_HEADER,
    SNAPSHOT_MAGIC,
    SNAPSHOT_TOTALS,
    SNAPSHOT_VERSION,
    SPAN,
    DeleteCount,
    SnapshotEntry,
    SnapshotHeader,
    SnapshotMarker,
    SnapshotTotals,
    Span,
)
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import U16_MAX, Position
from lakebed.aof.manifest.state import SegmentState
from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer
from lakebed.kernels import crc64nvme

# An entry is a state with three spans (six numbers) in place of its strings.
_STRINGS = slice(SegmentState._fields.index("key"), SegmentState._fields.index("upload_key") + 1)
_SPANS = slice(
    SnapshotEntry._fields.index("key_offset"), SnapshotEntry._fields.index("upload_key_len") + 1
)
_RESERVED = SnapshotEntry._fields.index("reserved")
assert SnapshotEntry._fields[: _SPANS.start] == SegmentState._fields[: _STRINGS.start]
assert SnapshotEntry._fields[_SPANS.stop : _RESERVED] == SegmentState._fields[_STRINGS.stop :]


@dataclass(frozen=True)
class Snapshot:
    """The state of all segments, and the position of the first record that it does not include."""

    snapshot_id: int
    position: Position
    index: ManifestIndex


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Returns the bytes of a snapshot file."""
    index = snapshot.index
    heap = _HeapWriter()
    entries = [SNAPSHOT_ENTRY.pack(_entry(state, heap)) for state in index.segments()]
    spans = [SPAN.pack(Span(*heap.add(key))) for key in index.pending_deletes]
    totals = SnapshotTotals(
        index.coordinator_watermark,
        index.last_timestamp_ms,
        index.record_count,
        *index.last_marker,
    )
    header = SnapshotHeader(
        magic=SNAPSHOT_MAGIC,
        version=SNAPSHOT_VERSION,
        header_len=SNAPSHOT_HEADER.size,
        snapshot_id=snapshot.snapshot_id,
        entry_count=len(entries),
        chunk_index=snapshot.position.chunk_index,
        chunk_offset=snapshot.position.offset,
        heap_bytes=heap.size,
        crc64=0,
    )
    body = b"".join(
        [
            *entries,
            DELETE_COUNT.pack(DeleteCount(len(spans))),
            *spans,
            SNAPSHOT_TOTALS.pack(totals),
            *heap.strings,
        ]
    )
    crc64 = crc64nvme(body, crc64nvme(SNAPSHOT_HEADER.pack(header)))
    return SNAPSHOT_HEADER.pack(header._replace(crc64=crc64)) + body


def decode_snapshot(data: Buffer, *, path: PathLike | None = None) -> Snapshot:
    """Decodes the bytes of a snapshot file; raises a `DataError` if they are not valid."""
    view = memoryview(data)
    header = _verified_header(view, path)
    try:
        return _decode_body(header, view)
    except Corrupt as error:
        raise Corrupt(
            error.problem, path=path, expected=error.expected, found=error.found
        ) from None


class _HeapWriter:
    """Collects the strings that are stored at the end of a snapshot, its heap."""

    def __init__(self) -> None:
        self.strings: list[bytes] = []
        self.size = 0

    def add(self, text: str) -> tuple[int, int]:
        """Adds the string and returns its offset and length."""
        if not text:
            return self.size, 0
        data = text.encode("utf-8", "surrogateescape")
        span = (self.size, len(data))
        self.strings.append(data)
        self.size += len(data)
        return span


class _HeapReader:
    """Reads the strings of a snapshot's heap, in the order in which they were added.

    Raises `Corrupt` if a byte of the heap belongs to two strings or to none.
    """

    def __init__(self, heap: Buffer) -> None:
        self._heap = bytes(heap)
        self._end = 0

    def take(self, offset: int, length: int) -> str:
        end = offset + length
        if offset != self._end or end > len(self._heap) or length > U16_MAX:
            raise Corrupt(
                "the snapshot gives a wrong place for a string in its heap",
                found=f"{length} bytes at {offset}",
            )
        if not length:
            return ""
        self._end = end
        return self._heap[offset:end].decode("utf-8", "surrogateescape")

    def finish(self) -> None:
        if self._end != len(self._heap):
            raise Corrupt(
                "the snapshot's heap of strings has a wrong size in bytes",
                expected=self._end,
                found=len(self._heap),
            )


def _entry(state: SegmentState, heap: _HeapWriter) -> SnapshotEntry:
    return SnapshotEntry._make(
        (
            *state[: _STRINGS.start],
            *heap.add(state.key),
            *heap.add(state.etag),
            *heap.add(state.upload_key),
            *state[_STRINGS.stop :],
            0,
        )
    )


def _verified_header(view: memoryview, path: PathLike | None) -> SnapshotHeader:
    """Checks the size, checksum and version of the whole file, and returns its header."""
    if len(view) < SNAPSHOT_HEADER.size:
        raise Torn(
            "the file is too short", path=path, expected=SNAPSHOT_HEADER.size, found=len(view)
        )
    if not any(view):
        # The file was created, but a power loss came before its first bytes were durable.
        raise Torn("the file holds only zeros", path=path, offset=0)
    header = SNAPSHOT_HEADER.unpack(view)
    if header.magic != SNAPSHOT_MAGIC:
        raise Corrupt(
            "the snapshot begins with a wrong magic number",
            path=path,
            expected=hex(SNAPSHOT_MAGIC),
            found=hex(header.magic),
        )
    size = _size(header, view)
    is_intact = len(view) == size and _crc64(header, view) == header.crc64
    if header.version != SNAPSHOT_VERSION and (
        is_intact or (header.version > SNAPSHOT_VERSION and len(view) != size)
    ):
        raise UnknownVersion("the snapshot has an unsupported version", path=path,
                             expected=SNAPSHOT_VERSION, found=header.version)  # fmt: skip
    if len(view) < size:
        raise Torn("the file is too short", path=path, expected=f"{size} bytes", found=len(view))
    if len(view) > size:
        raise Corrupt("the file is too long", path=path, expected=f"{size} bytes", found=len(view))
    if not is_intact:
        raise Corrupt("the snapshot's checksum is wrong", path=path, found=hex(header.crc64))
    if header.header_len != SNAPSHOT_HEADER.size:
        raise Corrupt("the snapshot's header gives a wrong length for itself", path=path,
                      expected=SNAPSHOT_HEADER.size, found=header.header_len)  # fmt: skip
    return header


def _size(header: SnapshotHeader, view: memoryview) -> int:
    """Returns the length that the file must have according to the counts in it.

    If the file is too short to contain all counts, returns a length that it must at least have.
    """
    deletes_at = _deletes_at(header)
    size = deletes_at + DELETE_COUNT.size + SNAPSHOT_TOTALS.size + header.heap_bytes
    if size <= len(view):
        size += DELETE_COUNT.unpack(view, deletes_at).delete_count * SPAN.size
    return size


def _deletes_at(header: SnapshotHeader) -> int:
    return SNAPSHOT_HEADER.size + header.entry_count * SNAPSHOT_ENTRY.size


def _crc64(header: SnapshotHeader, view: memoryview) -> int:
    first = SNAPSHOT_HEADER.pack(header._replace(crc64=0))
    return crc64nvme(view[SNAPSHOT_HEADER.size :], crc64nvme(first))


def _decode_body(header: SnapshotHeader, view: memoryview) -> Snapshot:
    """Decodes the bytes after the header.

    The file's checksum was verified, so an error here means that the writer has a bug.
    """
    deletes_at = _deletes_at(header)
    spans_at = deletes_at + DELETE_COUNT.size
    delete_count = DELETE_COUNT.unpack(view, deletes_at).delete_count
    totals_at = spans_at + delete_count * SPAN.size
    totals = SNAPSHOT_TOTALS.unpack(view, totals_at)
    heap = _HeapReader(view[totals_at + SNAPSHOT_TOTALS.size :])
    states = list(_states(view[SNAPSHOT_HEADER.size : deletes_at], heap))
    keys = [heap.take(*span) for span in SPAN.iter_unpack(view[spans_at:totals_at])]
    heap.finish()
    if len(set(keys)) < delete_count:
        raise Corrupt("the snapshot lists the key of a pending delete twice")
    index = ManifestIndex.restored(
        states,
        keys,
        coordinator_watermark=totals.coordinator_watermark,
        last_timestamp_ms=totals.last_timestamp_ms,
        record_count=totals.record_count,
        last_marker=SnapshotMarker(*totals[3:]),
    )
    return Snapshot(header.snapshot_id, Position(header.chunk_index, header.chunk_offset), index)


def _states(entries: memoryview, heap: _HeapReader) -> Iterator[SegmentState]:
    last_id = -1
    for entry in SNAPSHOT_ENTRY.iter_unpack(entries):
        if not last_id < entry.segment_id < MANIFEST_ITSELF:
            raise Corrupt(
                "the segment ids in the snapshot are not in ascending order",
                expected=f"> {last_id}",
                found=entry.segment_id,
            )
        if entry.reserved:
            raise Corrupt(
                "the reserved field of a segment in the snapshot is not zero",
                expected=0,
                found=entry.reserved,
            )
        last_id = entry.segment_id
        yield SegmentState._make(
            (
                *entry[: _SPANS.start],
                heap.take(entry.key_offset, entry.key_len),
                heap.take(entry.etag_offset, entry.etag_len),
                heap.take(entry.upload_key_offset, entry.upload_key_len),
                *entry[_SPANS.stop : _RESERVED],
            )
        )
