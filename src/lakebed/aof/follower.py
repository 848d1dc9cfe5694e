"""Follows a log: returns its records as they become durable, and waits for new records."""

from __future__ import annotations

from lakebed.aof.log_cursor import LogCursor
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogView
from lakebed.base.batch_iterator import BatchIterator
from lakebed.base.follower import FollowerBase
from lakebed.base.units import MIB

BATCH_BYTES = 1 * MIB


class RecordIterator(BatchIterator[Record, RecordBatch, RecordId]):
    """Iterates over the records of a log's batches."""

    def item_of(self, batch: RecordBatch, index: int) -> Record:
        return batch.record(index)

    def position_of(self, batch: RecordBatch, index: int) -> RecordId:
        return batch.record_id(index) if index < len(batch) else batch.end

    def rest_of(self, batch: RecordBatch, first: int) -> RecordBatch:
        return batch.part(first, len(batch))


class Follower(RecordIterator, FollowerBase[Record, RecordBatch, RecordId]):
    """Iterates over a log's records from `start`, or from the oldest, and waits for new records.

    If the log is open for writing (`Aof`), retention keeps the records that this follower has not
    read yet.
    """

    def __init__(
        self, view: LogView, start: RecordId | None = None, *, batch_bytes_max: int = BATCH_BYTES
    ) -> None:
        FollowerBase.__init__(self, view, LogCursor(view, start, batch_bytes_max=batch_bytes_max))
        view.hold(self)
