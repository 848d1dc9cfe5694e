"""Segment files made ahead of need: of full length, and zero-filled where that pays.

A spare is named `*.seg.spare` until it is activated, and its length is durable before that: so a
file called `*.seg` always has its full length. Syncing into zero-filled space costs about half of
syncing into space the file system must still allocate; filling goes in steps, off the write path.

Invariants:
- a spare is in the list of ready ones, or belongs to whoever took it from there: so no zero is
  ever written to a file that became a segment;
- one that is filled in part may be taken: it is filled from its start, where it is used first;
- the budget is charged for every spare from before its file exists until it is taken or removed.
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

FILL_STEP_BYTES = 4 * MIB  # synced one by one: a large sync would hold up those of the callers


class Spare(NamedTuple):
    path: str
    filled: int  # bytes from its start that are zero-filled and synced


class Spares:
    """The spare files of one log. Its methods may be called from different threads."""

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
        self._ready: list[Spare] = []  # guarded by _mutex, as is the next; the fullest first
        self._number = 0
        # Held for a whole step of `prepare` or `fill`: `close` waits for it, and leaves nothing.
        self._filling_mutex = filling_mutex
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
            spare = self._ready.pop(0) if self._ready else None
        if spare is None:
            return self._made()
        self._discharge(spare)
        return spare.path

    def prepare(self, *, wanted: int, is_busy: bool) -> bool:
        """Make one more spare if there are fewer, and the budget has room; whether it did."""
        with self._filling_mutex:
            if self._is_closed or self.count >= wanted:
                return False
            if not self._budget.take(self._segment_bytes, is_busy=is_busy):
                return False
            self._metrics.spare_bytes.add(self._segment_bytes)
            try:
                path = self._made()
            except LakebedError:
                self._discharge(Spare("", 0))
                raise
            self._put_back(Spare(path, 0))
            return True

    @property
    def count(self) -> int:
        """How many are ready."""
        with self._mutex:
            return len(self._ready)

    def unfilled(self) -> Spare | None:
        """The spare that `fill` would go on with."""
        with self._mutex:
            return self._first_unfilled()

    def fill(self) -> None:
        """Zero-fill a few mebibytes more."""
        with self._filling_mutex:
            with self._mutex:
                spare = self._first_unfilled()
                if spare is None:
                    return
                self._ready.remove(spare)  # nobody else can take it now
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
        """Remove what is ready, and give the space back."""
        with self._mutex:
            ready, self._ready = self._ready, []
        for spare in ready:
            self._remove(spare)

    def close(self) -> None:
        """Remove all, when a step that is under way has ended. Idempotent."""
        with self._filling_mutex:
            self._is_closed = True
            self.give_up()

    def _first_unfilled(self) -> Spare | None:
        """Holds _mutex."""
        return next((s for s in self._ready if s.filled < self._segment_bytes), None)

    def _made(self) -> str:
        """A new file of full length, synced."""
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
            self._ready.sort(key=lambda spare: -spare.filled)

    def _remove(self, spare: Spare) -> None:
        self._unlink(spare.path)
        self._discharge(spare)

    def _discharge(self, spare: Spare) -> None:
        """It is no spare any more."""
        self._budget.give_back(self._segment_bytes)
        self._metrics.spare_bytes.add(-self._segment_bytes)
        self._metrics.spare_filled_bytes.add(-spare.filled)

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(LakebedError):  # what stays is removed by the next opening
            self._disk.unlink(path)
