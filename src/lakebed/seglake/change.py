"""Changes to the object store, prepared by any thread and applied in a commit's transaction.

A `Change` is an item of the lake's commit barrier (`base.commit`): `run` waits until the change is
durable, `submit` queues it and returns its ticket.
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

CHANGE_BYTES = 512  # the queue space that a change without a body takes


class Change(Generic[Result]):
    """A change that is fully prepared; only its transaction is left to run.

    Call either `run` or `submit`, once.
    """

    __slots__ = ("_barrier", "apply", "body", "plan")

    def __init__(
        self,
        barrier: Barrier[Change[Any], Any],
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Callable[[tuple[Chunk, ...]], PlannedPut] | None = None,
    ) -> None:
        """`apply` gets the chunks of the body and returns the change's result.

        `plan` does the same for a put without a condition, so that such puts run together.
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
        """Makes the change and returns its result once it is durable."""
        result: Result = self._barrier.commit(self, size=self.size)
        return result

    def submit(self, *, timeout: float | None = None) -> Ticket[Result]:
        """Queues the change, waiting only for queue space.

        Raises `Busy` if there is none within `timeout` seconds; 0 means not to wait at all.
        """
        return self._barrier.submit(self, size=self.size, timeout=timeout)


class ChangeInSteps(Generic[Result]):
    """A change that may take long to prepare, split into steps so that other work can run between.

    The first step is quick; each later step handles one chunk. Steps may run in any thread, one at
    a time. The caller must close it.
    """

    def __init__(self, steps: Generator[None, None, Change[Result]]) -> None:
        self._steps = steps

    def step(self) -> Change[Result] | None:
        """Runs one step; returns the change after the last one, None before."""
        try:
            next(self._steps)
        except StopIteration as end:
            change: Change[Result] = end.value
            return change
        return None

    def run(self) -> Result:
        """Runs all steps in this thread, makes the change and returns once it is durable."""
        try:
            while (change := self.step()) is None:
                pass
        finally:
            self.close()
        return change.run()

    def close(self) -> None:
        """Abandons the preparation unless `step` returned the change. Idempotent."""
        self._steps.close()
