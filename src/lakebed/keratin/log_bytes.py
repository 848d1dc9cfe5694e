"""The records in the bytes of one `.log`, by their place: walked while they are good, and found
again behind damage.

Nothing here knows how far a file may be read: whoever asks says where to end.
"""

from __future__ import annotations

from lakebed.base.errors import DataError, DiskError
from lakebed.base.files import Disk, PathLike
from lakebed.base.files.windows import ByteSource, open_source
from lakebed.base.units import GIB, MIB
from lakebed.keratin.format import (
    KERATIN_MAGIC,
    KERATIN_RECORD,
    KERATIN_VERSION,
    LOG_HEADER,
    RECORD_OVERHEAD,
    KeratinRecordHeader,
    LogHeader,
    record_bytes,
)
from lakebed.keratin.log_file import decode_log_header
from lakebed.keratin.run import Run, run_of
from lakebed.kernels import Stop, keratin_scan

_FIND_BYTES = 1 * MIB
FIND_COST_BYTES_MAX = 8 * GIB
"""Bytes summed in vain, of one search: a payload full of false starts must not cost hours."""

_START = KERATIN_RECORD.pack(KeratinRecordHeader(KERATIN_MAGIC, KERATIN_VERSION, 0, 0, 0, 0, 0, 0))[
    : KERATIN_RECORD.offset_of("flags")
]

PROBLEMS = {
    Stop.END: "zeros where a record should be",
    Stop.CUT: "a record longer than what is left",
    Stop.BAD_HEADER: "not a record",
    Stop.BAD_CHECKSUM: "a record with a wrong checksum",
}
OUT_OF_ORDER = "a record whose offset is out of order"


class LogBytes:
    """Thread-safe, until it is closed."""

    def __init__(self, source: ByteSource, *, path: PathLike, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._source = source

    @property
    def size(self) -> int:
        return self._source.size

    def bytes_at(self, start: int, end: int) -> memoryview:
        """Exactly those, as far as the file has them."""
        buffer, origin = self._source.window(start, end)
        return buffer[start - origin : max(start, end) - origin]

    def header(self) -> LogHeader:
        """`Torn` or `Corrupt` if it is not this segment's."""
        data = self.bytes_at(0, LOG_HEADER.size)
        return decode_log_header(data, path=self.path, base_offset=self.base_offset)

    def header_error(self) -> DataError | None:
        try:
            self.header()
        except DataError as error:
            return error
        return None

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> Run | Stop:
        """Good records from `position` on and below `end`; why not, if there is none.

        About `bytes_max` at most, but always one record if there is a good one.
        """
        window_end = min(end, position + max(bytes_max, RECORD_OVERHEAD))
        try:
            found = self._scan(position, window_end, count_max)
        except DiskError:
            if not bytes_max:
                raise
            # What stands before the place that cannot be read is good: record by record.
            return self.scan(position, end, bytes_max=0, count_max=1)
        if found is Stop.CUT and window_end < end:
            # The record is longer than the window: this time exactly that record, if it can be.
            record_end = self._record_end(position, end)
            if record_end is not None and window_end < record_end:
                found = self._scan(position, record_end, 1)
        return found

    def find(self, position: int, end: int, *, least_offset: int, limit_offset: int) -> Run | None:
        """Behind damage: the first whole record from `position` on, alone.

        Its offset must be one that can follow: `least_offset` to below `limit_offset`.
        """
        cost_bytes = 0
        while position + RECORD_OVERHEAD <= end:
            window_end = min(end, position + _FIND_BYTES)
            data = bytes(self.bytes_at(position, window_end))
            place = data.find(_START)
            while place >= 0:
                here = position + place
                record_end = self._record_end(here, end, least_offset, limit_offset)
                if record_end is not None:
                    found = self._scan(here, record_end, 1)
                    if isinstance(found, Run):
                        return found
                    cost_bytes += record_end - here
                    if cost_bytes > FIND_COST_BYTES_MAX:
                        return None
                place = data.find(_START, place + 1)
            # A start may lie across two windows.
            position = window_end if window_end == end else window_end - len(_START) + 1
        return None

    def end_of_bytes(self, start: int, end: int) -> int:
        """Behind the last byte of `[start, end)` that is not zero; `start` if all are."""
        for window_end in range(end, start, -_FIND_BYTES):
            window_start = max(start, window_end - _FIND_BYTES)
            used = len(bytes(self.bytes_at(window_start, window_end)).rstrip(b"\0"))
            if used:
                return window_start + used
        return start

    def close(self) -> None:
        self._source.close()

    def _scan(self, position: int, end: int, count_max: int | None) -> Run | Stop:
        buffer, origin = self._source.window(position, end)
        first, last = position - origin, min(end - origin, len(buffer))
        if first >= last:
            return Stop.CUT
        # Never reached: no record takes less.
        limit = last // RECORD_OVERHEAD + 1 if count_max is None else count_max
        scan = keratin_scan(buffer, first, last, count_max=limit)
        return run_of(scan, buffer, origin) if len(scan.positions) else scan.stop

    def _record_end(
        self, position: int, end: int, least_offset: int = 0, limit_offset: int = 1 << 64
    ) -> int | None:
        """Where the record there ends by its header, if that may be one of a record."""
        if position + RECORD_OVERHEAD > end:
            return None
        head = self.bytes_at(position, position + KERATIN_RECORD.size)
        if len(head) < KERATIN_RECORD.size:
            return None
        header = KERATIN_RECORD.unpack(head)
        record_end = position + record_bytes(header.header_length, header.payload_length)
        is_possible = least_offset <= header.offset < limit_offset and record_end <= end
        return record_end if is_possible else None


def open_log(disk: Disk, path: str, *, base_offset: int, is_sealed: bool) -> LogBytes:
    """`NotFound` if it is gone."""
    source = open_source(disk.open(path), is_sealed=is_sealed)
    return LogBytes(source, path=path, base_offset=base_offset)
