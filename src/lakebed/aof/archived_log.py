"""A read-only log view of the segments that retention archived, in the log's folder `archive/`.

The base offset of an archived segment (its offset in the log) is read from its header, because the
file name does not contain it. The header of an interchange segment does not contain it either: the
base offset is then computed from the first record, which must not be missing. An operator may
delete archived segments, oldest first. If a segment between two others is missing, readers report a
gap, as in any log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakebed.aof.envelope import check_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SegmentFooter,
    records_end_max,
)
from lakebed.aof.holds import PositionedReader
from lakebed.aof.interchange import (
    INTERCHANGE_HEADER,
    INTERCHANGE_RECORD,
    FooterFlags,
    decode_interchange_footer,
    decode_interchange_header,
    position_after,
)
from lakebed.aof.interchange_facts import interchange_facts
from lakebed.aof.interchange_segment import is_interchange_file
from lakebed.aof.paths import ArchivedName, LogPaths, SegmentName
from lakebed.aof.record_id import SEGMENT_INDEX_MAX, RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, Corrupt, DataError, InputError, UnknownVersion
from lakebed.base.files import Disk, File
from lakebed.base.runner import Runner


class ArchivedLog:
    """A `LogView` of a log's archive as it was when this object was created. Thread-safe."""

    cold = None

    def __init__(self, disk: Disk, paths: LogPaths, *, runner: Runner) -> None:
        self.disk = disk
        self.runner = runner
        self._name = paths.name
        self._segments = list_archived(disk, paths)

    def hold(self, reader: PositionedReader) -> None:
        """Does nothing: retention never removes archived segments, so none needs protection."""

    def on_used(self, info: SegmentInfo) -> None:
        """Does nothing: archived segments are not moved between tiers."""

    def segments(self) -> Sequence[SegmentInfo]:
        return self._segments

    def refresh(self) -> None:
        """Does nothing: the archive is listed only once, when this object is created."""

    def durable_end(self) -> RecordId:
        """Returns the position after the last record of the last archived segment.

        If that segment has no valid footer, returns the position where the footer should begin. If
        its file is too short for a segment, returns the start of the next segment: readers then
        reach the segment, and report its damage. Returns 0 if the archive is empty.
        """
        if not self._segments:
            return RecordId(0)
        last = self._segments[-1]
        if last.end is not None:
            return RecordId.from_parts(last.segment_id, last.end)
        with self.disk.open(last.path) as file:
            end = records_end_max(file.size())
        if end < RECORDS_START:
            return RecordId.from_parts(last.segment_id + 1, 0)
        return RecordId.from_parts(last.segment_id, end)

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:  # noqa: ARG002
        if self.durable_end() > position:
            return True
        raise Closed(f"{self._name}: the archived records end here, and no new records are added")

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        return lambda: None


def list_archived(disk: Disk, paths: LogPaths) -> tuple[SegmentInfo, ...]:
    """Returns the archived segments, oldest first.

    Files that are not named like archived segments are ignored. Raises `Corrupt` if two files have
    the same segment number, `InputError` if the base offset of an interchange segment cannot be
    computed, and `UnknownVersion` if an interchange segment has an unsupported version.
    """
    segments: list[SegmentInfo] = []
    for name in archived_names(disk, paths):
        info = archived_info(disk, paths, name)
        if segments and segments[-1].segment_id == info.segment_id:
            raise Corrupt("another archived file has the same segment number", path=info.path)
        segments.append(info)
    return tuple(segments)


def archived_names(disk: Disk, paths: LogPaths) -> list[ArchivedName]:
    """Returns the names of the files of archived segments, oldest first; leaves other files out."""
    names = disk.names(paths.archive) if disk.is_folder(paths.archive) else []
    parsed = filter(None, map(ArchivedName.parse, names))
    return [name for name in parsed if name.segment_id <= SEGMENT_INDEX_MAX]


def segment_name(info: SegmentInfo) -> SegmentName:
    """Returns the name that the file of an archived segment has in the folder `segments/`.

    The creation time in the name of an interchange segment is rounded down to milliseconds.
    """
    return SegmentName(info.segment_id, info.base_offset, info.created_at)


def archived_info(disk: Disk, paths: LogPaths, name: ArchivedName) -> SegmentInfo:
    """Describes an archived segment from its file.

    Reads only the header and footer of a runtime segment, but all of an interchange segment. Raises
    `InputError` if the base offset of an interchange segment cannot be computed, and
    `UnknownVersion` if such a segment has an unsupported version.
    """
    path = paths.archived(name)
    with disk.open(path) as file:
        if is_interchange_file(file):
            return _interchange_info(memoryview(file.pread(0, file.size())), path, name)
        start = file.pread(0, SEGMENT_HEADER.size)
        header = SEGMENT_HEADER.unpack(start.ljust(SEGMENT_HEADER.size, b"\0"))
        info = SegmentInfo(
            name.segment_id, header.base_offset, header.created_at, path, is_sealed=True, end=None
        )
        footer = _footer(file, info)
    return info if footer is None else replace(info, end=footer.durable_bytes)


def _interchange_info(data: memoryview, path: str, name: ArchivedName) -> SegmentInfo:
    """Describes an archived segment in the interchange layout, from its header and records.

    Raises `InputError` if its first record is damaged or may be missing, because the segment's base
    offset is then not known.
    """
    try:
        facts = interchange_facts(data, None)
    except UnknownVersion as error:
        raise UnknownVersion(
            error.problem, path=path, expected=error.expected, found=error.found
        ) from None
    header, footer = decode_interchange_header(data), decode_interchange_footer(data)
    ranges = facts.records.good_ranges
    is_compacted = footer is not None and bool(footer.flags & FooterFlags.COMPACTED)
    if is_compacted or not ranges or ranges[0].start != INTERCHANGE_HEADER.size:
        raise InputError(
            f"{path}: the base offset of this interchange segment is not known, because its first "
            "record is damaged or may be missing; move the file out of the archive"
        )
    first = INTERCHANGE_RECORD.unpack(data, INTERCHANGE_HEADER.size)
    base_offset = first.logical_offset - RECORDS_START
    return SegmentInfo(
        name.segment_id,
        base_offset,
        header.creation_ts_ms * NS_PER_MS,
        path,
        is_sealed=True,
        end=position_after(data, ranges[-1].last_offset, base_offset=base_offset),
    )


def _footer(file: File, info: SegmentInfo) -> SegmentFooter | None:
    size = file.size()
    if size < RECORDS_START + FOOTER_BYTES:
        return None
    try:
        return check_footer(file.pread(records_end_max(size), FOOTER_BYTES), info, size=size)
    except DataError:
        return None
