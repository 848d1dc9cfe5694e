"""Wakes the threads that wait for a log to change; they check for themselves what changed.

To miss no change, a thread calls `next_change` first, then checks its condition, and then waits for
the event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakebed.base.listeners import end_dropped
from lakebed.base.runner import Event, Runner

_log = logging.getLogger(__name__)


class Notifier:
    """Signals changes of one log. Thread-safe; listeners run in the thread that made the change."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._mutex = runner.mutex()
        self._changed: Event | None = None  # guarded by _mutex, like the next field
        self._listeners: list[Callable[[], None]] = []

    def next_change(self) -> Event:
        """Returns an event that is set when the log changes next."""
        with self._mutex:
            self._changed = self._changed or self._runner.event()
            return self._changed

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers `callback` to be called after each change of the log.

        The returned function unregisters it, and may be called more than once.
        """
        with self._mutex:
            others = tuple(self._listeners)
            self._listeners.append(callback)
        end_dropped(others)

        def stop() -> None:
            with self._mutex:
                if callback in self._listeners:
                    self._listeners.remove(callback)

        return stop

    def notify(self) -> None:
        with self._mutex:
            changed, self._changed = self._changed, None
            listeners = tuple(self._listeners)
        if changed is not None:
            changed.set()
        for listener in listeners:
            try:
                listener()
            except Exception:  # noqa: BLE001 - a listener may raise anything
                _log.exception("a log's change listener failed")
