"""All open segments of a lake: who writes borrows one, and has it alone until it is given back.

A segment is sealed when it is full, when nobody wrote to it for a while, and at close. Who seals
is whoever calls `seal_due`; the rows it returns are to be recorded by the caller, and until then
the segment's row says OPEN, which recovery puts right after a crash.

Invariants:
- no two borrowers have the same segment;
- a poisoned or full segment is lent to nobody;
- a segment is sealed by one thread only, while nobody has it;
- who has one when the lake is closed cannot write to it any more: the next to open it seals it.
"""

from __future__ import annotations

import logging
from random import Random

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit.space import SpaceReserve
from lakebed.base.errors import Closed, LakebedError, RetryError
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.segment_folder import SegmentFolder
from lakebed.seglake.segment_writer import SegmentWriter

_log = logging.getLogger(__name__)
_RETRY_NS = 1 * NS_PER_S  # of a seal that found the disk full


class SegmentPool:
    """Thread-safe. Starts no file before the first `borrow`."""

    def __init__(
        self,
        folder: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: SeglakeConfig,
        random: Random,
    ) -> None:
        """`folder` is `objects/segments` of the store, and is there."""
        self._folder = SegmentFolder(folder, disk=disk)
        self._reserve = SpaceReserve(disk, folder, reserve_bytes=config.reserve_bytes)
        self._reserving = runner.mutex()  # guards _reserve
        self._runner = runner
        self._clock = runner.clock
        self._config = config
        self._random = random
        self._mutex = runner.mutex()
        # All guarded by _mutex; with when they are to be sealed. The one used last is the last.
        self._idle: list[tuple[int, SegmentWriter]] = []
        self._to_seal: list[tuple[int, SegmentWriter]] = []  # lent to nobody any more
        self._lent: set[SegmentWriter] = set()
        self._is_closed = False

    def check_room(self, size: int) -> None:
        """`NoSpace` if bodies of that size would go below the reserve of free space.

        What only changes metadata is not refused: it may be what makes room.
        """
        with self._reserving:
            self._reserve.check(size)

    def borrow(self) -> SegmentWriter:
        """A segment with room, the one used last if there are several; else a new one.

        To be given back whatever happens. How many can be lent is not limited here: it is how
        many threads write at once.
        """
        with self._mutex:
            self._check_open()
            if self._idle:
                writer = self._idle.pop()[1]
                self._lent.add(writer)
                return writer
        writer = self._create()
        with self._mutex:
            self._lent.add(writer)
            is_late = self._is_closed
        if is_late:
            writer.withdraw()
        return writer

    def give_back(self, writer: SegmentWriter) -> None:
        """It may be in any state; what was appended and not synced was acknowledged to nobody."""
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            self._lent.discard(writer)
            is_done = writer.is_poisoned or self._is_closed
            if not is_done:
                self._keep(now_ns, writer)
        if is_done:
            _log.warning("segment %s is left to recovery", writer.segment_id)
            writer.close()

    def seal_due(self) -> list[SegmentRow]:
        """Seal what is full or idle; the rows, to be recorded. Never raises for one segment.

        One that finds the disk full is tried again the next time; one that fails otherwise is
        left to recovery.
        """
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            due = self._take_due(now_ns)
        rows = []
        for writer in due:
            try:
                rows += self._seal(writer)
            except RetryError:
                with self._mutex:
                    self._to_seal.append((now_ns + _RETRY_NS, writer))
        return rows

    def due_in_ns(self) -> int | None:
        """When `seal_due` has something to do; None: not before something is given back."""
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            due_ns = [due_ns for due_ns, _ in (*self._to_seal, *self._idle[:1])]
        return max(0, min(due_ns) - now_ns) if due_ns else None

    def close(self) -> list[SegmentRow]:
        """Seal all that nobody has; the rows, to be recorded. Idempotent.

        What is still lent, or cannot be sealed, is left to recovery.
        """
        with self._mutex:
            self._is_closed = True
            writers = [writer for _, writer in (*self._to_seal, *self._idle)]
            self._idle, self._to_seal = [], []
            lent = list(self._lent)
        for writer in lent:
            writer.withdraw()
        rows = []
        for writer in writers:
            try:
                rows += self._seal(writer)
            except RetryError as error:
                _log.warning("segment %s is not sealed: %s", writer.segment_id, error)
                writer.close()
        return rows

    def _create(self) -> SegmentWriter:
        created_ms = self._clock.wall_ns() // NS_PER_MS
        segment_id, file, entry = self._folder.create(created_ms=created_ms, random=self._random)
        return SegmentWriter(
            file,
            entry,
            segment_id=segment_id,
            bytes_max=self._config.segment_bytes,
            clock=self._clock,
            mutex=self._runner.mutex(),
        )

    def _keep(self, now_ns: int, writer: SegmentWriter) -> None:
        """For the next borrower, or to be sealed. Under the mutex."""
        if writer.is_full:
            self._to_seal.append((now_ns, writer))
            return
        self._idle.append((now_ns + self._config.segment_idle_ms * NS_PER_MS, writer))
        if len(self._idle) > self._config.open_segments_max:
            self._to_seal.append((now_ns, self._idle.pop(0)[1]))

    def _take_due(self, now_ns: int) -> list[SegmentWriter]:
        """Under the mutex."""
        both = (*self._to_seal, *self._idle)
        self._to_seal = [one for one in self._to_seal if one[0] > now_ns]
        self._idle = [one for one in self._idle if one[0] > now_ns]
        return [writer for due_ns, writer in both if due_ns <= now_ns]

    def _seal(self, writer: SegmentWriter) -> list[SegmentRow]:
        """Its row; none if there is nothing in it, or if it failed. A `RetryError`
        leaves it usable."""
        try:
            if not writer.is_empty:
                return [writer.seal()]
            writer.close()
            self._folder.remove(writer.segment_id)
        except RetryError:
            if not writer.is_poisoned:
                raise
            writer.close()
        except LakebedError as error:
            _log.warning("segment %s is left to recovery: %s", writer.segment_id, error)
            writer.close()
        return []

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the lake is closed")
