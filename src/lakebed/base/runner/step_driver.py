"""A task that runs the steps of many objects, but only of those that have work.

If the step of an object raises an error, the other objects are not affected. The error is logged
once (see `failure_backoff`) and kept until a later step of the same object succeeds. The step is
retried with growing delays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.base.runner.failure_backoff import FailureBackoff
from lakebed.base.runner.protocol import Event, Runner

Thing = TypeVar("Thing")


class StepDriver(Generic[Thing]):
    """Runs the steps of many objects, one at a time, on one task. Thread-safe.

    `step` does the work of one object that is due, and returns the ns until its next call for that
    object, or None to be called only after `add`.
    """

    def __init__(self, name: str, runner: Runner, step: Callable[[Thing], int | None]) -> None:
        self._name = name
        self._step_of = step
        self._clock = runner.clock
        self._mutex = runner.mutex()
        self._due_ns: dict[Thing, int] = {}  # guarded by _mutex; 0 means now
        self._running: Thing | None = None  # guarded by _mutex, like the next field
        self._ended: Event | None = None  # set when the running step ends, for callers of `remove`
        self._failing: dict[Thing, FailureBackoff] = {}  # guarded by _mutex
        self._runner = runner
        self._task = runner.spawn(name, self._step)

    def add(self, thing: Thing) -> None:
        """Makes the step run for the object soon. Adds the object if it is new."""
        with self._mutex:
            self._due_ns[thing] = 0
        self._task.wake()

    def remove(self, thing: Thing) -> None:
        """Removes the object. The step does not run for it after this method returns, unless it is
        added again. A step must not remove its own object.
        """
        while True:
            with self._mutex:
                self._due_ns.pop(thing, None)
                if self._running is not thing:
                    self._failing.pop(thing, None)
                    return
                ended = self._ended = self._ended or self._runner.event()
            ended.wait()

    def failures(self) -> dict[Thing, Exception]:
        """Returns the objects whose last step raised an error, with the errors."""
        with self._mutex:
            errors = [(thing, failing.error) for thing, failing in self._failing.items()]
        return {thing: error for thing, error in errors if error is not None}

    def stop(self) -> None:
        self._task.stop()

    def _step(self) -> int | None:
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            ready = [thing for thing, due_ns in self._due_ns.items() if due_ns <= now_ns]
        for thing in ready:
            self._run(thing)
        with self._mutex:
            earliest_ns = min(self._due_ns.values(), default=None)
        if earliest_ns is None:
            return None
        return max(earliest_ns - self._clock.monotonic_ns(), 0)

    def _run(self, thing: Thing) -> None:
        with self._mutex:
            if self._due_ns.pop(thing, None) is None:
                return  # removed in the meantime
            self._running = thing
        delay_ns = None
        try:
            delay_ns = self._step_of(thing)
        except Exception as error:  # noqa: BLE001 - the other things' steps must go on
            delay_ns = self._failing_of(thing).failed(error)
        else:
            if thing in self._failing:  # by this task alone
                self._failing_of(thing).succeeded()
        finally:
            with self._mutex:
                self._running = None
                if delay_ns is not None:
                    # `add` may have scheduled an earlier step in the meantime.
                    due_ns = self._clock.monotonic_ns() + delay_ns
                    self._due_ns[thing] = min(due_ns, self._due_ns.get(thing, due_ns))
                ended, self._ended = self._ended, None
            if ended is not None:
                ended.set()

    def _failing_of(self, thing: Thing) -> FailureBackoff:
        with self._mutex:
            if thing not in self._failing:
                name = getattr(thing, "name", thing)
                self._failing[thing] = FailureBackoff(task=self._name, of=name)
            return self._failing[thing]
