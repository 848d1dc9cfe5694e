"""Segment files made ahead of need: of full length, and zero-filled where that pays.

A spare is named `*.seg.spare` until it is activated, and its length is durable before that: so a
file called `*.seg` always has its full length. Syncing into zero-filled space costs about half of
syncing into space the file system must still allocate; filling goes in steps, off the write path.
"""

from __future__ import annotations

import contextlib

from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import Disk, File
from lakebed.base.runner import Mutex
from lakebed.base.units import MIB

FILL_STEP_BYTES = 4 * MIB  # synced one by one: a large sync would hold up those of the callers


class Spares:
    """The spare files of one log. `take`, `prepare` and `close` may run in different threads."""

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        *,
        segment_bytes: int,
        mutex: Mutex,
        filling_mutex: Mutex,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._segment_bytes = segment_bytes
        self._mutex = mutex
        self._ready: list[str] = []  # guarded by _mutex
        self._number = 0  # guarded by _mutex
        # Held for a whole step of `prepare`: a file must not be closed while it is filled, for the
        # zeros would go to whatever is opened under its number next.
        self._filling_mutex = filling_mutex
        self._filling: tuple[str, File, int] | None = None  # guarded by _filling_mutex
        self._is_closed = False  # guarded by _filling_mutex

    def remove_leftovers(self) -> None:
        """What an earlier process prepared is not trusted: it may not have been synced."""
        for name in self._disk.names(self._paths.segments):
            if name.endswith(SPARE_SUFFIX):
                with contextlib.suppress(NotFound):
                    self._disk.unlink(f"{self._paths.segments}/{name}")

    def take(self) -> str:
        """A file of full length, to be renamed; made now if none is ready."""
        with self._mutex:
            if self._ready:
                return self._ready.pop(0)
        path = self._new_path()
        with self._disk.create(path, size=self._segment_bytes) as file:
            file.sync()
        return path

    def prepare(self, *, wanted: int, zero_fill: bool) -> bool:
        """One step towards `wanted` spares; whether there is more to do."""
        with self._filling_mutex:
            return not self._is_closed and self._prepare(wanted, zero_fill)

    def abandon(self) -> None:
        """Give up the spare that is being prepared: its disk failed."""
        with self._filling_mutex:
            self._drop_filling()

    def close(self) -> None:
        """Give the space back, when a step that is under way has ended. Idempotent."""
        with self._filling_mutex:
            self._is_closed = True
            self._drop_filling()
        with self._mutex:
            ready, self._ready = self._ready, []
        for path in ready:
            self._unlink(path)

    def _prepare(self, wanted: int, zero_fill: bool) -> bool:
        """Holds _filling_mutex."""
        with self._mutex:
            missing = wanted - len(self._ready)
        if self._filling is None:
            if missing <= 0:
                return False
            path = self._new_path()
            self._filling = (path, self._disk.create(path, size=self._segment_bytes), 0)
        path, file, filled = self._filling
        if zero_fill and filled < self._segment_bytes:
            step = min(FILL_STEP_BYTES, self._segment_bytes - filled)
            file.zero_fill(filled, step)
            file.sync()
            self._filling = (path, file, filled + step)
            return True
        file.sync()
        file.close()
        self._filling = None
        with self._mutex:
            self._ready.append(path)
        return missing > 1

    def _drop_filling(self) -> None:
        if self._filling is not None:
            path, file, _ = self._filling
            self._filling = None
            with contextlib.suppress(LakebedError):
                file.close()
            self._unlink(path)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(LakebedError):  # what stays is removed by the next opening
            self._disk.unlink(path)

    def _new_path(self) -> str:
        with self._mutex:
            self._number += 1
            return self._paths.spare(self._number)
