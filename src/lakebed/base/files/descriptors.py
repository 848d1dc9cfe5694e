"""The file descriptors of this process: how many are allowed, and how they are shared out.

The limit (`RLIMIT_NOFILE`) covers everything in the process, so the shares are process-wide too.
When too many files are open, idle ones are parked: their descriptors are closed, and reopened at
the next use (`real.RealFile`). A server bounds its connections by `connection_share`.

Only a program of ours, such as a node, may raise the limit: code in other programs may rely on
small descriptor numbers (`select`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from weakref import ReferenceType

from lakebed.base.errors import LakebedError
from lakebed.base.files import fork_guard

LOW_LIMIT: Final = 4096  # below it a node logs a warning
FILES_MAX: Final = 16_384
_RESERVED: Final = 64  # for SQLite, event loops, listeners, locks, the folder that is synced
_UNLIMITED: Final = 1 << 20
_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})

Result = TypeVar("Result")


def soft_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def raise_soft_limit() -> None:
    """Raises the soft limit to the hard limit, if that is allowed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def file_share() -> int:
    """Returns how many files stay open, unless more are in use at once."""
    return max(8, min(FILES_MAX, (soft_limit() - _RESERVED) // 4))


def connection_share() -> int:
    """Returns how many connections are allowed. One that is being sent a file uses two
    descriptors.
    """
    return max(8, (soft_limit() - _RESERVED - file_share()) // 2)


class Parkable(Protocol):
    """An open file that can give up its descriptor while it is idle."""

    def park(self, *, is_urgent: bool) -> bool:
        """Closes the descriptor unless it is in use; if `is_urgent` is false, recently used
        files are spared too. Never waits. Returns whether it was closed.
        """

    def keep(self) -> None:
        """Holds a descriptor from now on, because the file is about to lose its name."""


class Descriptors:
    """Tracks open files without keeping them alive. Thread-safe."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # Reentrant: the collector may close a file that was left open, at any moment.
        self._mutex = threading.RLock()
        self._files: dict[ReferenceType[Parkable], str] = {}  # guarded by _mutex, as all of it
        self._by_path: dict[str, list[ReferenceType[Parkable]]] = {}
        self._open_count = 0
        fork_guard.hold(self)

    def drop(self) -> None:
        """Forgets all files in a forked child, where files opened before the fork are refused."""
        self._start()

    @property
    def open_count(self) -> int:
        """The number of tracked files that are not parked."""
        return self._open_count

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """Calls `os.open`, parking other files if no descriptor is left. Close with `os.close`
        and `note_closed`.
        """
        if self._open_count >= file_share():
            self.make_room()
        descriptor = self.with_room(lambda: os.open(path, flags, mode))
        with self._mutex:
            self._open_count += 1
        return descriptor

    def note_closed(self) -> None:
        with self._mutex:
            self._open_count -= 1

    def with_room(self, call: Callable[[], Result]) -> Result:
        """Calls the function; if it fails for lack of descriptors, parks files and calls it once
        more.
        """
        try:
            return call()
        except OSError as error:
            if error.errno not in _MANY or not self.make_room():
                raise
            return call()

    def add(self, file: ReferenceType[Parkable], path: str) -> None:
        with self._mutex:
            self._files[file] = path
            self._by_path.setdefault(path, []).append(file)

    def remove(self, file: ReferenceType[Parkable]) -> None:
        with self._mutex:
            path = self._files.pop(file, None)
            if path is not None:
                others = self._by_path[path]
                others.remove(file)
                if not others:
                    del self._by_path[path]

    def keep(self, path: str) -> None:
        """Call before the name is removed or given to another file."""
        if path in self._by_path:
            with self._mutex:
                references = list(self._by_path.get(path, ()))
            for reference in references:
                file = reference()
                if file is not None:
                    with contextlib.suppress(LakebedError):  # reported by its next use
                        file.keep()

    def make_room(self) -> int:
        """Parks some files, idle ones first. Returns how many."""
        with self._mutex:
            known = list(self._files)
        target = max(1, file_share() // 8)
        parked = 0
        for is_urgent in (False, True):
            for reference in known:
                file = reference()
                if file is not None and file.park(is_urgent=is_urgent):
                    parked += 1
                    if parked == target:
                        return parked
        return parked


DESCRIPTORS: Final = Descriptors()
"""Of this process, as the limit is."""
