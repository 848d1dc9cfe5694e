"""How requests reach the commit: waited for, or answered later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lakebed.base.commit import Barrier
from lakebed.base.commit.batch import Ticket
from lakebed.seglake.body import Body
from lakebed.seglake.commit import Plan, Request
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk

Result = TypeVar("Result")


class Pending(Generic[Result]):
    """A request that was handed over: it happens whether or not anyone waits."""

    def __init__(self, ticket: Ticket[Request, Any]) -> None:
        self._ticket = ticket

    @property
    def batch(self) -> object:
        """The same for all requests that are told at once."""
        return self._ticket.batch

    def wait(self, timeout: float | None = None) -> Result:
        """What it did, once that is durable; or the error it failed with."""
        found: Result = self._ticket.wait(timeout)
        return found

    def when_done(self, callback: Callable[[], None]) -> None:
        """Called in whatever thread commits; it must be quick. Once a batch is enough."""
        self._ticket.when_done(callback)


class Commits:
    """Thread-safe."""

    def __init__(self, barrier: Barrier[Request, Any]) -> None:
        self._barrier = barrier

    def run(
        self,
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Plan | None = None,
    ) -> Result:
        """Durable when it returns."""
        request = Request(apply, body, plan)
        found: Result = self._barrier.commit(request, size=request.size)
        return found

    def submit(
        self,
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Plan | None = None,
        *,
        timeout: float | None = None,
    ) -> Pending[Result]:
        """Waits only for room in the queue; with `timeout` 0 it never waits, but raises `Busy`."""
        request = Request(apply, body, plan)
        return Pending(self._barrier.submit(request, size=request.size, timeout=timeout))
