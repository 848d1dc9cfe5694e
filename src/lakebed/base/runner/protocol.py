"""The interface between an engine and the runner that provides its threads, locks and events.

An engine starts no threads and creates no locks itself: it passes `step` functions to a runner, and
gets its locks and events from the runner. So the simulated runner can replay a whole run from a
seed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from lakebed.base.clock import Clock

Step = Callable[[], int | None]
"""Does the work that is due, and returns the ns until its next call, or None to be called only
after `Task.wake`.
"""


class Mutex(AbstractContextManager[object, None], Protocol):
    """A lock that is not re-entrant. Hold it only briefly: waiting for it has no time-out."""

    def acquire(self) -> object: ...

    def release(self) -> None: ...


class Event(Protocol):
    """An event that is set once and stays set, like `threading.Event` without `clear`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the event is set or `timeout` seconds have passed. Returns whether it is
        set.
        """


class Task(Protocol):
    """A step function that a runner calls repeatedly."""

    def wake(self) -> None:
        """Makes the runner call the step soon. If the step is running now, the runner calls it once
        more after that. Fast; never waits.
        """

    def stop(self) -> None:
        """Ends the task. The step does not run after this method returns. The step itself must not
        call this method. Idempotent.
        """


class Computation(Protocol):
    """A function call that `Runner.compute` started."""

    def result(self) -> object:
        """Waits until the function has ended, and returns its result or raises its error."""


class Runner(Protocol):
    @property
    def clock(self) -> Clock: ...

    def mutex(self) -> Mutex: ...

    def event(self) -> Event: ...

    def spawn(self, name: str, step: Step) -> Task:
        """Starts a task that calls `step` now, and again after the delay in ns that `step` returns,
        or only after `Task.wake` if it returns None. If `step` raises, it is not called again.
        Raises `Closed` if the runner is closed.
        """

    def compute(self, work: Callable[[], object]) -> Computation:
        """Calls `work` once. A runner with real threads calls it on another thread, while the
        caller continues. `work` may compute or do I/O, but must not wait for another computation.
        """

    def sleep_ns(self, duration_ns: int) -> None:
        """Waits for `duration_ns`, or until the runner is closed."""

    def close(self) -> None:
        """Stops all tasks, and waits until they and all computations have ended. Raises the error
        of the first task whose step raised. Idempotent.
        """
