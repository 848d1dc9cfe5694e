"""Runs blocking calls in threads, and awaits commits without a thread.

Request handlers run in the event loop's thread. Work that takes long or waits for the disk goes to
a thread (`run`). Changes go to the store's commit queue: `commit` submits a change and awaits it,
and `handed_over` waits for room in the queue if it is full. The loop is woken once per batch of
commits.

Invariant: no thread waits for a commit, or for room in the commit queue. While a commit stalls, all
threads remain free for readers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any, Final, TypeVar

from lakebed.base.commit import Batch, Ticket
from lakebed.base.errors import Busy, Closed, LakebedError
from lakebed.seglake.change import Change

Result = TypeVar("Result")

_IN_ONE_TURN: Final = 64  # changes queued per turn of the loop


class Worker:
    """Runs the blocking calls of one server in threads, and awaits its commits.

    Use it only in the event loop's thread.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor  # for calls that may wait for the disk
        self.call_count = 0  # calls in a thread, or waiting for one
        self._waiting: dict[Batch[Any, Any], list[asyncio.Future[None]]] = {}

    # Threads.

    async def run(self, work: Callable[[], Result]) -> Result:
        """Runs blocking work in another thread and returns its result.

        The work must not wait for a commit: if it did, a stalled commit could block every thread.
        Raises `Closed` if the threads were already stopped.
        """
        running = self._begin(work)
        self.call_count += 1
        try:
            return await running
        finally:
            self.call_count -= 1

    def start(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Starts blocking work in another thread, and returns a future of its result.

        Raises `Closed` if the threads were already stopped.
        """
        running = self._begin(work)
        self.call_count += 1
        running.add_done_callback(self._ended)
        return running

    def _begin(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        try:
            return loop.run_in_executor(self.executor, copy_context().run, work)
        except RuntimeError as error:  # the executor was shut down
            raise Closed("the store is being closed") from error

    def _ended(self, _done: asyncio.Future[Any]) -> None:
        self.call_count -= 1

    # Commits.

    @property
    def awaited_count(self) -> int:
        """The number of calls that wait for a commit, or for room in the commit queue."""
        return sum(map(len, self._waiting.values()))

    async def commit(self, change: Change[Result]) -> Result:
        """Commits a change and returns its result once it is durable.

        Raises `Busy` if the commit queue is full.
        """
        return await self.done(change.submit(timeout=0, is_awaited=True))

    async def commit_each(
        self, changes: Sequence[Change[Result] | LakebedError]
    ) -> list[Result | LakebedError]:
        """Commits each change on its own, and returns the result or the error of each, in order.

        All changes are queued before the result of the first is awaited, so that they share
        batches. An error in `changes` is returned in its place.
        """
        tickets: list[Ticket[Result] | LakebedError] = []
        for index, change in enumerate(changes):
            if index % _IN_ONE_TURN == 0:
                await asyncio.sleep(0)  # let other requests run
            if isinstance(change, LakebedError):
                tickets.append(change)
                continue
            try:
                tickets.append(await self.handed_over(change))
            except LakebedError as error:
                tickets.append(error)
        results: list[Result | LakebedError] = []
        for ticket in tickets:
            if isinstance(ticket, LakebedError):
                results.append(ticket)
                continue
            try:
                result = await self.done(ticket)
                results.append(result)
            except LakebedError as error:
                results.append(error)
        return results

    async def handed_over(self, change: Change[Result]) -> Ticket[Result]:
        """Adds a change to the commit queue and returns its ticket; waits if the queue is full.

        Waiting is cheaper than refusing the change and receiving its request body again. Raises
        `Busy` only if the queue is full and this server waits for none of the changes in it.
        """
        while True:
            try:
                ticket = change.submit(timeout=0, is_awaited=True)
            except Busy:
                if not self._waiting:
                    raise
                await self._settled(next(iter(self._waiting)))
            else:
                self._watch(ticket)
                return ticket

    async def done(self, ticket: Ticket[Result]) -> Result:
        """Waits until a queued change is committed. Returns its result or raises its error."""
        batch = ticket.batch
        if not batch.is_done:
            self._watch(ticket)
        if batch in self._waiting:
            await self._settled(batch)
        return ticket.result()

    def _watch(self, ticket: Ticket[Any]) -> None:
        """Tracks the batch of a ticket, so that callers can wait until it is committed."""
        batch = ticket.batch
        if batch in self._waiting:
            return
        self._waiting[batch] = []
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nothing waits
                loop.call_soon_threadsafe(self._settle, batch)

        ticket.when_done(wake)

    def _settled(self, batch: Batch[Any, Any]) -> asyncio.Future[None]:
        """Returns a future that is set when a tracked batch is committed or has failed."""
        is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[batch].append(is_done)
        return is_done

    def _settle(self, batch: Batch[Any, Any]) -> None:
        for is_done in self._waiting.pop(batch):
            if not is_done.done():
                is_done.set_result(None)
