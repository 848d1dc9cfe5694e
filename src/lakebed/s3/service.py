"""What the verbs work with: the open object store, the settings, and threads for what blocks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import TypeVar

from lakebed.base.clock import Clock
from lakebed.base.errors import Busy
from lakebed.s3.errors import S3Error
from lakebed.seglake.commits import Change, Pending
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.lake import Lake

Result = TypeVar("Result")

STREAMED_MAX = 64
PLACE_S = 20.0


class Service:
    """Used in the loop's thread; the store itself may be used in any."""

    def __init__(
        self, *, lake: Lake, config: EndpointConfig, clock: Clock, executor: Executor
    ) -> None:
        self.lake = lake
        self.config = config
        self.clock = clock
        self.executor = executor  # for reads and writes that may wait for the disk
        self._places = asyncio.Semaphore(STREAMED_MAX)
        self._waiting: dict[object, list[asyncio.Future[None]]] = {}  # by batch

    @contextlib.asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """A place among those whose bodies are being received; `SlowDown` if none gets free.

        Each of them takes some megabytes, so they are bounded whoever sends them, however slowly.
        """
        try:
            await asyncio.wait_for(self._places.acquire(), PLACE_S)
        except TimeoutError:
            raise S3Error("SlowDown", "Please reduce your request rate.", closes=True) from None
        try:
            yield
        finally:
            self._places.release()

    async def run(self, work: Callable[[], Result]) -> Result:
        """In another thread: what takes long, or waits for the disk. Never for a commit, which
        would take the threads from all others: those are for `commit` and `done`."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    async def commit(self, change: Change[Result]) -> Result:
        """What it did, once that is durable; `Busy` if too much waits for that already."""
        return await self.done(change.submit(timeout=0))

    async def handed_over(self, change: Change[Result]) -> Pending[Result]:
        """For what took long to come so far: it waits for its place in the queue.

        `Busy` only if others than the requests of this service fill the queue.
        """
        while True:
            try:
                pending = change.submit(timeout=0)
            except Busy:
                if not self._waiting:
                    raise
                await self._settled(next(iter(self._waiting)))
            else:
                self._watch(pending)
                return pending

    async def done(self, pending: Pending[Result]) -> Result:
        """What a request did that was handed over, once that is durable.

        The loop is woken once for all requests of a batch.
        """
        if not pending.is_done:
            self._watch(pending)
        if pending.batch in self._waiting:
            await self._settled(pending.batch)
        return pending.wait(0)

    def _watch(self, pending: Pending[Result]) -> None:
        """Its batch stands among those that are waited for until it is settled."""
        batch = pending.batch
        if batch in self._waiting:
            return
        self._waiting[batch] = []
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(self._settle, batch)

        pending.when_done(tell)

    async def _settled(self, batch: object) -> None:
        """Until one of those that are waited for is done."""
        is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[batch].append(is_done)
        await is_done

    def _settle(self, batch: object) -> None:
        for is_done in self._waiting.pop(batch):
            if not is_done.done():
                is_done.set_result(None)
