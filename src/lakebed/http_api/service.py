"""What the handlers work with: the open store, and threads for what blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextvars import copy_context
from typing import TypeVar

from lakebed.api.jobs import JOBS, JobKind
from lakebed.base.clock import Clock, SystemClock
from lakebed.base.counters import Counters
from lakebed.base.errors import Busy, Closed
from lakebed.http.completions import Completions, Pending
from lakebed.http_api.budget import Budget
from lakebed.http_api.jobs import Jobs
from lakebed.http_api.lease_queue import LeaseQueues
from lakebed.http_api.limits import ApiLimits
from lakebed.store.store import Store

Result = TypeVar("Result")


class Service:
    """Used in the loop's thread; the store itself may be used in any."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        *,
        jobs: Mapping[str, JobKind] = JOBS,
        limits: ApiLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`clock` is the one of the requests."""
        self.store = store
        self.clock = clock or SystemClock()
        self.executor = executor  # for whatever may wait for the disk
        self.limits = limits or ApiLimits()
        self.budget = Budget(self.limits)
        self.counters = Counters()  # of the door itself, by operation and outcome
        self.jobs = Jobs(
            store,
            jobs,
            clock=store.runner.clock,
            running_max=self.limits.works_max,
            kept_max=self.limits.works_kept,
        )
        self.draining = asyncio.Event()  # who waits for something answers when it is set
        self.lease_queues = LeaseQueues()
        self._completions = Completions()
        self._handed_over = 0

    @property
    def is_draining(self) -> bool:
        return self.draining.is_set()

    def check_threads(self) -> None:
        """`Busy` if too much waits for a thread already. Asked before anything is begun."""
        if self._handed_over >= self.limits.threads_max + self.limits.waiting_max:
            raise Busy(f"{self._handed_over} calls wait for a thread, which is the maximum")

    async def run(self, work: Callable[[], Result]) -> Result:
        """In another thread: what takes long, or waits for the disk."""
        try:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self.executor, copy_context().run, work)
        except RuntimeError as error:  # it takes no more
            raise Closed("the store is being closed") from error
        self._handed_over += 1
        try:
            return await running
        finally:
            self._handed_over -= 1

    async def done(self, pending: Pending[Result]) -> Result:
        """What came of something that was handed over, once that is durable."""
        return await self._completions.of(pending)
