"""A log for programs with an event loop: thin shells over the notifiers of the engine.

Nothing here decides anything about the log; it only waits without blocking the loop. What may
touch the disk runs in the loop's executor, one hop a batch.
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
    """What `Follower` is, for one event loop: `async for record in AsyncFollower(log)`.

    A wait that is cancelled loses nothing: what was being read meanwhile is given out next. In the
    writer's process retention spares what it has not given out. One that is dropped without being
    closed keeps nothing.
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
        """Behind the last record given out."""
        return self._position

    async def next_batch(self) -> RecordBatch:
        """The next records; waits for one. `Closed` if the follower or its log was closed."""
        async with self._turn:
            batch = await self._filled()
            rest = batch.part(self._index, len(batch))
            self._batch = None
            self._position = rest.end
            return rest

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
        """Wake whoever waits, and end. Idempotent; to be called in the loop's thread."""
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
        """The batch with records that were not given out. Holds `_turn`."""
        if self._unsubscribe is None:
            self._loop = asyncio.get_running_loop()
            self._unsubscribe = listen_weakly(self._view, self._wake, on_dropped=self._cursor.close)
        while not self._is_closed:
            if self._batch is not None:
                return self._batch
            # First the event, then the look: a move in between is seen or waited for.
            self._moved.clear()
            self._batch = await self._take()
            self._index = 0
            if self._batch is None and not self._is_closed:
                self._position = self._cursor.position
                await self._moved.wait()
        raise Closed("the follower was closed")

    async def _take(self) -> RecordBatch | None:
        """What the cursor gives; a read that nobody waits for any more is the next one's."""
        if self._reading is None:
            loop = asyncio.get_running_loop()
            self._reading = loop.run_in_executor(None, self._cursor.take)
        reading = self._reading
        await asyncio.wait([reading])
        self._reading = None
        return reading.result()

    def _wake(self) -> None:
        """Called by the log, in any thread."""
        assert self._loop is not None
        # If it is set, its waiter has not looked yet, and will see this move as well.
        if not self._moved.is_set():
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._moved.set)


async def append_record_async(
    log: Aof, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
) -> RecordId:
    """`Aof.append_record`, waiting where that would block.

    Cancelled, it has appended nothing. If the log is closed meanwhile, the `WouldBlock` that it
    waited out is raised.
    """
    changed = asyncio.Event()
    stop: Callable[[], None] | None = None
    blocked: WouldBlock | None = None
    try:
        while True:
            # First the event, then the try: a change in between is tried again or waited for.
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
    """`Aof.flush`, led in the loop's executor."""
    await asyncio.get_running_loop().run_in_executor(None, log.flush, record_id)


def _setter(event: asyncio.Event, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    def set_soon() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(event.set)

    return set_soon
