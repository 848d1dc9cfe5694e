"""Finds the records in the bytes of one `.log` file: scans good records, and searches after damage.

The caller decides how far records may be read, and passes that end to each scan and search.
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
"""The most bytes that one search may checksum without finding a record.

Without this limit, a payload full of false record starts could take hours to search.
"""

_START_BYTES = KERATIN_RECORD.offset_of("flags")
_START = re.compile(
    re.escape(KERATIN_MAGIC.to_bytes(2, "big")) + rb"(?=\0[\1-\xff])", re.DOTALL
)  # the magic and a version, this program's or a newer one

PROBLEMS = {
    Stop.END: "zeros where a record should be",
    Stop.CUT: "a record is cut short, or its length is wrong",
    Stop.BAD_HEADER: "these bytes are not a record",
    Stop.BAD_CHECKSUM: "a record has a wrong checksum",
}
OUT_OF_ORDER = "a record's offset is out of order"


class LogBytes:
    """The bytes of one log. Thread-safe until it is closed."""

    def __init__(self, source: ByteSource, *, path: PathLike, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._source = source
        self._records_start: int | None = None  # None until the header is read

    @property
    def size(self) -> int:
        return self._source.size

    def bytes_at(self, start: int, end: int) -> memoryview:
        """Returns the bytes `[start, end)`, or fewer if the file ends earlier."""
        buffer, origin = self._source.window(start, end)
        return buffer[start - origin : max(start, end) - origin]

    def header(self) -> LogHeader:
        """Reads and decodes the header of the log.

        Raises `Torn` or `Corrupt` if the log does not begin with this segment's header, and
        `UnknownVersion` if a newer release wrote it.
        """
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
        """The position of the first record: the end of the header, whose length may vary.

        If the header cannot be decoded, this is the end of a header without additional fields.
        """
        if self._records_start is None:
            try:
                self._records_start = self.header().header_length
            except DataError:
                return RECORDS_START
        return self._records_start

    def scan(
        self, position: int, end: int, *, bytes_max: int, count_max: int | None = None
    ) -> Run | Stop:
        """Returns the good records that begin at `position`, or why there is no good record there.

        Reads about `bytes_max` bytes and never past `end`, but returns at least the first record if
        it is good. Raises `UnknownVersion` if there is a whole record of a newer version at
        `position`, and `DiskError` if the first record cannot be read.
        """
        window_end = min(end, position + max(bytes_max, RECORD_OVERHEAD))
        try:
            scanned = self._scan(position, window_end, count_max)
        except DiskError:
            if not bytes_max:
                raise
            # Read record by record, to return the records before the unreadable bytes.
            return self.scan(position, end, bytes_max=0, count_max=1)
        if scanned is Stop.CUT and window_end < end:
            # The record is longer than the window: scan exactly that record.
            record_end = self._record_end(position, end)
            if record_end is not None and window_end < record_end:
                scanned = self._scan(position, record_end, 1)
        if scanned is Stop.BAD_HEADER:
            self._refuse_newer(position, end)
        return scanned

    def find(self, position: int, end: int, *, least_offset: int, limit_offset: int) -> Run | None:
        """Searches for the next good record after damage, at or after `position`.

        Only a whole record whose offset is in `[least_offset, limit_offset)` counts. Returns a run
        with that record alone. Returns None if there is no such record before `end`, or if the
        search ends at `FIND_COST_BYTES_MAX`. Raises `UnknownVersion` if it finds a whole record of
        a newer version first.
        """
        cost_bytes = 0
        while position + RECORD_OVERHEAD <= end:
            window_end = min(end, position + _FIND_BYTES)
            data = bytes(self.bytes_at(position, window_end))
            for match in _START.finditer(data):
                candidate = position + match.start()
                record_end = self._record_end(candidate, end, least_offset, limit_offset)
                if record_end is not None:
                    scanned = self._scan(candidate, record_end, 1)
                    if isinstance(scanned, Run):
                        return scanned
                    if scanned is Stop.BAD_HEADER:
                        self._refuse_newer(candidate, end)
                    cost_bytes += record_end - candidate
                    if cost_bytes > FIND_COST_BYTES_MAX:
                        return None
            # The start of a record may span two windows.
            position = window_end if window_end == end else window_end - _START_BYTES + 1
        return None

    def end_of_bytes(self, start: int, end: int) -> int:
        """Returns the position after the last nonzero byte in `[start, end)`.

        Returns `start` if all bytes are zero.
        """
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
        # This limit is never reached: a record takes at least RECORD_OVERHEAD bytes.
        limit = last // RECORD_OVERHEAD + 1 if count_max is None else count_max
        scan = keratin_scan(buffer, first, last, count_max=limit)
        return run_of(scan, buffer, origin) if len(scan.positions) else scan.stop

    def _refuse_newer(self, position: int, end: int) -> None:
        """Raises `UnknownVersion` if there is a whole record of a newer version at `position`.

        The record's checksum must be right; every version has the checksum in the same place.
        """
        record_end = self._record_end(position, end)
        if record_end is None:
            return
        record = self.bytes_at(position, record_end)
        header = KERATIN_RECORD.unpack(record)
        if header.magic != KERATIN_MAGIC or header.version <= KERATIN_VERSION:
            return
        trailer = len(record) - KERATIN_TRAILER.size
        crc = crc32c(record[KERATIN_RECORD.offset_of("version") : trailer])
        if crc == KERATIN_TRAILER.unpack(record, trailer).crc32c:
            raise UnknownVersion(
                "unsupported record version",
                path=self.path,
                offset=position,
                expected=KERATIN_VERSION,
                found=header.version,
            )

    def _record_end(
        self, position: int, end: int, least_offset: int = 0, limit_offset: int = 1 << 64
    ) -> int | None:
        """Returns the end of the record at `position` according to its header.

        Returns None if there is no room for a record before `end`, or if the header is implausible:
        the record would end after `end`, or its offset is not in `[least_offset, limit_offset)`.
        """
        if position + RECORD_OVERHEAD > end:
            return None
        head = self.bytes_at(position, position + KERATIN_RECORD.size)
        if len(head) < KERATIN_RECORD.size:
            return None
        header = KERATIN_RECORD.unpack(head)
        record_end = position + record_bytes(header.header_length, header.payload_length)
        is_plausible = least_offset <= header.offset < limit_offset and record_end <= end
        return record_end if is_plausible else None


def open_log(disk: Disk, path: str, *, base_offset: int, is_sealed: bool) -> LogBytes:
    """Opens a log for reading; raises `NotFound` if the file does not exist."""
    source = open_source(disk.open(path), is_sealed=is_sealed)
    return LogBytes(source, path=path, base_offset=base_offset)
