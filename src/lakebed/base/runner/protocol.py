"""What an engine may ask of whoever runs it.

An engine starts no thread and waits on no condition of its own: it hands `step` functions to a
runner, and takes its locks and events from it. So one seed can replay a whole run.
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
    """Set once and for all; `threading.Event` without `clear`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it was set before that many seconds had passed."""


class Task(Protocol):
    """A step that a runner repeats."""

    def wake(self) -> None:
        """Run the step soon: if it is running now, once more. Cheap, and never waits."""

    def stop(self) -> None:
        """No step runs after this returns. Not to be called by the step itself. Idempotent."""


class Computation(Protocol):
    """Work that was handed to another core."""

    def result(self) -> object:
        """Wait for its end; what it raised is raised here."""


class Runner(Protocol):
    @property
    def clock(self) -> Clock: ...

    def mutex(self) -> Mutex: ...

    def event(self) -> Event: ...

    def spawn(self, name: str, step: Step) -> Task:
        """Run `step` now and whenever it asks for it. One that raises is not run again."""

    def compute(self, work: Callable[[], object]) -> Computation:
        """Do a piece of work while the caller goes on: computing, or I/O, that waits for no other
        piece of work."""

    def sleep_ns(self, duration_ns: int) -> None:
        """Wait, or return early because the runner is closed."""

    def close(self) -> None:
        """Stop every task and wait for it; raise the first error a step ended with. Idempotent."""
