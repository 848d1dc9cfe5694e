"""A read position in a log that advances batch by batch. Followers use it; it never waits.

Invariants: no record is between the last record returned and `position`, so a new cursor started at
`position` neither skips nor repeats a record. Retention may remove a segment that was read to its
end: the cursor then continues in the next segment.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.aof.format import RECORDS_START, next_base_offset
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import locate
from lakebed.aof.view import LogView
from lakebed.base.errors import NotFound


class LogCursor:
    """A read position in one log.

    Only one thread may use it at a time, but any thread may call `close`.
    """

    def __init__(
        self, view: LogView, start: RecordId | None, *, batch_bytes_max: int, handles_max: int = 2
    ) -> None:
        self._view = view
        self._reader = LogReader(view, handles_max=handles_max, window_bytes=batch_bytes_max)
        self._position = RecordId(0) if start is None else RecordId(start)
        # The base offset of the segment that contains `_position`. If retention removes that
        # segment, it identifies the next one.
        self._base_offset: int | None = None
        self._batches: Iterator[RecordBatch] = iter(())

    @property
    def position(self) -> RecordId:
        return self._position

    def take(self) -> RecordBatch | None:
        """Returns the next durable records, or None if there are none after `position`.

        Raises `NotFound` if retention removed records that were not returned yet, and `Closed` if
        the log is closed. From a log that was open for writing (`Aof`), the remaining durable
        records are returned first.
        """
        try:
            return self._next()
        except NotFound:
            self._view.refresh()
            self._step_over_removed()
            self._batches = iter(())
            return self._next()

    def close(self) -> None:
        self._reader.close()

    def _next(self) -> RecordBatch | None:
        batch = next(self._batches, None)
        while batch is None and self._view.wait_beyond(self._position, 0):
            end = self._view.durable_end()
            self._batches = self._reader.read_batches(self._position, end)
            batch = next(self._batches, None)
            if batch is None:
                # No record is between the two positions, only the boundary of two segments.
                self._move_to(end)
        if batch is not None:
            self._position = batch.end
            self._base_offset = batch.base_offset
        return batch

    def _step_over_removed(self) -> None:
        """Moves to the next segment if retention removed the current segment after it was read."""
        segments = self._view.segments()
        if not segments or self._base_offset is None:
            return
        position = self._position
        expected = next_base_offset(self._base_offset, position.segment_offset)
        first = segments[0]
        if first.segment_id == position.segment_index + 1 and first.base_offset == expected:
            self._move_to(RecordId.from_parts(first.segment_id, RECORDS_START))

    def _move_to(self, position: RecordId) -> None:
        """Sets `position` without reading, for example to the start of the next segment.

        No record may be between the old and the new position.
        """
        self._position = position
        try:
            segments = self._view.segments()
            self._base_offset = segments[locate(segments, position)].base_offset
        except NotFound:
            self._base_offset = None
