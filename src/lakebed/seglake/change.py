"""Changes to the object store, prepared by any thread and applied in a commit's transaction.

A `Change` is queued in the commit barrier (`base.commit`), which commits changes in batches: `run`
waits until the change is durable, and `submit` queues it and returns a ticket.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from lakebed.base.commit import Barrier, Ticket
from lakebed.seglake.body import Body
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Chunk
from lakebed.seglake.versions import PlannedPut

Result = TypeVar("Result")

CHANGE_BYTES = 512  # the queue space that a change takes, in addition to a body in memory


class Change(Generic[Result]):
    """A fully prepared change, which still has to be committed.

    Call either `run` or `submit`, and only once.
    """

    __slots__ = ("_barrier", "apply", "body", "plan")

    def __init__(
        self,
        barrier: Barrier[Change[Any], Any],
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Callable[[tuple[Chunk, ...]], PlannedPut] | None = None,
    ) -> None:
        """`apply` makes the change in the transaction, given the body's chunks.

        `apply` returns the change's result. For a put without a condition, `plan` returns what
        `apply` would do, so that consecutive puts can be applied with fewer statements.
        """
        self._barrier = barrier
        self.apply = apply
        self.body = body
        self.plan = plan

    @property
    def size(self) -> int:
        """The queue space that the change takes, in bytes."""
        inline = None if self.body is None else self.body.inline
        return CHANGE_BYTES + (0 if inline is None else len(inline[1]))

    def run(self) -> Result:
        """Commits the change and returns its result once it is durable."""
        result: Result = self._barrier.commit(self, size=self.size)
        return result

    def submit(self, *, timeout: float | None = None, is_awaited: bool = False) -> Ticket[Result]:
        """Queues the change and returns a ticket for its result. Waits only for queue space.

        Raises `Busy` if there is no queue space within `timeout` seconds. 0 means not to wait, None
        to wait without limit. `is_awaited` means that the caller uses the ticket's `when_done`, so
        the change is committed without delay. A change that no caller waits for may stay queued
        for the time `[s3] sync_interval_ms`.
        """
        return self._barrier.submit(self, size=self.size, timeout=timeout, is_awaited=is_awaited)


class ChangeInSteps(Generic[Result]):
    """A change whose preparation may take long, split into steps so that other work can run.

    The first step is quick; each later step handles at most one chunk. Steps may run in any thread,
    one at a time. The caller must call `run` or `close`.
    """

    def __init__(self, steps: Generator[None, None, Change[Result]]) -> None:
        self._steps = steps

    def step(self) -> Change[Result] | None:
        """Runs one step. Returns the prepared change after the last step, otherwise None."""
        try:
            next(self._steps)
        except StopIteration as end:
            change: Change[Result] = end.value
            return change
        return None

    def run(self) -> Result:
        """Runs all steps in this thread and commits the change.

        Returns the result once it is durable.
        """
        try:
            while (change := self.step()) is None:
                pass
        finally:
            self.close()
        return change.run()

    def close(self) -> None:
        """Abandons the preparation if it is not finished. Idempotent."""
        self._steps.close()
