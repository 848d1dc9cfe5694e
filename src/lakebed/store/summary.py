"""What a log is like, told from its files alone: its segments, how far it reaches, where it lies.

Sealed segments tell by their footers, which are read and not the records; the records of unsealed
ones are counted up to the durable end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from lakebed.aof import durable_end
from lakebed.aof.footer import decode_footer
from lakebed.aof.format import FOOTER_BYTES, SEGMENT_HEADER, SegmentFooter, records_end_max
from lakebed.aof.paths import SPARE_SUFFIX, ArchivedName, LogPaths
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import Disk
from lakebed.store.read_only import ReadOnlyStore


class SegmentSummary(NamedTuple):
    """One segment. Times are ns since 1970; `sealed_at` is None while it is not sealed."""

    segment_id: int
    base_offset: int
    created_at: int
    sealed_at: int | None
    bytes: int  # up to the end of its records
    file_bytes: int
    records: int
    state: str  # active, unsealed (full, its footer is not written yet), sealed, archived
    path: str
    flush_failure: bool


class LogSummary(NamedTuple):
    """One log."""

    name: str
    oldest: RecordId | None  # where its first segment's records begin
    durable_end: RecordId
    coordinator_watermark: int
    writer_epoch: int  # how often it was opened for writing
    segments: tuple[SegmentSummary, ...]
    spare_files: int
    ignored_files: int

    def count(self, *states: str) -> int:
        return sum(segment.state in states for segment in self.segments)

    def total_bytes(self, *states: str) -> int:
        return sum(segment.bytes for segment in self.segments if segment.state in states)


RESIDENT_STATES = ("active", "unsealed", "sealed")


def summarise_log(store: ReadOnlyStore, name: str) -> LogSummary:
    """All there is to say about a log without reading its sealed records."""
    log = store.log(name)
    paths = LogPaths(store.root, name)
    end = log.durable_end()
    published = durable_end.load(store.disk, paths.durable_end)
    resident = tuple(summarise_segments(store, name))
    names = store.disk.names(paths.segments)
    return LogSummary(
        name=name,
        oldest=_oldest(resident),
        durable_end=end,
        coordinator_watermark=published.coordinator_watermark if published else 0,
        writer_epoch=published.writer_epoch if published else 0,
        segments=(*archived_segments(store.disk, paths), *resident),
        spare_files=sum(name.endswith(SPARE_SUFFIX) for name in names),
        ignored_files=log.ignored_count,
    )


def summarise_segments(store: ReadOnlyStore, name: str) -> Iterator[SegmentSummary]:
    """The segments of a log, oldest first; those in its archive are not among them."""
    log = store.log(name)
    end = log.durable_end()
    infos = log.segments()
    for info in infos:
        footer, file_bytes = _footer(store.disk, info.path)
        if footer is not None:
            yield _sealed(info, footer, file_bytes)
        elif file_bytes:
            is_last = info.segment_id == infos[-1].segment_id
            yield _unsealed(store, name, info, end, file_bytes, is_active=is_last)


def archived_segments(disk: Disk, paths: LogPaths) -> Iterator[SegmentSummary]:
    """What retention moved to the archive; files that are no sealed segment are passed over."""
    names = disk.names(paths.archive) if disk.is_folder(paths.archive) else []
    for name in filter(None, map(ArchivedName.parse, names)):
        path = paths.archived(name)
        footer, file_bytes = _footer(disk, path)
        if footer is None:
            continue
        with disk.open(path) as file:
            header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
        info = SegmentInfo(name.segment_id, header.base_offset, header.created_at, path, True, None)
        yield _sealed(info, footer, file_bytes)._replace(state="archived")


def _oldest(segments: tuple[SegmentSummary, ...]) -> RecordId | None:
    with_records = [segment for segment in segments if segment.records]
    if not with_records:
        return None
    return RecordId.from_parts(with_records[0].segment_id, SEGMENT_HEADER.size)


def _sealed(info: SegmentInfo, footer: SegmentFooter, file_bytes: int) -> SegmentSummary:
    return SegmentSummary(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=info.created_at,
        sealed_at=footer.sealed_at,
        bytes=footer.durable_bytes,
        file_bytes=file_bytes,
        records=footer.record_count,
        state="sealed",
        path=info.path,
        flush_failure=bool(footer.flush_failure),
    )


def _unsealed(
    store: ReadOnlyStore,
    name: str,
    info: SegmentInfo,
    end: RecordId,
    file_bytes: int,
    *,
    is_active: bool,
) -> SegmentSummary:
    start = RecordId.from_parts(info.segment_id, 0)
    stop = min(end, RecordId.from_parts(info.segment_id + 1, 0))
    records = used = 0
    if start < stop:
        # Damage is for `verify` to tell; here it is passed over, and what is whole is counted.
        for batch in store.reader(name).read_batches(start, stop, skip_damage=True):
            records += len(batch)
            used = batch.end.segment_offset
    return SegmentSummary(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=info.created_at,
        sealed_at=None,
        bytes=used,
        file_bytes=file_bytes,
        records=records,
        state="active" if is_active else "unsealed",
        path=info.path,
        flush_failure=False,
    )


def _footer(disk: Disk, path: str) -> tuple[SegmentFooter | None, int]:
    """The footer if there is a good one, and the file's length; 0 if it was removed."""
    try:
        with disk.open(os.fspath(path)) as file:
            size = file.size()
            slot = file.pread(max(0, records_end_max(size)), FOOTER_BYTES)
    except NotFound:
        return None, 0
    try:
        return decode_footer(slot), size
    except DataError:
        return None, size
