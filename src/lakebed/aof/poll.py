"""Tells subscribers that a durable end moved which only looking again and again can show.

For logs whose writer is another process. Nothing is looked at while nobody subscribes.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.runner import Runner, Task

POLL_NS_MIN = 1 * NS_PER_MS
POLL_NS_MAX = 50 * NS_PER_MS


class DurablePoll:
    """Thread-safe."""

    def __init__(self, name: str, *, runner: Runner, durable_end: Callable[[], RecordId]) -> None:
        self._name = name
        self._runner = runner
        self._durable_end = durable_end
        self._mutex = runner.mutex()
        self._callbacks: dict[object, Callable[[], None]] = {}  # guarded by _mutex
        self._task: Task | None = None  # guarded by _mutex
        self._seen: RecordId | None = None  # of the step alone, as _delay_ns
        self._delay_ns = POLL_NS_MIN

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call it after each move, until the function returned is called."""
        key = object()
        with self._mutex:
            self._callbacks[key] = callback
            if self._task is None:
                self._task = self._runner.spawn(self._name, self._step)
            task = self._task
        task.wake()

        def unsubscribe() -> None:
            with self._mutex:
                self._callbacks.pop(key, None)

        return unsubscribe

    def notify(self) -> None:
        """Call every subscriber now."""
        with self._mutex:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()

    def close(self) -> None:
        """Stop looking. Idempotent; not to be called by a callback."""
        with self._mutex:
            task, self._task = self._task, None
        if task is not None:
            task.stop()

    def _step(self) -> int | None:
        with self._mutex:
            if not self._callbacks:
                self._delay_ns = POLL_NS_MIN
                return None
        try:
            end = self._durable_end()
        except LakebedError:
            # Whoever is woken looks for himself, and gets this error from where he can handle it.
            self.notify()
            return POLL_NS_MAX
        if end == self._seen:
            self._delay_ns = min(2 * self._delay_ns, POLL_NS_MAX)
        else:
            self._seen = end
            self._delay_ns = POLL_NS_MIN
            self.notify()
        return self._delay_ns
