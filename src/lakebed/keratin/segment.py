"""The segment that is being written: what is known of it in memory. No I/O here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from lakebed.keratin.format import RECORDS_START, RELATIVE_OFFSET_MAX, IndexEntry, TimeEntry
from lakebed.kernels.results import Column

Numbers = int | Sequence[int]


class ActiveSegment:
    """Guarded by its partition's mutex; its indexes by whoever writes."""

    def __init__(
        self, *, base_offset: int, created_ms: int, index_stride_bytes: int, next_offset: int
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.next_offset = next_offset  # behind its last message
        self.start = RECORDS_START  # of its first record
        self.end = RECORDS_START  # behind its last record
        self.timestamp_ms_max = 0
        self._stride = index_stride_bytes
        self.last_position = RECORDS_START  # of its last record
        self.indexed_end = RECORDS_START  # of the last record with an index entry
        self.places: list[IndexEntry] = []
        self.times: list[TimeEntry] = []

    @property
    def is_empty(self) -> bool:
        return self.end == self.start

    def may_take(self, next_offset: int) -> bool:
        """Whether the indexes can count so far."""
        return next_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def add(
        self,
        *,
        positions: Column | Sequence[int],
        offsets: Column | Sequence[int] | range,
        timestamps_ms: Numbers | Column,
        size: int,
        next_offset: int,
    ) -> None:
        """Records that were written at `end`; `positions` count from there."""
        if isinstance(timestamps_ms, int):
            self._note_timestamp(timestamps_ms)
        done = 0
        for index in self._points(positions, size):
            if not isinstance(timestamps_ms, int):
                self._note_timestamp(max(timestamps_ms[done : index + 1]))
            relative = offsets[index] - self.base_offset
            self.places.append(IndexEntry(relative, 0, self.end + positions[index]))
            self.times.append(TimeEntry(self.timestamp_ms_max, relative, 0))
            done = index + 1
        if not isinstance(timestamps_ms, int) and done < len(positions):
            self._note_timestamp(max(timestamps_ms[done:]))
        if len(positions):
            self.last_position = self.end + int(positions[-1])
        self.end += size
        self.next_offset = next_offset

    def begin_at(self, position: int) -> None:
        """Behind a header that is longer than ours; before any record is added."""
        self.start = self.end = self._mark = position

    def skip(self, size: int) -> None:
        """Bytes that are no records: damage, with records behind it."""
        self.end += size

    def finished_times(self) -> list[TimeEntry]:
        """Of a sealed segment: its last message ends them, so that the largest time is there."""
        if self.is_empty:
            return self.times
        last = TimeEntry(self.timestamp_ms_max, self.next_offset - 1 - self.base_offset, 0)
        return [*self.times, last]

    def _points(self, positions: Column | Sequence[int], size: int) -> Iterator[int]:
        """The records that get an entry: those that fill a stride since the last that did."""
        end, stride, count = self.end, self._stride, len(positions)
        first = 0
        while first < count:
            # The first whose end, which is where the next begins, is a stride after that one's.
            wanted = self.indexed_end + stride - end
            following = bisect_left(positions, wanted, first + 1)
            if following == count and size < wanted:
                return
            yield following - 1
            self.indexed_end = end + (positions[following] if following < count else size)
            first = following

    def _note_timestamp(self, timestamp_ms: int) -> None:
        self.timestamp_ms_max = max(self.timestamp_ms_max, timestamp_ms)
