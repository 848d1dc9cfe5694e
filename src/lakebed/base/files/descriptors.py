"""The file descriptors of this process: how many there may be, and who has to do with fewer.

The limit (`RLIMIT_NOFILE`) is one for everything in the process, so what it is shared out to is
too. Files that are open and not in use are parked when there are too many: their descriptors are
closed, and opened again by the next use (`real.RealFile`). Connections are bounded by their server,
to `connection_share`.

Raising the limit is for a program that is ours, as a node: code of another program may rely on
its descriptors being small numbers (`select`).
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

LOW_LIMIT: Final = 4096  # below it whoever runs a node is warned
FILES_MAX: Final = 16_384
_RESERVED: Final = 64  # for SQLite, event loops, listeners, locks, the folder that is synced
_UNLIMITED: Final = 1 << 20
_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})

Result = TypeVar("Result")


def soft_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def raise_soft_limit() -> None:
    """To the hard one, if that is allowed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def file_share() -> int:
    """So many files stay open, unless more than that are in use at once."""
    return max(8, min(FILES_MAX, (soft_limit() - _RESERVED) // 4))


def connection_share() -> int:
    """So many connections may there be: one that is sent a file has two descriptors."""
    return max(8, (soft_limit() - _RESERVED - file_share()) // 2)


class Parkable(Protocol):
    """An open file that can do without its descriptor while it is not used."""

    def park(self, *, is_urgent: bool) -> bool:
        """Close the descriptor, unless it is in use; not even if it was of late and nothing is
        urgent. Never waits. Whether it was closed."""

    def keep(self) -> None:
        """Have a descriptor from now on, for the name is about to be another file's or none."""


class Descriptors:
    """Thread-safe. Knows the files, and keeps none of them from being collected."""

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
        """In a forked child: files opened before the fork are refused."""
        self._start()

    @property
    def open_count(self) -> int:
        """Of known files, those that are not parked."""
        return self._open_count

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """`os.open`, with room made for it. Closed by `os.close`, and `note_closed`."""
        if self._open_count >= file_share():
            self.make_room()
        found = self.with_room(lambda: os.open(path, flags, mode))
        with self._mutex:
            self._open_count += 1
        return found

    def note_closed(self) -> None:
        with self._mutex:
            self._open_count -= 1

    def with_room(self, call: Callable[[], Result]) -> Result:
        """What it gives; once more, with room made for it, if there was no descriptor."""
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
        """Idempotent."""
        with self._mutex:
            path = self._files.pop(file, None)
            if path is not None:
                others = self._by_path[path]
                others.remove(file)
                if not others:
                    del self._by_path[path]

    def keep(self, path: str) -> None:
        """Before the name is given to another file, or removed."""
        if path in self._by_path:
            with self._mutex:
                found = list(self._by_path.get(path, ()))
            for reference in found:
                file = reference()
                if file is not None:
                    with contextlib.suppress(LakebedError):  # told by its next use
                        file.keep()

    def make_room(self) -> int:
        """Park some files, those first that were not used of late; how many it were."""
        with self._mutex:
            known = list(self._files)
        wanted = max(1, file_share() // 8)
        parked = 0
        for is_urgent in (False, True):
            for reference in known:
                file = reference()
                if file is not None and file.park(is_urgent=is_urgent):
                    parked += 1
                    if parked == wanted:
                        return parked
        return parked


DESCRIPTORS: Final = Descriptors()
"""Of this process, as the limit is."""
