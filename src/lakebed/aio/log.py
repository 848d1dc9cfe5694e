"""Follows and appends to a log of this process without blocking the event loop.

Calls that may access the disk run in the loop's executor, once per batch. All decisions are made by
the log itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from lakebed.aof.errors import AWAITED, WouldBlock
from lakebed.aof.follower import BATCH_BYTES
from lakebed.aof.log import Aof
from lakebed.aof.log_cursor import LogCursor
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogView
from lakebed.base.errors import Closed
from lakebed.base.follower import listen_weakly
from lakebed.base.layout import Buffer


class AsyncFollower(AsyncIterator[Record]):
    """The asyncio form of `Follower`, for one event loop: `async for record in AsyncFollower(log)`.

    Cancelling a wait loses no records: the next call returns the records that were being read. In
    the writer's process, retention keeps the records that this follower has not returned yet, until
    it is closed or garbage-collected.
    """

    def __init__(
        self, view: LogView, start: RecordId | None = None, *, batch_bytes_max: int = BATCH_BYTES
    ) -> None:
        self._view = view
        self._cursor = LogCursor(view, start, batch_bytes_max=batch_bytes_max)
        self._position = self._cursor.position
        self._batch: RecordBatch | None = None
        self._index = 0  # index of the next record in _batch
        self._is_closed = False
        self._moved = asyncio.Event()
        self._turn = asyncio.Lock()  # one task at a time waits for a batch
        self._reading: asyncio.Future[RecordBatch | None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # set with `_unsubscribe`
        view.hold(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def position(self) -> RecordId:
        """The position after the last record that was returned."""
        return self._position

    async def next_batch(self) -> RecordBatch:
        """Waits for the next records and returns them. Raises `Closed` if the follower or its log
        is closed."""
        async with self._turn:
            batch = await self._filled()
            remaining = batch.part(self._index, len(batch))
            self._batch = None
            self._position = remaining.end
            return remaining

    async def __anext__(self) -> Record:
        if self._batch is None or self._is_closed:
            async with self._turn:
                try:
                    await self._filled()
                except Closed:
                    if self._is_closed:
                        raise StopAsyncIteration from None
                    raise
                return self._next_record()
        return self._next_record()

    def close(self) -> None:
        """Closes the follower and wakes the tasks that wait for it. Idempotent. Call it in the
        loop's thread."""
        self._is_closed = True
        self._moved.set()
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._cursor.close()

    async def __aenter__(self) -> AsyncFollower:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _next_record(self) -> Record:
        batch = self._batch
        assert batch is not None
        record = batch.record(self._index)
        self._index += 1
        if self._index < len(batch):
            self._position = batch.record_id(self._index)
        else:
            self._position = batch.end
            self._batch = None
        return record

    async def _filled(self) -> RecordBatch:
        """Returns a batch with records that were not returned yet. The caller must hold `_turn`."""
        if self._unsubscribe is None:
            self._loop = asyncio.get_running_loop()
            self._unsubscribe = listen_weakly(self._view, self._wake, on_dropped=self._cursor.close)
        while not self._is_closed:
            if self._batch is not None:
                return self._batch
            # Clear the event first, then read: a later change is either read or sets the event.
            self._moved.clear()
            self._batch = await self._take()
            self._index = 0
            if self._batch is None and not self._is_closed:
                self._position = self._cursor.position
                await self._moved.wait()
        raise Closed("the follower was closed")

    async def _take(self) -> RecordBatch | None:
        """Returns the cursor's next batch; None if there is no new record.

        If a call is cancelled, the next call returns the batch that it was reading.
        """
        if self._reading is None:
            loop = asyncio.get_running_loop()
            self._reading = loop.run_in_executor(None, self._cursor.take)
        reading = self._reading
        await asyncio.wait([reading])
        self._reading = None
        return reading.result()

    def _wake(self) -> None:
        """Wakes the waiting task. The log calls this method, in any thread."""
        assert self._loop is not None
        # If it is already set, its waiter has not read yet and will see this change too.
        if not self._moved.is_set():
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._moved.set)


async def append_record_async(
    log: Aof, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
) -> RecordId:
    """Appends a record like `Aof.append_record`, but waits where that would raise a `WouldBlock`
    whose kind is in `AWAITED`.

    If this call is cancelled, nothing was appended. If the log is closed during a wait, raises the
    `WouldBlock` that caused the wait.
    """
    changed = asyncio.Event()
    stop: Callable[[], None] | None = None
    blocked: WouldBlock | None = None
    try:
        while True:
            # Clear the event first, then append: a change in between sets the event again.
            changed.clear()
            try:
                return log.append_record(payload, ext_id=ext_id, timestamp=timestamp)
            except WouldBlock as error:
                if error.kind not in AWAITED:
                    raise
                blocked = error
            except Closed:
                if blocked is None:
                    raise
                raise blocked from None
            if stop is None:
                stop = log.on_durable(_setter(changed, asyncio.get_running_loop()))
            else:
                await changed.wait()
    finally:
        if stop is not None:
            stop()


async def flush_async(log: Aof, record_id: RecordId | None = None) -> None:
    """Makes appended records durable: runs `Aof.flush` in the loop's executor."""
    await asyncio.get_running_loop().run_in_executor(None, log.flush, record_id)


def _setter(event: asyncio.Event, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    def set_soon() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(event.set)

    return set_soon
