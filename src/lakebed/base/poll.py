"""Polls for changes by another process, which cannot notify this one.

The polling interval starts at 1 ms and grows to 50 ms while nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Closed, DataError, LakebedError, UnknownVersion
from lakebed.base.listeners import end_dropped
from lakebed.base.runner import Runner, Task
from lakebed.base.units import US_NS

_log = logging.getLogger(__name__)

POLL_NS_MIN = 1 * NS_PER_MS
POLL_NS_MAX = 50 * NS_PER_MS

_READ_ATTEMPTS = 8
_READ_AGAIN_NS = 50 * US_NS

Value = TypeVar("Value")


def poll_until(runner: Runner, is_reached: Callable[[], bool], timeout: float | None) -> bool:
    """Calls `is_reached` repeatedly until it returns True, and then returns True. Returns False
    after `timeout` seconds, and raises `Closed` if the runner was closed.
    """
    clock = runner.clock
    deadline = None if timeout is None else clock.monotonic_ns() + round(timeout * NS_PER_S)
    delay_ns = POLL_NS_MIN
    while not is_reached():
        now = clock.monotonic_ns()
        if deadline is not None:
            delay_ns = min(delay_ns, deadline - now)
            if delay_ns <= 0:
                return False
        runner.sleep_ns(delay_ns)
        if 2 * (clock.monotonic_ns() - now) < delay_ns:
            raise Closed("the runner was closed while waiting")
        delay_ns = min(2 * delay_ns, POLL_NS_MAX)
    return True


def read_overwritten(runner: Runner, read: Callable[[], Value]) -> Value | None:
    """Calls `read` for a small file that another process overwrites in place.

    A read during an overwrite may see a mix of both versions, which is not damage. So `read` is
    called again if it raises a `DataError` other than `UnknownVersion`; after several failures the
    result is None. `UnknownVersion` and errors that are not a `DataError`, such as `NotFound`, are
    passed on.
    """
    for attempt in range(_READ_ATTEMPTS):
        if attempt:
            runner.sleep_ns(attempt * _READ_AGAIN_NS)
        try:
            return read()
        except UnknownVersion:
            raise
        except DataError:
            continue
    return None


class Poll:
    """Polls a value, such as the durable end of a log, and calls its subscribers when it changes.

    `look` returns the value. While `look` raises a `LakebedError`, the subscribers are called at
    each poll. Polls only while there are subscribers. Thread-safe.
    """

    def __init__(self, name: str, *, runner: Runner, look: Callable[[], object]) -> None:
        self._name = name
        self._runner = runner
        self._look = look
        self._mutex = runner.mutex()
        self._callbacks: dict[object, Callable[[], None]] = {}  # guarded by _mutex
        self._task: Task | None = None  # guarded by _mutex
        self._seen: object = None  # used only by the step, like _delay_ns
        self._delay_ns = POLL_NS_MIN

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Adds a callback that is called after each change of the value. The returned function
        removes the callback.
        """
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
        """Calls every subscriber now."""
        with self._mutex:
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the other subscribers must be called
                _log.exception("%s: a subscriber failed", self._name)

    def close(self) -> None:
        """Stops polling. Idempotent; must not be called by a callback."""
        with self._mutex:
            task, self._task = self._task, None
        if task is not None:
            task.stop()

    def _step(self) -> int | None:
        with self._mutex:
            callbacks = list(self._callbacks.values())
        end_dropped(callbacks)
        with self._mutex:
            if not self._callbacks:
                self._delay_ns = POLL_NS_MIN
                return None
        try:
            value = self._look()
        except LakebedError:
            # A subscriber then reads the value itself, and gets this error where it can handle it.
            self.notify()
            return POLL_NS_MAX
        if value == self._seen:
            self._delay_ns = min(2 * self._delay_ns, POLL_NS_MAX)
        else:
            self._seen = value
            self._delay_ns = POLL_NS_MIN
            self.notify()
        return self._delay_ns
