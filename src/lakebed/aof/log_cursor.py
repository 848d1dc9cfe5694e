"""A place in a log from which reading goes on: what followers share. It never waits.

Invariants: `position` is behind the last record taken, so a cursor made there later continues
without a gap or a repetition; a segment that was read to its end may be removed without harm.
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
    """Used by one thread at a time, but for `close`."""

    def __init__(
        self, view: LogView, start: RecordId | None, *, batch_bytes_max: int, handles_max: int = 2
    ) -> None:
        self._view = view
        self._reader = LogReader(view, handles_max=handles_max, window_bytes=batch_bytes_max)
        self._position = RecordId(0) if start is None else RecordId(start)
        # Of the segment that `_position` is in, so that its end is known when it is gone.
        self._base_offset: int | None = None
        self._batches: Iterator[RecordBatch] = iter(())

    @property
    def position(self) -> RecordId:
        return self._position

    def take(self) -> RecordBatch | None:
        """The next durable records; None if there are none beyond `position` now.

        `NotFound` if retention removed records that were not taken. `Closed` if the log is.
        """
        try:
            return self._next()
        except NotFound:
            self._view.refresh()
            self._step_over_removed()
            self._batches = iter(())
            return self._next()

    def close(self) -> None:
        """Idempotent, from any thread."""
        self._reader.close()

    def _next(self) -> RecordBatch | None:
        batch = next(self._batches, None)
        while batch is None and self._view.wait_beyond(self._position, 0):
            end = self._view.durable_end()
            self._batches = self._reader.read_batches(self._position, end)
            batch = next(self._batches, None)
            if batch is None:
                # Nothing but segment boundaries: the same place, said differently.
                self._move_to(end)
        if batch is not None:
            self._position = batch.end
            self._base_offset = batch.base_offset
        return batch

    def _step_over_removed(self) -> None:
        """If the segment is gone but was taken to its end: go on with the next one."""
        segments = self._view.segments()
        if not segments or self._base_offset is None:
            return
        here = self._position
        expected = next_base_offset(self._base_offset, here.segment_offset)
        first = segments[0]
        if first.segment_id == here.segment_index + 1 and first.base_offset == expected:
            self._move_to(RecordId.from_parts(first.segment_id, RECORDS_START))

    def _move_to(self, position: RecordId) -> None:
        """To the same place in the log, said differently."""
        self._position = position
        try:
            segments = self._view.segments()
            self._base_offset = segments[locate(segments, position)].base_offset
        except NotFound:
            self._base_offset = None
