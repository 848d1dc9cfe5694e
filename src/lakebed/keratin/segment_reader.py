"""One segment, open for reading by offsets.

Its file is read in windows, the active one's only below the durable end, where its bytes do not
change. The file may be another one than the list of segments tells of: a
smaller one that compaction put in its place. So readers go by offsets, and never carry a position
from one open file to another.
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
    """Thread-safe, until it is closed."""

    def __init__(self, log: LogBytes, places: RecordPositions) -> None:
        self.log = log
        self.places = places

    def seek(self, offset: int, end: int, *, limit_offset: int) -> int:
        """Where the first record with messages at or behind `offset` begins, below `end`.

        `end` if there is none. If damage stands where it should be: where that begins. Damage
        before it is passed over: nobody asked for what was there.
        """
        position = self.places.end_at(offset)
        if position is not None:
            return min(position, end)
        position, least_offset = self._place_before(offset, end)
        while position < end:
            found = self.log.scan(position, end, bytes_max=_SEEK_BYTES)
            if isinstance(found, Stop):
                following = self.log.find(
                    position + 1, end, least_offset=least_offset, limit_offset=limit_offset
                )
                if following is None or following.offsets[0] > offset:
                    return position
                position = following.start
                continue
            if found.in_order_count(least_offset, limit_offset) < found.record_count:
                return position  # the walk that follows meets it, and says what is wrong
            index = found.index_for(offset)
            if index < found.record_count:
                return found.origin + int(found.positions[index])
            position, least_offset = found.end, found.next_offset
        return end

    def learn(self, run: Run) -> None:
        """A run that was read from here."""
        self.places.learn(
            offset=int(run.offsets[0]),
            start=run.start,
            next_offset=run.next_offset,
            end=run.end,
        )

    def close(self) -> None:
        self.log.close()

    def _place_before(self, offset: int, end: int) -> Place:
        """A record that is not behind `offset`, and its offset; the segment's start if need be."""
        for place in self.places.before(offset):
            if place[1] < end and self._is_at(place, end):
                return place[1], place[0]
            self.places.forget(place)
        return self.log.records_start, self.log.base_offset

    def _is_at(self, place: Place, end: int) -> bool:
        found = self.log.scan(place[1], end, bytes_max=0, count_max=1)
        return isinstance(found, Run) and found.offsets[0] == place[0]


def open_segment(disk: Disk, info: PartitionSegment, *, mutex: Mutex) -> SegmentReader:
    """`NotFound` if its file is gone."""
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=info.is_sealed)
    return SegmentReader(log, RecordPositions(mutex, _indexed(disk, info)))


def _indexed(disk: Disk, info: PartitionSegment) -> list[Place]:
    """What the index tells; nothing if there is no good one."""
    try:
        path = info.path.removesuffix(SegmentFile.LOG.value) + SegmentFile.INDEX.value
        entries = load_index(disk, path, base_offset=info.base_offset)
    except LakebedError:
        return []
    return [(info.base_offset + entry.relative_offset, entry.position) for entry in entries]
