"""What the verbs work with: the open object store, the settings, and threads for what blocks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from lakebed.base.clock import Clock
from lakebed.http.completions import Completions
from lakebed.http.receiving import Receiving, Reception, TooManyBodies
from lakebed.s3.errors import S3Error
from lakebed.seglake.commits import Change, ChangeInSteps, Pending
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.lake import Lake

Result = TypeVar("Result")

LARGE_MAX = 64  # bodies that are received at once; each takes some megabytes
PREPARED_MAX = 16  # of some megabytes each
PREPARING_THREADS_MAX = 4


class Service:
    """Used in the loop's thread; the store itself may be used in any."""

    def __init__(
        self, *, lake: Lake, config: EndpointConfig, clock: Clock, executor: Executor
    ) -> None:
        self.lake = lake
        self.config = config
        self.clock = clock
        self.executor = executor  # for reads and writes that may wait for the disk
        self._receiving = Receiving(large_max=LARGE_MAX)
        self._preparing = asyncio.Semaphore(PREPARED_MAX)
        self._preparing_threads = asyncio.Semaphore(PREPARING_THREADS_MAX)
        self.completions = Completions()

    @contextlib.contextmanager
    def receiving(self) -> Iterator[Reception]:
        """A body on its way in; `SlowDown` if it is large and too many of them are."""
        try:
            with self._receiving.body() as reception:
                yield reception
        except TooManyBodies as error:
            raise S3Error("SlowDown", "Please reduce your request rate.", closes=True) from error

    async def run(self, work: Callable[[], Result]) -> Result:
        """In another thread: what takes long, or waits for the disk. Never for a commit, which
        would take the threads from all others: those are for `commit` and `done`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.executor, copy_context().run, work)

    async def prepared(self, steps: ChangeInSteps[Result]) -> Change[Result]:
        """A change that takes long to prepare: its steps take turns with those of others.

        Many of them do not take all threads: others have to read and list meanwhile.
        """
        try:
            change = await self.run(steps.step)
            if change is None:
                async with self._preparing:
                    while change is None:
                        async with self._preparing_threads:
                            change = await self.run(steps.step)
        finally:
            with contextlib.suppress(ValueError):  # a thread is still at it: the node is ending
                steps.close()
        return change

    async def commit(self, change: Change[Result]) -> Result:
        """What it did, once that is durable; `Busy` if too much waits for that already."""
        return await self.done(change.submit(timeout=0))

    async def handed_over(self, change: Change[Result]) -> Pending[Result]:
        """For what took long to come so far: it waits for its place in the queue.

        `Busy` only if others than the requests of this service fill the queue.
        """
        return await self.completions.handed_over(partial(change.submit, timeout=0))

    async def done(self, pending: Pending[Result]) -> Result:
        """What a request did that was handed over, once that is durable."""
        return await self.completions.of(pending)
