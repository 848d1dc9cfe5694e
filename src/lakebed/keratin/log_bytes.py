"""The records in the bytes of one `.log`, by their place: walked while they are good, and found
again behind damage.

Nothing here knows how far a file may be read: whoever asks says where to end.
"""

from __future__ import annotations

import re

from lakebed.base.errors import DataError, DiskError, UnknownVersion
from lakebed.base.files import Disk, PathLike
from lakebed.base.files.windows import ByteSource, open_source
from lakebed.base.units import GIB, MIB
from lakebed.keratin.format import (
    HEADER_BYTES_MAX,
    KERATIN_MAGIC,
    KERATIN_RECORD,
    KERATIN_TRAILER,
    KERATIN_VERSION,
    RECORD_OVERHEAD,
    RECORDS_START,
    LogHeader,
    record_bytes,
)
from lakebed.keratin.log_file import decode_log_header
from lakebed.keratin.run import Run, run_of
from lakebed.kernels import Stop, crc32c, keratin_scan

_FIND_BYTES = 1 * MIB
FIND_COST_BYTES_MAX = 8 * GIB
"""Bytes summed in vain, of one search: a payload full of false starts must not cost hours."""

_START_BYTES = KERATIN_RECORD.offset_of("flags")
_START = re.compile(
    re.escape(KERATIN_MAGIC.to_bytes(2, "big")) + rb"(?=\0[\1-\xff])", re.DOTALL
)  # the magic and a version, ours or a newer one

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
        self._records_start: int | None = None  # known at the first look

    @property
    def size(self) -> int:
        return self._source.size

    def bytes_at(self, start: int, end: int) -> memoryview:
        """Exactly those, as far as the file has them."""
        buffer, origin = self._source.window(start, end)
        return buffer[start - origin : max(start, end) - origin]

    def header(self) -> LogHeader:
        """`Torn` or `Corrupt` if it is not this segment's."""
        data = self.bytes_at(0, min(self.size, HEADER_BYTES_MAX))
        return decode_log_header(data, path=self.path, base_offset=self.base_offset)

    def header_error(self) -> DataError | None:
        try:
            self.header()
        except DataError as error:
            return error
        return None

    @property
    def records_start(self) -> int:
        """Where the first record stands: behind the header, as long as that says it is."""
        if self._records_start is None:
            try:
                self._records_start = self.header().header_length
            except DataError:
                return RECORDS_START
        return self._records_start

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> Run | Stop:
        """Good records from `position` on and below `end`; why not, if there is none.

        About `bytes_max` at most, but always one record if there is a good one. `UnknownVersion`
        if a whole record of a newer version stands there.
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
        if found is Stop.BAD_HEADER:
            self._refuse_newer(position, end)
        return found

    def find(self, position: int, end: int, *, least_offset: int, limit_offset: int) -> Run | None:
        """Behind damage: the first whole record from `position` on, alone.

        Its offset must be one that can follow: `least_offset` to below `limit_offset`.
        `UnknownVersion` if it is of a newer version.
        """
        cost_bytes = 0
        while position + RECORD_OVERHEAD <= end:
            window_end = min(end, position + _FIND_BYTES)
            data = bytes(self.bytes_at(position, window_end))
            for match in _START.finditer(data):
                here = position + match.start()
                record_end = self._record_end(here, end, least_offset, limit_offset)
                if record_end is not None:
                    found = self._scan(here, record_end, 1)
                    if isinstance(found, Run):
                        return found
                    if found is Stop.BAD_HEADER:
                        self._refuse_newer(here, end)
                    cost_bytes += record_end - here
                    if cost_bytes > FIND_COST_BYTES_MAX:
                        return None
            # A start may lie across two windows.
            position = window_end if window_end == end else window_end - _START_BYTES + 1
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

    def _refuse_newer(self, position: int, end: int) -> None:
        """`UnknownVersion` if a record stands there that only a newer program can have written:
        whole by its checksum, which every version has in the same place."""
        record_end = self._record_end(position, end)
        if record_end is None:
            return
        record = self.bytes_at(position, record_end)
        header = KERATIN_RECORD.unpack(record)
        if header.magic != KERATIN_MAGIC or header.version <= KERATIN_VERSION:
            return
        trailer = len(record) - KERATIN_TRAILER.size
        checked = crc32c(record[KERATIN_RECORD.offset_of("version") : trailer])
        if checked == KERATIN_TRAILER.unpack(record, trailer).crc32c:
            raise UnknownVersion(
                "record",
                path=self.path,
                offset=position,
                expected=KERATIN_VERSION,
                found=header.version,
            )

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
