"""A registry that opens objects by key. Each object is opened once, by the first thread that needs
it, or in the background.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.files import fork_guard
from lakebed.base.runner.protocol import Event, Runner

_log = logging.getLogger(__name__)

AT_ONCE = 4  # objects opened at the same time, because opening mostly waits for syncs

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class _Entry(Generic[Thing]):
    def __init__(self, ready: Event) -> None:
        self.ready = ready
        self.thing: Thing | None = None
        self.error: BaseException | None = None


class OpenRegistry(Generic[Key, Thing]):
    """Opens objects when they are first needed, and keeps them by key. Thread-safe.

    `open_one` opens the object of a key. It is called without a lock, because it may take long.
    """

    def __init__(self, open_one: Callable[[Key], Thing], *, name: str, runner: Runner) -> None:
        """Creates an empty registry. `name` appears in error messages."""
        self._open_one = open_one
        self._name = name
        self._runner = runner
        self._mutex = runner.mutex()
        self._process = fork_guard.generation()
        self._entries: dict[Key, _Entry[Thing]] = {}  # guarded by _mutex
        self._scheduled: set[Key] = (
            set()
        )  # keys to open in the background; guarded by _mutex, like the next two
        self._waiters: list[Event] = []  # events that `first_open` waits on
        self._is_closed = False

    def get(self, key: Key) -> Thing:
        """Returns the object with that key. Opens it if necessary, or waits for the thread that is
        opening it. If opening fails, raises the error, and the next call tries again. Raises
        `Closed` if the registry is closed.
        """
        with self._mutex:
            if self._is_closed:
                raise Closed(f"{self._name} is closed")
            entry = self._entries.get(key)
            if entry is not None and entry.thing is not None:
                return entry.thing
            fork_guard.check(self._process, self._name)  # a forked child would wait for ever
            is_first = entry is None
            if entry is None:
                entry = self._entries[key] = _Entry(self._runner.event())
        if is_first:
            self._fill(key, entry)
        else:
            entry.ready.wait()
        if entry.error is not None:
            raise entry.error
        assert entry.thing is not None
        return entry.thing

    def get_all(self, keys: Iterable[Key]) -> list[Thing]:
        """Returns the objects with those keys, in order. Opens up to `AT_ONCE` of them at the same
        time. If some cannot be opened, tries all, and then raises the error of the first such key.
        """
        all_keys = list(keys)
        opened = self.opened()
        if all(key in opened for key in all_keys):
            return [opened[key] for key in all_keys]
        failures: dict[Key, Exception] = {}
        work = self._opening(all_keys, on_failure=failures.__setitem__)
        others = [self._runner.compute(work) for _ in range(min(AT_ONCE, len(all_keys)) - 1)]
        try:
            work()
        finally:
            for computation in others:
                computation.result()
        for key in all_keys:
            if key in failures:
                raise failures[key]
        return [self.get(key) for key in all_keys]

    def first_open(self, keys: Sequence[Key], *, timeout_ns: int | None = None) -> Key | None:
        """Waits until `get` can be called for one of the keys without waiting for another thread,
        and returns that key. Returns None on time-out.

        The result is the first key whose object is open. If none is open, it is the first key whose
        object is not being opened or scheduled to be opened, so that the caller can open it.
        """
        clock = self._runner.clock
        until_ns = None if timeout_ns is None else clock.monotonic_ns() + timeout_ns
        while True:
            changed = self._runner.event()
            with self._mutex:
                if self._is_closed:
                    raise Closed(f"{self._name} is closed")
                entries = {key: self._entries.get(key) for key in keys}
                for key, entry in entries.items():
                    if entry is not None and entry.thing is not None:
                        return key
                for key, entry in entries.items():
                    if entry is None and key not in self._scheduled:
                        return key
                fork_guard.check(self._process, self._name)
                self._waiters.append(changed)
            if until_ns is None:
                changed.wait()
            elif not changed.wait(max(0, until_ns - clock.monotonic_ns()) / NS_PER_S):
                return None

    def start_all(self, keys: Iterable[Key]) -> None:
        """Starts opening the objects with those keys in the background, and returns. Failures are
        logged.
        """
        opened = self.opened()
        missing = [key for key in keys if key not in opened]
        with self._mutex:
            self._scheduled.update(missing)
        work = self._opening(missing, on_failure=self._log_failure)
        try:
            for _ in range(min(AT_ONCE, len(missing))):
                self._runner.compute(work)
        except BaseException:
            self._unschedule(missing)
            raise

    def opened(self) -> dict[Key, Thing]:
        """Returns the open objects by key."""
        with self._mutex:
            entries = dict(self._entries)
        return {key: entry.thing for key, entry in entries.items() if entry.thing is not None}

    def forget(self, key: Key, thing: Thing) -> None:
        """Removes `thing`, the object of `key`, so that the next `get` opens the key again. Does
        nothing if the key has another object, or none.
        """
        with self._mutex:
            entry = self._entries.get(key)
            if entry is not None and entry.thing is thing:
                del self._entries[key]

    def close(self) -> list[Thing]:
        """Closes the registry, so that it opens no more objects. Waits for objects that are being
        opened, and returns all open objects, which the caller must close.
        """
        with self._mutex:
            self._is_closed = True
            entries, self._entries = self._entries, {}
        self._unschedule(())
        for entry in entries.values():
            entry.ready.wait()
        return [entry.thing for entry in entries.values() if entry.thing is not None]

    def _opening(
        self, keys: Iterable[Key], *, on_failure: Callable[[Key, Exception], None]
    ) -> Callable[[], None]:
        """Returns a function that opens the objects with those keys. If several threads call the
        function at the same time, they share the work.
        """
        left = deque(keys)  # `popleft` is atomic

        def work() -> None:
            while left:
                try:
                    key = left.popleft()
                except IndexError:  # another thread took the last key
                    return
                try:
                    self.get(key)
                except Exception as error:  # noqa: BLE001 - passed to `on_failure`
                    on_failure(key, error)
                finally:
                    self._unschedule((key,))

        return work

    def _unschedule(self, keys: Iterable[Key]) -> None:
        """Records that the keys are no longer scheduled to be opened, and wakes the callers of
        `first_open`.
        """
        with self._mutex:
            self._scheduled.difference_update(keys)
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()

    def _log_failure(self, key: Key, error: Exception) -> None:
        if not isinstance(error, Closed):
            _log.error("%s: %s was not opened: %s", self._name, key, error)

    def _fill(self, key: Key, entry: _Entry[Thing]) -> None:
        try:
            entry.thing = self._open_one(key)
        except BaseException as error:
            entry.error = error
            with self._mutex:
                if self._entries.get(key) is entry:
                    del self._entries[key]
            raise
        finally:
            entry.ready.set()
            self._unschedule((key,))
