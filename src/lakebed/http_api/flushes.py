"""Waits for records to become durable, with at most one flush per log at a time.

Requests that arrive during a flush share the next flush. So a log uses one thread, however many
clients append to it, and one sync wakes all requests whose records it made durable.
"""

from __future__ import annotations

import asyncio

from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import LakebedError
from lakebed.http_api.service import Service


class Flushes:
    """Flushes one log for all requests that wait for its records; see the module.

    Use it only in the event loop's thread.
    """

    def __init__(self, log: Aof) -> None:
        self._log = log
        self._under_way: asyncio.Future[None] | None = None

    async def until_durable(self, service: Service, last: RecordId) -> None:
        """Waits until the record `last` is durable. Raises the error of the flush if it fails."""
        is_covered = False  # whether the awaited flush began after the append
        while self._log.durable_end() <= last:
            if self._under_way is None:
                self._begin(service)
                is_covered = True
            assert self._under_way is not None
            try:
                await asyncio.shield(self._under_way)
            except LakebedError:
                if is_covered:
                    raise
            is_covered = True

    def _begin(self, service: Service) -> None:
        self._under_way = asyncio.ensure_future(service.run(self._log.flush))
        self._under_way.add_done_callback(self._ended)

    def _ended(self, done: asyncio.Future[None]) -> None:
        self._under_way = None
        if not done.cancelled():
            done.exception()  # mark as retrieved: all waiters may be gone
