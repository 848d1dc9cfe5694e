"""Callbacks that an object calls when it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from lakebed.base.runner import Runner

_log = logging.getLogger(__name__)


class Listeners:
    """The callbacks that are subscribed to one object. Thread-safe."""

    def __init__(self, name: str, runner: Runner) -> None:
        self._name = name
        self._mutex = runner.mutex()
        self._callbacks: tuple[Callable[[], None], ...] = ()  # replaced under _mutex

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Adds a callback. The returned function removes it."""
        end_dropped(self._callbacks)
        with self._mutex:
            self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            with self._mutex:
                self._callbacks = tuple(kept for kept in self._callbacks if kept is not callback)

        return remove

    def call(self) -> None:
        """Calls all callbacks in the caller's thread. If one raises, the others are still
        called.
        """
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the caller is not to blame
                _log.exception("%s: a callback failed", self._name)


def end_dropped(callbacks: Iterable[Callable[[], None]]) -> None:
    """Ends the subscriptions of `follower.listen_weakly` whose object was garbage-collected.

    Otherwise such subscriptions would accumulate on a log that does not change. The caller must not
    hold the mutex that guards the callbacks, because ending a subscription takes that mutex.
    """
    for callback in callbacks:
        if getattr(callback, "is_dropped", False):
            callback()
