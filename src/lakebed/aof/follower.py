"""Follows a log: gives its records as they become durable, and waits for more in between.

It is woken by the log and never polls. No record is lost, repeated or reordered, whatever happens
to the segments meanwhile; if retention removes records that were not taken yet, that is an error
and not a gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.aof.batch import Record, RecordBatch
from lakebed.aof.cursor import LogCursor
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogView
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.units import MIB

BATCH_BYTES = 1 * MIB


class Follower(Iterator[Record]):
    """Records from `start` on, or from the oldest. For one thread; any other may `close` it.

    As an iterator it gives records, waits without end, and ends when it is closed. `NotFound` if
    it fell behind retention, `Closed` if the log was closed.
    """

    def __init__(
        self, view: LogView, start: RecordId | None = None, *, batch_bytes_max: int = BATCH_BYTES
    ) -> None:
        self._view = view
        self._cursor = LogCursor(view, start, batch_bytes_max=batch_bytes_max)
        self._position = self._cursor.position
        self._batch: RecordBatch | None = None
        self._index = 0  # of the next record in _batch
        self._is_closed = False
        self._moved = view.runner.event()
        self._unsubscribe = view.on_durable(self._wake)

    @property
    def position(self) -> RecordId:
        """Behind the last record given out: a follower that starts there continues this one."""
        return self._position

    def next_batch(self, timeout: float | None = None) -> RecordBatch | None:
        """The next records; waits for one. None if the seconds passed first.

        `Closed` if the follower or its log was closed.
        """
        batch = self._rest()
        if batch is None:
            batch = self._wait_for_batch(timeout)
        if batch is not None:
            self._batch = None
            self._position = batch.end
        return batch

    def __next__(self) -> Record:
        batch = self._batch
        if self._is_closed:
            raise StopIteration
        if batch is None:
            try:
                batch = self._wait_for_batch(None)
            except Closed:
                if self._is_closed:
                    raise StopIteration from None
                raise
            assert batch is not None, "waited without a time-out"
            self._batch = batch
            self._index = 0
        record = batch.record(self._index)
        self._index += 1
        if self._index < len(batch):
            self._position = batch.record_id(self._index)
        else:
            self._position = batch.end
            self._batch = None
        return record

    def close(self) -> None:
        """Wake whoever waits, and end. Idempotent, from any thread."""
        self._is_closed = True
        self._unsubscribe()
        self._wake()
        self._cursor.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rest(self) -> RecordBatch | None:
        """What is left of a batch that was begun record by record."""
        if self._is_closed or self._batch is None:
            return None
        return self._batch.part(self._index, len(self._batch))

    def _wait_for_batch(self, timeout: float | None) -> RecordBatch | None:
        clock = self._view.runner.clock
        deadline = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
        while True:
            # First the event, then the look: a move in between sets it, and is seen or waited for.
            self._moved = moved = self._view.runner.event()
            if self._is_closed:
                raise Closed("the follower was closed")
            batch = self._cursor.take()
            if batch is not None:
                return batch
            self._position = self._cursor.position
            left = None if deadline is None else (deadline - clock.monotonic_ns()) / NS_PER_S
            if left is not None and left <= 0:
                return None
            moved.wait(left)

    def _wake(self) -> None:
        self._moved.set()
