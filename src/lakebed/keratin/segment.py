"""The in-memory state of the active segment, to which records are being written. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from lakebed.keratin.format import RECORDS_START, RELATIVE_OFFSET_MAX, IndexEntry, TimeEntry
from lakebed.kernels.results import Column

Numbers = int | Sequence[int]


class ActiveSegment:
    """The offsets, end and index entries of the active segment.

    Only the writer changes it, and without a lock: other threads may see outdated numbers, and must
    not use the index entries.
    """

    def __init__(
        self, *, base_offset: int, created_ms: int, index_stride_bytes: int, next_offset: int
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.next_offset = next_offset  # the offset after its last message
        self.start = RECORDS_START  # the position of its first record
        self.end = RECORDS_START  # the end of its last record
        self.timestamp_ms_max = 0
        self._stride = index_stride_bytes
        self.last_position = RECORDS_START  # the position of its last record
        self.indexed_end = RECORDS_START  # the end of the last record with an index entry
        self.places: list[IndexEntry] = []
        self.times: list[TimeEntry] = []

    @property
    def is_empty(self) -> bool:
        return self.end == self.start

    def may_take(self, next_offset: int) -> bool:
        """Returns whether the indexes can store all offsets before `next_offset`."""
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
        """Adds records that were written at `end`; `positions` are relative to `end`."""
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
        """Sets the position of the first record, for a log header that is longer than `LOG_HEADER`.

        This must be called before any record is added.
        """
        self.start = self.end = self.indexed_end = position

    def skip(self, size: int) -> None:
        """Moves `end` past `size` damaged bytes, after which more records are added."""
        self.end += size

    def finished_times(self) -> list[TimeEntry]:
        """Returns the entries of the segment's time index, as needed when the segment is sealed.

        The last entry is for the segment's last offset, and so holds its largest timestamp. There
        are no entries if the segment has no records.
        """
        if self.is_empty:
            return self.times
        last = TimeEntry(self.timestamp_ms_max, self.next_offset - 1 - self.base_offset, 0)
        return [*self.times, last]

    def _points(self, positions: Column | Sequence[int], size: int) -> Iterator[int]:
        """Yields the indexes of the records that get an index entry: about one per stride.

        The stride, `index_stride_bytes`, is the least distance between the ends of two of these
        records.
        """
        end, stride, count = self.end, self._stride, len(positions)
        first = 0
        while first < count:
            # The first record that ends a stride or more after the last indexed one. Its end is
            # where the next record begins.
            stride_end = self.indexed_end + stride - end
            following = bisect_left(positions, stride_end, first + 1)
            if following == count and size < stride_end:
                return
            yield following - 1
            self.indexed_end = end + (positions[following] if following < count else size)
            first = following

    def _note_timestamp(self, timestamp_ms: int) -> None:
        self.timestamp_ms_max = max(self.timestamp_ms_max, timestamp_ms)
