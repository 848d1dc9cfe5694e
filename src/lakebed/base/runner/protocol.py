"""What an engine may ask of its runner.

An engine starts no thread and waits on no condition of its own: it passes `step` functions to a
runner and takes its locks and events from it. So one seed can replay a whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from lakebed.base.clock import Clock

Step = Callable[[], int | None]
"""Do what is due, without waiting for more; then the ns to the next run, or None: when woken."""


class Mutex(AbstractContextManager[object, None], Protocol):
    """Not re-entrant. Held for a few lines, never across I/O."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Event(Protocol):
    """Set once and for all, like `threading.Event` without `clear`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Returns whether it was set within that many seconds."""


class Task(Protocol):
    """A step that a runner repeats."""

    def wake(self) -> None:
        """Runs the step soon, once more if it is running now. Cheap; never waits."""

    def stop(self) -> None:
        """Ends the task: no step runs after this returns. The step itself must not call it.
        Idempotent.
        """


class Computation(Protocol):
    """Work that runs on another thread."""

    def result(self) -> object:
        """Waits for the end; raises what the work raised."""


class Runner(Protocol):
    @property
    def clock(self) -> Clock: ...

    def mutex(self) -> Mutex: ...

    def event(self) -> Event: ...

    def spawn(self, name: str, step: Step) -> Task:
        """Runs `step` now and whenever it asks for it. A step that raises is not run again."""

    def compute(self, work: Callable[[], object]) -> Computation:
        """Runs a piece of work while the caller continues. It may compute or do I/O, but must
        not wait for another piece of work.
        """

    def sleep_ns(self, duration_ns: int) -> None:
        """Waits, or returns early because the runner is closed."""

    def close(self) -> None:
        """Stops every task and waits for it; raises the first error that a step ended with.
        Idempotent.
        """
