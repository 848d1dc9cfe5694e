"""Changes of the object store: prepared by any thread, carried out in the transaction of a commit.

A `Change` is an item of the lake's barrier (`base.commit`), and knows it: `run` waits until the
change is durable, `submit` queues it and returns its ticket.
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

CHANGE_BYTES = 512  # what a change without a body counts


class Change(Generic[Result]):
    """Something to be done in the transaction: all that comes before it is done.

    It happens once, by `run` or by `submit`.
    """

    __slots__ = ("_barrier", "apply", "body", "plan")

    def __init__(
        self,
        barrier: Barrier[Change[Any], Any],
        apply: Callable[[Writer, tuple[Chunk, ...]], Result],
        body: Body | None = None,
        plan: Callable[[tuple[Chunk, ...]], PlannedPut] | None = None,
    ) -> None:
        """`apply` is given where the body lies; what it returns is the result. `plan` is the same
        of a put without a condition: such ones are carried out together."""
        self._barrier = barrier
        self.apply = apply
        self.body = body
        self.plan = plan

    @property
    def size(self) -> int:
        """What it takes of the queue."""
        inline = None if self.body is None else self.body.inline
        return CHANGE_BYTES + (0 if inline is None else len(inline[1]))

    def run(self) -> Result:
        """What it did, durable when it returns."""
        result: Result = self._barrier.commit(self, size=self.size)
        return result

    def submit(self, *, timeout: float | None = None) -> Ticket[Result]:
        """Waits only for room in the queue; with `timeout` 0 it never waits, but raises `Busy`."""
        return self._barrier.submit(self, size=self.size, timeout=timeout)


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
