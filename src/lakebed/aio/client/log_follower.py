# Made by `python -m tools.asynced` of `src/lakebed/client/log_follower.py`: edit that.
"""Follows a log of records over the wire: as `lakebed.aof.follower.Follower`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.aio.client.connection_pool import Interruption
from lakebed.aio.client.followers import BATCH_BYTES, PollingIterator
from lakebed.aio.client.record_iterator import RecordIterator
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import Clock
from lakebed.client.record_page import batches_of

if TYPE_CHECKING:
    from lakebed.aio.client.log import AsyncLog


class LogFollower(RecordIterator, PollingIterator[Record, RecordBatch, RecordId]):
    """Records from `start` on, or from the oldest."""

    def __init__(self, log: AsyncLog, start: RecordId | None, *, clock: Clock) -> None:
        PollingIterator.__init__(self, clock, RecordId(0) if start is None else RecordId(start))
        self._log = log
        self._next = self._position  # from where to read on
        self._batches: list[RecordBatch] = []  # the next one at the end
        self._base_offsets: dict[int, int] = {}

    async def poll(self, wait_ms: int, interruption: Interruption) -> RecordBatch | None:
        if not self._batches:
            page = await self._log.page(
                self._next, max_bytes=BATCH_BYTES, wait_ms=wait_ms, interruption=interruption
            )
            needed = {RecordId(one).segment_index for one in page.record_ids}
            if not needed <= self._base_offsets.keys():
                segments = await self._log.segments()
                self._base_offsets = {one.segment_id: one.base_offset for one in segments}
            self._next = RecordId(page.next)
            self._batches = list(batches_of(page, self._base_offsets))[::-1]
        return self._batches.pop() if self._batches else None
