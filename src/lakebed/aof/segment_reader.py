"""One segment, open for reading.

`open_segment` opens a segment of either layout. Positions are *segment offsets*, the lower half of
a record id; in a runtime segment they are file offsets.

A runtime segment is read in windows, and an interchange segment as a whole. The bytes of a sealed
segment never change. Of an unsealed segment, callers read only the bytes below the durable end,
which no longer change; only `end_scan`, which looks for that end, reads further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lakebed.aof.damage import SkippedRange
from lakebed.aof.envelope import check_footer, check_header, check_size
from lakebed.aof.format import (
    AOF_ALIGNMENT,
    AOF_RECORD,
    FOOTER_BYTES,
    SEGMENT_HEADER,
    SegmentFooter,
    record_bytes,
    records_end_max,
)
from lakebed.aof.interchange import INTERCHANGE_HEADER
from lakebed.aof.interchange_segment import InterchangeSegment, is_interchange
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt, DiskError, NotFound
from lakebed.base.files import Disk
from lakebed.base.files.windows import ByteSource, open_source
from lakebed.base.units import MIB
from lakebed.kernels import Stop, aof_find, aof_scan

_FIND_BYTES = 4 * MIB


class SegmentReader(Protocol):
    """An open segment of either layout. Thread-safe until it is closed."""

    @property
    def has_gaps(self) -> bool:
        """Whether there may be gaps between records, because compaction removed some records."""

    @property
    def records_end(self) -> int | None:
        """The offset where the records end according to the footer, or None if not known."""

    @property
    def room_end(self) -> int:
        """The position that no record of this segment can extend beyond."""

    @property
    def timestamp_max(self) -> int | None:
        """The largest timestamp according to the footer, or None if not known."""

    def defects(self) -> Sequence[SkippedRange]:
        """Returns what is wrong with the header and the footer.

        Call it only for a segment with durable records, because an empty segment has no header yet.
        """

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> RecordBatch | Stop:
        """Returns the good records from `position` up to `end`, before the first bad record.

        Returns about `bytes_max` bytes and `count_max` records at most, but at least one record. If
        no good record begins at `position`, returns the reason; in a segment with gaps, the first
        record may also begin after `position`.
        """

    def find(self, position: int, end: int) -> int | None:
        """Returns where the first good record in `[position, end)` begins, or None.

        Used to continue after damage.
        """

    def close(self) -> None: ...


def open_segment(disk: Disk, info: SegmentInfo, cold: ColdSource | None = None) -> SegmentReader:
    """Opens a segment for reading; raises `NotFound` if its file is gone.

    `cold` is called to get the bytes of a segment that is not in Tier 0; without `cold`, such a
    segment raises `NotFound` too. Raises `Corrupt` if the file is too short for a segment, and
    `UnknownVersion` if its footer or interchange header has an unsupported version.
    """
    if info.tier:
        if cold is None:
            raise NotFound(
                f"{info.path}: the segment is in Tier {info.tier}, which this reader cannot "
                "access; hydrate the segment first (lakebed aof hydrate)"
            )
        return RuntimeSegment(info, cold(info))
    source = open_source(disk.open(info.path), is_sealed=info.is_sealed)
    try:
        if info.is_sealed and is_interchange(source.window(0, INTERCHANGE_HEADER.size).buffer):
            whole = source.window(0, source.size).buffer
            source.close()
            return InterchangeSegment(info, whole)
        return RuntimeSegment(info, source)
    except BaseException:
        source.close()
        raise


ColdSource = Callable[[SegmentInfo], ByteSource]


class RuntimeSegment:
    """A segment in the runtime layout, in which logs are written. It is open for reading."""

    has_gaps = False

    def __init__(self, info: SegmentInfo, source: ByteSource) -> None:
        check_size(info, size=source.size)
        self._info = info
        self._source = source
        self.room_end = records_end_max(source.size)
        self._footer: SegmentFooter | None = None
        self._footer_defect: SkippedRange | None = None
        if info.is_sealed:
            self._read_footer()

    @property
    def records_end(self) -> int | None:
        return None if self._footer is None else self._footer.durable_bytes

    @property
    def timestamp_max(self) -> int | None:
        return None if self._footer is None else self._footer.last_timestamp

    def defects(self) -> Sequence[SkippedRange]:
        defects = [self._header_defect(), self._footer_defect]
        return [defect for defect in defects if defect is not None]

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> RecordBatch | Stop:
        end = min(end, self.room_end)
        window_end = min(end, position + max(bytes_max, AOF_RECORD.size))
        try:
            result = self._scan(position, window_end, count_max)
        except DiskError:
            if not bytes_max:
                raise
            # Records before the unreadable place may be good: read record by record.
            return self.scan(position, end, bytes_max=0, count_max=1)
        if result is Stop.CUT and window_end < end:
            # The record is longer than the window: scan exactly that record.
            record_end = position + self._record_bytes(position)
            if window_end < record_end <= end:
                result = self._scan(position, record_end, 1)
        return result

    def find(self, position: int, end: int) -> int | None:
        end = min(end, self.room_end)
        length = _FIND_BYTES  # doubled while no record is found
        while position + AOF_RECORD.size < end:
            window_end = min(end, position + length)
            buffer, origin = self._source.window(position, window_end)
            last = min(window_end - origin, len(buffer))
            offset = aof_find(buffer, min(position - origin, last), last)
            if offset >= 0:
                return origin + offset
            if window_end == end:
                return None
            length *= 2
        return None

    def close(self) -> None:
        self._source.close()

    def _scan(self, position: int, end: int, count_max: int | None) -> RecordBatch | Stop:
        buffer, origin = self._source.window(position, end)
        last = min(end - origin, len(buffer))
        first = position - origin
        if first >= last:
            return Stop.CUT
        # Without `count_max` the limit is never reached: a record is longer than the alignment.
        limit = last // AOF_ALIGNMENT if count_max is None else count_max
        scan = aof_scan(buffer, first, last, count_max=limit)
        if not len(scan.offsets):
            return scan.stop
        info = self._info
        return RecordBatch(
            segment_id=info.segment_id,
            base_offset=info.base_offset,
            buffer=buffer,
            buffer_offset=origin,
            header_bytes=AOF_RECORD.size,
            offsets=scan.offsets,
            lengths=scan.lengths,
            timestamps=scan.timestamps,
            ext_ids=scan.ext_ids,
            end=RecordId.from_parts(info.segment_id, origin + scan.end),
        )

    def _record_bytes(self, position: int) -> int:
        """Returns the size of the record at `position` according to its header.

        The header is not checked, so the size may be wrong.
        """
        buffer, origin = self._source.window(position, position + AOF_RECORD.size)
        return record_bytes(AOF_RECORD.unpack(buffer, position - origin).length)

    def _read_footer(self) -> None:
        start = self.room_end
        buffer, origin = self._source.window(start, start + FOOTER_BYTES)
        data = buffer[start - origin : start - origin + FOOTER_BYTES]
        try:
            self._footer = check_footer(data, self._info, size=self._source.size)
            if self._footer is None:
                raise Corrupt(
                    "the sealed segment has no footer", path=self._info.path, offset=start
                )
        except Corrupt as error:
            self._footer_defect = self._defect(start, start + FOOTER_BYTES, error)

    def _header_defect(self) -> SkippedRange | None:
        buffer, _ = self._source.window(0, SEGMENT_HEADER.size)
        data = buffer[: SEGMENT_HEADER.size]
        try:
            if check_header(data, self._info, size=self._source.size) is None:
                raise Corrupt("the segment's header is missing", path=self._info.path, offset=0)
        except Corrupt as error:
            return self._defect(0, SEGMENT_HEADER.size, error)
        return None

    def _defect(self, start: int, end: int, error: Corrupt) -> SkippedRange:
        return SkippedRange(self._info.segment_id, self._info.path, start, end, error)
