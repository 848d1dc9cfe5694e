"""Tells those who wait that something about a log changed; what it was they look up themselves.

Take the event first, then look at the condition, then wait: a change in between is not missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakebed.base.listeners import end_dropped
from lakebed.base.runner import Event, Runner

_log = logging.getLogger(__name__)


class Notifier:
    """Thread-safe. Listeners are called from whatever thread made the change."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._mutex = runner.mutex()
        self._changed: Event | None = None  # guarded by _mutex, as is the next
        self._listeners: list[Callable[[], None]] = []

    def next_change(self) -> Event:
        """Set at the next change."""
        with self._mutex:
            self._changed = self._changed or self._runner.event()
            return self._changed

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call at each change, until the function that this returns is called."""
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
            except Exception:  # noqa: BLE001 - whatever a listener raises
                _log.exception("a listener of a log failed")
