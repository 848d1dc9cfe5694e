# Made by `python -m tools.asynced` of `src/lakebed/aof/follower.py`: edit that.
"""Follows a log: gives its records as they become durable, and waits for more in between."""

from __future__ import annotations

from lakebed.aio.client.batch_iterator import BatchIterator
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId


class RecordIterator(BatchIterator[Record, RecordBatch, RecordId]):
    """What records, batches and positions are to a follower."""

    def item_of(self, batch: RecordBatch, index: int) -> Record:
        return batch.record(index)

    def position_of(self, batch: RecordBatch, index: int) -> RecordId:
        return batch.record_id(index) if index < len(batch) else batch.end

    def rest_of(self, batch: RecordBatch, first: int) -> RecordBatch:
        return batch.part(first, len(batch))
