"""How changes reach the commit: waited for, or answered later."""

from __future__ import annotations

from collections.abc import Callable, Generator
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

    @property
    def is_done(self) -> bool:
        return self._ticket.is_done

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

    def commit(self, request: Request) -> Any:
        """Durable when it returns."""
        return self._barrier.commit(request, size=request.size)

    def submit(self, request: Request, *, timeout: float | None) -> Pending[Any]:
        return Pending(self._barrier.submit(request, size=request.size, timeout=timeout))

    def run(self, apply: Callable[[Writer, tuple[Chunk, ...]], Result]) -> Result:
        """A change without a body, durable when it returns."""
        return Change(self, apply).run()


class Change(Generic[Result]):
    """Something to be done in the transaction: all that comes before it is done.

    It happens once, by `run` or by `submit`.
    """

    def __init__(
        self,
        commits: Commits,
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Plan | None = None,
    ) -> None:
        self._commits = commits
        self._request = Request(apply, body, plan)

    def run(self) -> Result:
        """What it did, durable when it returns."""
        found: Result = self._commits.commit(self._request)
        return found

    def submit(self, *, timeout: float | None = None) -> Pending[Result]:
        """Waits only for room in the queue; with `timeout` 0 it never waits, but raises `Busy`."""
        return self._commits.submit(self._request, timeout=timeout)


class ChangeInSteps(Generic[Result]):
    """A change that may take long to prepare: the first step is quick, each other handles a chunk.

    One step at a time, each in any thread: so others have their turn in between. To be closed.
    """

    def __init__(self, steps: Generator[None, None, Change[Result]]) -> None:
        self._steps = steps

    def step(self) -> Change[Result] | None:
        """Returns the change once all is prepared."""
        try:
            next(self._steps)
        except StopIteration as end:
            change: Change[Result] = end.value
            return change
        return None

    def run(self) -> Result:
        """Take all steps here and make the change, durable when it returns."""
        try:
            while (change := self.step()) is None:
                pass
        finally:
            self.close()
        return change.run()

    def close(self) -> None:
        """Give up what was prepared and not handed over. Idempotent."""
        self._steps.close()
