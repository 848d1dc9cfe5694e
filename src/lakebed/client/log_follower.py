"""A follower of a remote log: the remote form of `lakebed.aof.follower.Follower`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.aof.follower import RecordIterator
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import Clock
from lakebed.client.connection_pool import Interruption
from lakebed.client.followers import BATCH_BYTES, PollingIterator
from lakebed.client.record_page import batches_of

if TYPE_CHECKING:
    from lakebed.client.log import RemoteLog


class LogFollower(RecordIterator, PollingIterator[Record, RecordBatch, RecordId]):
    """Iterates over the records of a log from `start` (by default the oldest) on, and waits for new
    ones."""

    def __init__(self, log: RemoteLog, start: RecordId | None, *, clock: Clock) -> None:
        PollingIterator.__init__(self, clock, RecordId(0) if start is None else RecordId(start))
        self._log = log
        self._next = self._position  # where the next page starts
        self._batches: list[RecordBatch] = []  # in reverse order
        self._base_offsets: dict[int, int] = {}

    def poll(self, wait_ms: int, interruption: Interruption) -> RecordBatch | None:
        if not self._batches:
            page = self._log.page(
                self._next, max_bytes=BATCH_BYTES, wait_ms=wait_ms, interruption=interruption
            )
            needed = {RecordId(number).segment_index for number in page.record_ids}
            if not needed <= self._base_offsets.keys():
                segments = self._log.segments()
                self._base_offsets = {info.segment_id: info.base_offset for info in segments}
            self._next = RecordId(page.next)
            self._batches = list(batches_of(page, self._base_offsets))[::-1]
        return self._batches.pop() if self._batches else None
