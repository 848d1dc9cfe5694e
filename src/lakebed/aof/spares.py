"""Spare segment files, created ahead of need with their full length, and zero-filled when useful.

A spare is named `*.seg.spare` until it becomes a segment, and its length is durable before that, so
a file named `*.seg` always has its full length. A sync of zero-filled space costs about half as
much as a sync of space that the file system must still allocate. Spares are filled in steps by the
maintenance task, so appends do not wait for this.

Invariants:

- a spare is either in the list of ready spares or owned by the thread that removed it from the
  list, so zeros are never written to a file that became a segment;
- a partly filled spare may be used: it is filled from its start, where records are written first;
- each spare counts against the budget from before its file exists until it is used or removed.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from lakebed.aof.metrics import LogMetrics
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files import Disk
from lakebed.base.runner import Mutex
from lakebed.base.units import MIB
from lakebed.base.zero_fill import SpareBudget

FILL_STEP_BYTES = 4 * MIB  # synced step by step: one large sync would delay the callers' syncs


class Spare(NamedTuple):
    path: str
    filled: int  # the bytes from the start that are zero-filled and synced


class Spares:
    """The spare files of one log. Thread-safe."""

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        *,
        segment_bytes: int,
        budget: SpareBudget,
        metrics: LogMetrics,
        mutex: Mutex,
        filling_mutex: Mutex,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._segment_bytes = segment_bytes
        self._budget = budget
        self._metrics = metrics
        self._mutex = mutex
        self._ready: list[Spare] = []  # the fullest first; guarded by _mutex, like the next field
        self._number = 0
        # Held for a whole step of `prepare` or `fill`, so that `close` waits and removes all files.
        self._filling_mutex = filling_mutex
        self._is_closed = False  # guarded by _filling_mutex

    def remove_leftovers(self) -> None:
        """Removes spares that an earlier process left, because they may not have been synced."""
        for name in self._disk.names(self._paths.segments):
            if name.endswith(SPARE_SUFFIX):
                with contextlib.suppress(NotFound):
                    self._disk.unlink(f"{self._paths.segments}/{name}")

    def take(self) -> str:
        """Returns the path of a spare file, which the caller renames to make it a segment.

        Creates the file if no spare is ready.
        """
        with self._mutex:
            spare = self._ready.pop(0) if self._ready else None
        if spare is None:
            return self._create()
        self._discharge(spare)
        return spare.path

    def prepare(self, *, count_max: int, is_busy: bool) -> bool:
        """Creates one spare if there are fewer than `count_max` and the budget has room.

        `is_busy` means that the log is written at a high rate. A log that is not busy gets no spare
        while the budget is too small for the busy logs. Returns whether a spare was created.
        """
        with self._filling_mutex:
            if self._is_closed or self.count >= count_max:
                return False
            if not self._budget.take(self._segment_bytes, is_busy=is_busy):
                return False
            self._metrics.spare_bytes.add(self._segment_bytes)
            try:
                path = self._create()
            except LakebedError:
                self._discharge(Spare("", 0))
                raise
            self._put_back(Spare(path, 0))
            return True

    @property
    def count(self) -> int:
        """The number of spares that are ready to be used."""
        with self._mutex:
            return len(self._ready)

    def unfilled(self) -> Spare | None:
        """Returns the spare that `fill` would fill next, or None if all are filled."""
        with self._mutex:
            return self._first_unfilled()

    def fill(self) -> None:
        """Zero-fills and syncs the next `FILL_STEP_BYTES` of a spare that is not filled yet."""
        with self._filling_mutex:
            with self._mutex:
                spare = self._first_unfilled()
                if spare is None:
                    return
                self._ready.remove(spare)  # no other thread can take it now
            step = min(FILL_STEP_BYTES, self._segment_bytes - spare.filled)
            try:
                with self._disk.open(spare.path, writable=True) as file:
                    file.zero_fill(spare.filled, step)
                    file.sync()
            except LakebedError:
                self._remove(spare)
                raise
            self._metrics.spare_filled_bytes.add(step)
            self._put_back(Spare(spare.path, spare.filled + step))

    def give_up(self) -> None:
        """Deletes all ready spares, which frees their bytes in the budget."""
        with self._mutex:
            ready, self._ready = self._ready, []
        for spare in ready:
            self._remove(spare)

    def close(self) -> None:
        """Waits for a running `prepare` or `fill`, and deletes all spares. Idempotent."""
        with self._filling_mutex:
            self._is_closed = True
            self.give_up()

    def _first_unfilled(self) -> Spare | None:
        """Returns the first spare that is not completely zero-filled, or None.

        The caller must hold `_mutex`.
        """
        return next((spare for spare in self._ready if spare.filled < self._segment_bytes), None)

    def _create(self) -> str:
        """Creates a spare file of full length, syncs it and returns its path."""
        with self._mutex:
            self._number += 1
            path = self._paths.spare(self._number)
        try:
            with self._disk.create(path, size=self._segment_bytes) as file:
                file.sync()
        except LakebedError:
            self._unlink(path)
            raise
        return path

    def _put_back(self, spare: Spare) -> None:
        with self._mutex:
            self._ready.append(spare)
            self._ready.sort(key=lambda ready: -ready.filled)

    def _remove(self, spare: Spare) -> None:
        self._unlink(spare.path)
        self._discharge(spare)

    def _discharge(self, spare: Spare) -> None:
        """Frees the bytes in the budget of a spare that was used or deleted."""
        self._budget.give_back(self._segment_bytes)
        self._metrics.spare_bytes.add(-self._segment_bytes)
        self._metrics.spare_filled_bytes.add(-spare.filled)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(
            LakebedError
        ):  # the next opening of the log removes a file that is left
            self._disk.unlink(path)
