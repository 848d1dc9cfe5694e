"""Callbacks that are called when something has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from lakebed.base.runner import Runner

_log = logging.getLogger(__name__)


class Listeners:
    """Thread-safe."""

    def __init__(self, name: str, runner: Runner) -> None:
        self._name = name
        self._mutex = runner.mutex()
        self._callbacks: tuple[Callable[[], None], ...] = ()  # replaced under _mutex

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call it at each change, until the function returned is called."""
        end_dropped(self._callbacks)
        with self._mutex:
            self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            with self._mutex:
                self._callbacks = tuple(one for one in self._callbacks if one is not callback)

        return remove

    def call(self) -> None:
        """Call all of them, in the caller's thread. One that raises stops nothing else."""
        for callback in self._callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - the caller is not to blame
                _log.exception("%s: a callback failed", self._name)


def end_dropped(callbacks: Iterable[Callable[[], None]]) -> None:
    """End the listeners whose object is gone, so that those of a quiet log do not pile up.

    See `listen_weakly`. They take the mutex of whatever they listen to: call this without it.
    """
    for callback in callbacks:
        if getattr(callback, "is_dropped", False):
            callback()
