"""Summarises the segments of a log from its files, one entry for each segment in any tier.

Of a sealed segment at most the header, the first record's header and the footer are read. The
records of an unsealed segment are counted up to the durable end. Tier 2 is not read: the manifest
log has the facts about a segment that is only in Tier 2, except its record counts and its exact
creation time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakebed.aof.archived_log import archived_names
from lakebed.aof.envelope import check_size
from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SegmentFooter,
    SegmentHeader,
    records_end_max,
)
from lakebed.aof.interchange import (
    INTERCHANGE_HEADER,
    INTERCHANGE_RECORD,
    InterchangeFooter,
)
from lakebed.aof.interchange_segment import (
    is_interchange,
    is_interchange_file,
    read_interchange_footer,
)
from lakebed.aof.manifest.state import Condition, SegmentState
from lakebed.aof.paths import ArchivedName, LogPaths
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.names import SegmentKey
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DataError, NotFound
from lakebed.base.files import Disk, File
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.residency import States, tiers_of

_HEAD_BYTES = INTERCHANGE_HEADER.size + INTERCHANGE_RECORD.size


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """The summary of one segment. Times are in ns since 1970.

    For a segment that is only in Tier 2, `created_at` is when the manifest log recorded the
    segment's creation. A segment in the interchange layout has no `sealed_at` and `base_records`.
    If it is archived, its `base_offset` is that of its first record, which is too high if
    compaction removed records before that.
    """

    segment_id: int
    base_offset: int
    created_at: int
    sealed_at: int | None  # None if it is not sealed, or if that is not known
    bytes: int  # up to the end of its records, uncompressed
    file_bytes: int  # size of the file or object at `path`
    records: int | None  # None if not known; Tier 2 is not read for it
    base_records: int | None  # records of the log before this segment; None if not known
    state: str  # active, unsealed (not the last, but it has no good footer), sealed, archived
    tiers: tuple[int, ...]  # the tiers that have the segment, hottest first; empty if archived
    path: str  # in the hottest tier: a segment file, a warm file, or the key of an object
    flush_failure: bool  # whether it is sealed, and a flush failed or recovery found damage in it


def summarise_segments(store: ReadOnlyStore, name: str, states: States) -> Iterator[SegmentSummary]:
    """Yields a summary of each segment of a log, oldest first, without those in its archive.

    Segments whose files are empty or were just removed are left out. `states` are the states of the
    segments in the manifest log.
    """
    log = store.log(name)
    end = log.durable_end()
    infos = log.segments()
    for info in infos:
        state = states.get(info.segment_id)
        if info.tier:
            yield _cold(log, info, state)
            continue
        content = _content(store.disk, info.path)
        if content is None or not content.size:
            continue
        if content.footer is not None:
            colder = () if state is None else tiers_of(state)
            tiers = (0, *(tier for tier in colder if tier))
            yield replace(_sealed(info, content.footer, content.size), tiers=tiers)
            continue
        if not content.is_interchange:
            check_size(info, size=content.size)
        is_last = info.segment_id == infos[-1].segment_id
        is_active = is_last and not content.is_interchange
        yield _unsealed(store, name, info, end, content, is_active=is_active)


def archived_segments(disk: Disk, paths: LogPaths) -> Iterator[SegmentSummary]:
    """Yields a summary of each segment with a good footer in a log's archive; skips other files."""
    for name in archived_names(disk, paths):
        content = _content(disk, paths.archived(name))
        if content is None or content.footer is None:
            continue
        info = _archived_info(content, name, paths.archived(name))
        summary = _sealed(info, content.footer, content.size)
        yield replace(summary, state="archived", tiers=())


def record_count(segments: Sequence[SegmentSummary]) -> int | None:
    """Returns the number of records in consecutive segments of a log; None if it is not known.

    If a segment's count is unknown, it is derived from `base_records` of the next segment with a
    known count. That is not possible for the newest segments, nor for the first segments of a log
    whose beginning was removed, nor right before or after a segment without `base_records`.
    """
    total = 0
    known_end: int | None = 0 if segments and not segments[0].base_offset else None
    unknown_count = 0
    for segment in segments:
        if segment.records is None:
            unknown_count += 1
            continue
        base = segment.base_records
        if base is None and segment.records:
            known_end = None  # compaction may have removed records of it, which later bases count
        missing = 0 if base is None or known_end is None else base - known_end
        # A sealed segment has at least one record, so a smaller number must be wrong.
        if unknown_count and missing >= unknown_count:
            total += missing
            unknown_count = 0
        if not unknown_count and base is not None:
            known_end = base + segment.records
        total += segment.records
    return None if unknown_count else total


def _sealed(
    info: SegmentInfo, footer: SegmentFooter | InterchangeFooter, file_bytes: int
) -> SegmentSummary:
    runtime = footer if isinstance(footer, SegmentFooter) else None
    return SegmentSummary(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=info.created_at,
        sealed_at=runtime.sealed_at if runtime else None,
        bytes=footer.durable_bytes,
        file_bytes=file_bytes,
        records=footer.record_count,
        base_records=runtime.base_record_count if runtime else None,
        state="sealed",
        tiers=(0,),
        path=info.path,
        flush_failure=runtime is not None and bool(runtime.flush_failure),
    )


def _unsealed(
    store: ReadOnlyStore,
    name: str,
    info: SegmentInfo,
    end: RecordId,
    content: _Content,
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
        file_bytes=content.size,
        records=records,
        base_records=content.base_records if records else None,
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
    """Returns when a segment was sealed, in ns since 1970.

    The time is that in the key of its object, or else that in the manifest log.
    """
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


class _Content(NamedTuple):
    """The parts of a segment's file that its summary needs."""

    size: int
    head: bytes  # the header; in the interchange layout also that of the first record
    footer: SegmentFooter | InterchangeFooter | None  # None if it is missing or damaged

    @property
    def is_interchange(self) -> bool:
        return is_interchange(memoryview(self.head))

    @property
    def base_records(self) -> int | None:
        """The base record count in the header; None if the layout has none.

        The segment must have a record, because its header is written with the first record.
        """
        return None if self.is_interchange else SEGMENT_HEADER.unpack(self.head).base_record_count


def _content(disk: Disk, path: str) -> _Content | None:
    """Reads the header and the footer of a segment file; returns None if it was removed."""
    try:
        with disk.open(path) as file:
            return _Content(file.size(), file.pread(0, _HEAD_BYTES), _footer(file))
    except NotFound:
        return None


def _footer(file: File) -> SegmentFooter | InterchangeFooter | None:
    try:
        if is_interchange_file(file):
            return read_interchange_footer(file)
        return decode_footer(file.pread(max(0, records_end_max(file.size())), FOOTER_BYTES))
    except DataError:
        return None


def _archived_info(content: _Content, name: ArchivedName, path: str) -> SegmentInfo:
    """Describes an archived segment with a good footer."""
    if content.is_interchange:
        head = INTERCHANGE_HEADER.unpack(content.head)
        first = INTERCHANGE_RECORD.unpack(content.head, INTERCHANGE_HEADER.size)
        base_offset = max(0, first.logical_offset - RECORDS_START)
        created_at = head.creation_ts_ms * NS_PER_MS
    else:
        header = SEGMENT_HEADER.unpack(content.head)
        base_offset, created_at = header.base_offset, header.created_at
    return SegmentInfo(name.segment_id, base_offset, created_at, path, is_sealed=True, end=None)
