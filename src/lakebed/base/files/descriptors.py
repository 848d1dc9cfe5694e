"""Divides the file descriptors of this process between open files and connections.

The limit (`RLIMIT_NOFILE`) applies to the whole process, so the shares do too. When too many files
are open, idle ones are parked: their descriptors are closed, and the files are opened again at the
next use (`real.RealFile`). The servers of a node together accept at most `connection_share`
connections.

Only programs of Lakebed, such as a node, may raise the limit: code in other programs may rely on
small descriptor numbers, for example for `select`.
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

LOW_LIMIT: Final = 4096  # a node logs a warning if the limit is lower
FILES_MAX: Final = 16_384
_RESERVED: Final = 64  # for SQLite, event loops, listeners, locks, and folders during a sync
_UNLIMITED: Final = 1 << 20
_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})

Result = TypeVar("Result")


def soft_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def raise_soft_limit() -> None:
    """Raises the soft limit on descriptors to the hard limit, if that is allowed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def file_share() -> int:
    """Returns how many files may be open before idle files are parked, which closes their
    descriptors.
    """
    return max(8, min(FILES_MAX, (soft_limit() - _RESERVED) // 4))


def connection_share() -> int:
    """Returns how many connections the servers of this process together may accept. Each connection
    may use two descriptors: its socket, and a file that is sent.
    """
    return max(8, (soft_limit() - _RESERVED - file_share()) // 2)


class Parkable(Protocol):
    """An open file that can give up its descriptor while it is idle."""

    def park(self, *, is_urgent: bool) -> bool:
        """Closes the descriptor and returns True. Returns False if the file is in use, if `keep`
        was called, or if the descriptor is closed already.

        If `is_urgent` is false, a file that was used since the previous call also counts as in use.
        Syncs unsynced bytes before it closes the descriptor. Never waits for another thread.
        """

    def keep(self) -> None:
        """Keeps the descriptor open until `close`, and opens it again if it was closed. Must be
        called before the file is renamed or removed, because it cannot be opened again after that.
        """


class Descriptors:
    """Tracks the open files of this process with weak references. Thread-safe."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # Reentrant: the garbage collector may close a forgotten file at any moment.
        self._mutex = threading.RLock()
        self._files: dict[ReferenceType[Parkable], str] = {}  # guarded by _mutex, like the next two
        self._by_path: dict[str, list[ReferenceType[Parkable]]] = {}
        self._open_count = 0
        fork_guard.hold(self)

    def drop(self) -> None:
        """Forgets all files. Called in a forked child, which must not use its parent's files."""
        self._start()

    @property
    def open_count(self) -> int:
        """The number of tracked files that are not parked."""
        return self._open_count

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """Calls `os.open`, and parks other files if `file_share` files are open or no descriptor is
        left.

        The caller must close the descriptor with `os.close` and then call `note_closed`.
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
        """Calls the function. If it fails because no descriptor is left, parks files and calls it
        once more.
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
        """Makes the open files at `path` keep their descriptors. Must be called before the path is
        unlinked or renamed.
        """
        if path in self._by_path:
            with self._mutex:
                references = list(self._by_path.get(path, ()))
            for reference in references:
                file = reference()
                if file is not None:
                    with contextlib.suppress(LakebedError):  # the next use of the file raises it
                        file.keep()

    def make_room(self) -> int:
        """Parks up to an eighth of `file_share` files, those not recently used first, and returns
        how many it parked.
        """
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
"""The descriptors of this process."""
