"""Summarises the segments of a log from its files, one entry for each segment in any tier.

Of a sealed segment at most the header and the footer are read. The records of an unsealed segment
are counted up to the durable end. Tier 2 is not read: the manifest log has all facts about a
segment that is only in Tier 2, except its number of records and its exact creation time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from lakebed.aof.envelope import check_size
from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    SEGMENT_HEADER,
    SegmentFooter,
    SegmentHeader,
    records_end_max,
)
from lakebed.aof.manifest.state import Condition, SegmentState
from lakebed.aof.paths import ArchivedName, LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.names import SegmentKey
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import Disk
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.residency import States, tiers_of


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """The summary of one segment. Times are ns since 1970; `sealed_at` is None if it is unsealed.

    For a segment that is only in Tier 2, `created_at` is when the manifest log recorded it.
    """

    segment_id: int
    base_offset: int
    created_at: int
    sealed_at: int | None
    bytes: int  # up to the end of its records
    file_bytes: int  # size of the file or object at `path`
    records: int | None  # None if that is not known without reading Tier 2
    base_records: int | None  # records of the log before this segment; None if not known
    state: str  # active, unsealed (full, but its footer is not written yet), sealed, archived
    tiers: tuple[int, ...]  # the tiers that have the segment, hottest first; empty if archived
    path: str  # in the hottest tier: a segment file, a warm file, or the key of an object
    flush_failure: bool


def summarise_segments(store: ReadOnlyStore, name: str, states: States) -> Iterator[SegmentSummary]:
    """Yields a summary of each segment of a log, oldest first, without those in its archive.

    `states` are the states of the segments in the manifest log.
    """
    log = store.log(name)
    end = log.durable_end()
    infos = log.segments()
    for info in infos:
        state = states.get(info.segment_id)
        if info.tier:
            yield _cold(log, info, state)
            continue
        footer, file_bytes = _footer(store.disk, info.path)
        if footer is not None:
            colder = () if state is None else tiers_of(state)
            tiers = (0, *(tier for tier in colder if tier))
            yield replace(_sealed(info, footer, file_bytes), tiers=tiers)
        elif file_bytes:
            check_size(info, size=file_bytes)
            is_last = info.segment_id == infos[-1].segment_id
            yield _unsealed(store, name, info, end, file_bytes, is_active=is_last)


def archived_segments(disk: Disk, paths: LogPaths) -> Iterator[SegmentSummary]:
    """Yields a summary of each sealed segment in a log's archive; skips other files."""
    names = disk.names(paths.archive) if disk.is_folder(paths.archive) else []
    for name in filter(None, map(ArchivedName.parse, names)):
        path = paths.archived(name)
        footer, file_bytes = _footer(disk, path)
        if footer is None:
            continue
        with disk.open(path) as file:
            header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
        info = SegmentInfo(name.segment_id, header.base_offset, header.created_at, path, True, None)
        yield replace(_sealed(info, footer, file_bytes), state="archived", tiers=())


def record_count(segments: Sequence[SegmentSummary]) -> int | None:
    """Returns the number of records in consecutive segments of a log; None if it is not known.

    If a segment's count is unknown, it is derived from `base_records` of the next segment with a
    known count. That is not possible for the newest segments, nor for the first segments of a log
    whose beginning was removed.
    """
    total = 0
    known_end: int | None = 0 if segments and not segments[0].base_offset else None
    unknown_count = 0
    for segment in segments:
        if segment.records is None:
            unknown_count += 1
            continue
        base = segment.base_records
        missing = 0 if base is None or known_end is None else base - known_end
        # A sealed segment has at least one record, so a smaller number must be wrong.
        if unknown_count and missing >= unknown_count:
            total += missing
            unknown_count = 0
        if not unknown_count and base is not None:
            known_end = base + segment.records
        total += segment.records
    return None if unknown_count else total


def _sealed(info: SegmentInfo, footer: SegmentFooter, file_bytes: int) -> SegmentSummary:
    return SegmentSummary(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=info.created_at,
        sealed_at=footer.sealed_at,
        bytes=footer.durable_bytes,
        file_bytes=file_bytes,
        records=footer.record_count,
        base_records=footer.base_record_count,
        state="sealed",
        tiers=(0,),
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
        # Damage is skipped here: `verify` reports it.
        for batch in store.log(name).read_batches(start, stop, skip_damage=True):
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
        base_records=_base_records(store.disk, info.path) if records else None,
        state="active" if is_active else "unsealed",
        tiers=(0,),
        path=info.path,
        flush_failure=False,
    )


def _cold(log: ReadOnlyLog, info: SegmentInfo, state: SegmentState | None) -> SegmentSummary:
    """Summarises a segment that is not in Tier 0; reads nothing from Tier 2."""
    header, footer = _warm_envelope(log, info) if info.tier == 1 else (None, None)
    opened_at = state.opened_at_ms * NS_PER_MS if state else 0
    sealed_at = _sealed_at(state) if state else None
    flush_failure = state is not None and bool(state.condition & Condition.FLUSH_FAILURE)
    return SegmentSummary(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=header.created_at if header else opened_at,
        sealed_at=footer.sealed_at if footer else sealed_at,
        bytes=info.end or 0,
        file_bytes=state.compressed_bytes if state else 0,
        records=footer.record_count if footer else None,
        base_records=footer.base_record_count if footer else None,
        state="sealed",
        tiers=tiers_of(state) if state else (info.tier,),
        path=info.path,
        flush_failure=flush_failure,
    )


def _sealed_at(state: SegmentState) -> int:
    """Returns when a segment was sealed, in ns: from its object's key, else the manifest log."""
    prefix = "/".join(state.key.split("/")[:-2])
    key = SegmentKey.parse(state.key, prefix=prefix)
    return key.sealed_at if key else state.sealed_at_ms * NS_PER_MS


def _warm_envelope(
    log: ReadOnlyLog, info: SegmentInfo
) -> tuple[SegmentHeader | None, SegmentFooter | None]:
    """Reads a segment's header and footer from its warm file.

    Returns None for both if the warm file is missing or damaged.
    """
    assert log.cold is not None, "a log with segments in Tier 1 has it"
    try:
        with closing(log.cold.bytes_of(info)) as content:
            start = content.window(0, SEGMENT_HEADER.size).buffer
            slot = content.window(records_end_max(content.size), content.size).buffer
        return SEGMENT_HEADER.unpack(start), decode_footer(slot)
    except (DataError, NotFound):
        return None, None


def _base_records(disk: Disk, path: str) -> int | None:
    """Reads the base record count from a segment's header; None if the file was removed.

    The segment must have a record: the header is written with the first one.
    """
    try:
        with disk.open(path) as file:
            return SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size)).base_record_count
    except NotFound:
        return None


def _footer(disk: Disk, path: str) -> tuple[SegmentFooter | None, int]:
    """Returns a segment file's footer and its length.

    The footer is None if it is missing or damaged. The length is 0 if the file was removed.
    """
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
