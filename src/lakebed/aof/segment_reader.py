"""One segment, open for reading.

`open_segment` is the one place that tells the layouts apart; what is above it knows positions
alone: *segment offsets*, the lower half of a record id, which in a runtime segment are the offsets
in the file.

Its file is read in windows; an unsealed one only below the durable end, where its bytes do not
change any more, as those of a sealed one never do.
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
    """An open segment of either layout. Thread-safe, until it is closed."""

    @property
    def has_gaps(self) -> bool:
        """Whether records may have been left out, so that positions may lead nowhere."""

    @property
    def records_end(self) -> int | None:
        """Where its records end by its own footer; None if it has none, or a damaged one."""

    @property
    def room_end(self) -> int:
        """No record can reach beyond here."""

    @property
    def timestamp_max(self) -> int | None:
        """The largest timestamp by its footer."""

    def defects(self) -> Sequence[SkippedRange]:
        """What is wrong with header and footer; the segment must have durable records."""

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> RecordBatch | Stop:
        """Good records from `position` on and below `end`; why not, if there is none.

        About `bytes_max` at most, but always one record if there is a good one.
        """

    def find(self, position: int, end: int) -> int | None:
        """Behind damage: the first place from `position` on with a whole good record."""

    def close(self) -> None: ...


def open_segment(disk: Disk, info: SegmentInfo, cold: ColdSource | None = None) -> SegmentReader:
    """Open the segment; `NotFound` if its file is gone.

    `cold` gives the bytes of one that is not in Tier 0.
    """
    if info.tier:
        if cold is None:
            raise NotFound(f"{info.path}: in Tier {info.tier}, which is not read here")
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
    """A segment in the layout the writer writes."""

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
        found = [self._header_defect(), self._footer_defect]
        return [defect for defect in found if defect is not None]

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> RecordBatch | Stop:
        end = min(end, self.room_end)
        window_end = min(end, position + max(bytes_max, AOF_RECORD.size))
        try:
            found = self._scan(position, window_end, count_max)
        except DiskError:
            if not bytes_max:
                raise
            # What stands before the place that cannot be read is good: record by record.
            return self.scan(position, end, bytes_max=0, count_max=1)
        if found is Stop.CUT and window_end < end:
            # The record is longer than the window: this time exactly that record, if it can be.
            record_end = position + self._record_bytes(position)
            if window_end < record_end <= end:
                found = self._scan(position, record_end, 1)
        return found

    def find(self, position: int, end: int) -> int | None:
        end = min(end, self.room_end)
        length = _FIND_BYTES  # at first, and more while there is nothing in it
        while position + AOF_RECORD.size < end:
            window_end = min(end, position + length)
            buffer, origin = self._source.window(position, window_end)
            last = min(window_end - origin, len(buffer))
            found = aof_find(buffer, min(position - origin, last), last)
            if found >= 0:
                return origin + found
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
        # Never reached: no record takes less than its header.
        limit = last // AOF_ALIGNMENT if count_max is None else count_max
        found = aof_scan(buffer, first, last, count_max=limit)
        if not len(found.offsets):
            return found.stop
        info = self._info
        return RecordBatch(
            segment_id=info.segment_id,
            base_offset=info.base_offset,
            buffer=buffer,
            buffer_offset=origin,
            header_bytes=AOF_RECORD.size,
            offsets=found.offsets,
            lengths=found.lengths,
            timestamps=found.timestamps,
            ext_ids=found.ext_ids,
            end=RecordId.from_parts(info.segment_id, origin + found.end),
        )

    def _record_bytes(self, position: int) -> int:
        """What the record there takes, if its header tells the truth."""
        buffer, origin = self._source.window(position, position + AOF_RECORD.size)
        return record_bytes(AOF_RECORD.unpack(buffer, position - origin).length)

    def _read_footer(self) -> None:
        start = self.room_end
        buffer, origin = self._source.window(start, start + FOOTER_BYTES)
        data = buffer[start - origin : start - origin + FOOTER_BYTES]
        try:
            self._footer = check_footer(data, self._info, size=self._source.size)
            if self._footer is None:
                raise Corrupt("a sealed segment without footer", path=self._info.path, offset=start)
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
