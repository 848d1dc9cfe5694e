# Made by `python -m tools.asynced` of `src/lakebed/aof/follower.py`: edit that.
"""Follows a log: returns its records as they become durable, waiting for new ones."""

from __future__ import annotations

from lakebed.aio.client.batch_iterator import BatchIterator
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId


class RecordIterator(BatchIterator[Record, RecordBatch, RecordId]):
    """Iterates over the records of a log's batches."""

    def item_of(self, batch: RecordBatch, index: int) -> Record:
        return batch.record(index)

    def position_of(self, batch: RecordBatch, index: int) -> RecordId:
        return batch.record_id(index) if index < len(batch) else batch.end

    def rest_of(self, batch: RecordBatch, first: int) -> RecordBatch:
        return batch.part(first, len(batch))
