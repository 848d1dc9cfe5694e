"""Things that are opened by name, each once, whoever asks and from however many threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed.base.runner import Event, Runner

Thing = TypeVar("Thing")


class _Entry(Generic[Thing]):
    def __init__(self, ready: Event) -> None:
        self.ready = ready
        self.thing: Thing | None = None
        self.error: BaseException | None = None


class Opened(Generic[Thing]):
    """Thread-safe. `open_one` is called without a lock, for it may take long."""

    def __init__(self, open_one: Callable[[str], Thing], *, runner: Runner) -> None:
        self._open_one = open_one
        self._runner = runner
        self._mutex = runner.mutex()
        self._entries: dict[str, _Entry[Thing]] = {}  # guarded by _mutex

    def get(self, name: str) -> Thing:
        """The thing of that name, opened by the first who asks; a failure is not remembered."""
        with self._mutex:
            entry = self._entries.get(name)
            is_first = entry is None
            if entry is None:
                entry = self._entries[name] = _Entry(self._runner.event())
        if is_first:
            self._fill(name, entry)
        else:
            entry.ready.wait()
        if entry.error is not None:
            raise entry.error
        assert entry.thing is not None
        return entry.thing

    def forget(self, name: str, thing: Thing) -> None:
        """The next to ask for the name opens it anew, unless another one is open by now."""
        with self._mutex:
            entry = self._entries.get(name)
            if entry is not None and entry.thing is thing:
                del self._entries[name]

    def opened(self) -> dict[str, Thing]:
        """What is open now, by name."""
        with self._mutex:
            entries = dict(self._entries)
        return {name: one.thing for name, one in entries.items() if one.thing is not None}

    def take_all(self) -> list[Thing]:
        """What is open, or just being opened, for whoever closes it."""
        with self._mutex:
            entries, self._entries = self._entries, {}
        for entry in entries.values():
            entry.ready.wait()
        return [entry.thing for entry in entries.values() if entry.thing is not None]

    def _fill(self, name: str, entry: _Entry[Thing]) -> None:
        try:
            entry.thing = self._open_one(name)
        except BaseException as error:
            entry.error = error
            with self._mutex:
                self._entries.pop(name, None)
            raise
        finally:
            entry.ready.set()
