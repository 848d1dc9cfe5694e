"""Reads one open segment by offsets.

The file is read in windows. The active segment is read only below the durable end, where its bytes
do not change. Compaction may have replaced the file with a smaller file since the segments were
listed. So readers navigate by offsets, and never use a position from one open file in another.
"""

from __future__ import annotations

from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk
from lakebed.base.runner import Mutex
from lakebed.base.units import KIB
from lakebed.keratin.index_file import load_index
from lakebed.keratin.log_bytes import LogBytes, open_log
from lakebed.keratin.paths import SegmentFile
from lakebed.keratin.record_positions import Place, RecordPositions
from lakebed.keratin.run import Run
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import Stop

_SEEK_BYTES = 64 * KIB


class SegmentReader:
    """An open segment and the known positions of its records. Thread-safe until it is closed."""

    def __init__(self, log: LogBytes, places: RecordPositions) -> None:
        self.log = log
        self.places = places

    def seek(self, offset: int, end: int, *, limit_offset: int) -> int:
        """Returns the position of the first record with a message at or after `offset`.

        Searches only before position `end`, and returns `end` if there is no such record. If the
        bytes where that record should be are damaged, returns where the damage begins. Damage that
        is followed by a record at or before `offset` is skipped, because the caller does not read
        there.
        """
        position = self.places.end_at(offset)
        if position is not None:
            return min(position, end)
        position, least_offset = self._place_before(offset, end)
        while position < end:
            scanned = self.log.scan(position, end, bytes_max=_SEEK_BYTES)
            if isinstance(scanned, Stop):
                following = self.log.find(
                    position + 1, end, least_offset=least_offset, limit_offset=limit_offset
                )
                if following is None or following.offsets[0] > offset:
                    return position
                position = following.start
                continue
            if scanned.in_order_count(least_offset, limit_offset) < scanned.record_count:
                return position  # reading from here finds the problem and reports it
            index = scanned.index_for(offset)
            if index < scanned.record_count:
                return scanned.origin + int(scanned.positions[index])
            position, least_offset = scanned.end, scanned.next_offset
        return end

    def learn(self, run: Run) -> None:
        """Remembers the position of a run that was read from this file."""
        self.places.learn(
            offset=int(run.offsets[0]),
            start=run.start,
            next_offset=run.next_offset,
            end=run.end,
        )

    def close(self) -> None:
        self.log.close()

    def _place_before(self, offset: int, end: int) -> Place:
        """Returns the position and offset of a verified record at or before `offset`.

        If none is known, returns the position of the first record, and the base offset of the
        segment.
        """
        for place in self.places.before(offset):
            if place[1] < end and self._is_at(place, end):
                return place[1], place[0]
            self.places.forget(place)
        return self.log.records_start, self.log.base_offset

    def _is_at(self, place: Place, end: int) -> bool:
        scanned = self.log.scan(place[1], end, bytes_max=0, count_max=1)
        return isinstance(scanned, Run) and scanned.offsets[0] == place[0]


def open_segment(disk: Disk, info: PartitionSegment, *, mutex: Mutex) -> SegmentReader:
    """Opens a segment for reading; raises `NotFound` if its file does not exist."""
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=info.is_sealed)
    return SegmentReader(log, RecordPositions(mutex, _indexed(disk, info)))


def _indexed(disk: Disk, info: PartitionSegment) -> list[Place]:
    """Returns the record positions in the `.idx`; none if that file cannot be loaded."""
    try:
        path = info.path.removesuffix(SegmentFile.LOG.value) + SegmentFile.INDEX.value
        entries = load_index(disk, path, base_offset=info.base_offset)
    except LakebedError:
        return []
    return [(info.base_offset + entry.relative_offset, entry.position) for entry in entries]
