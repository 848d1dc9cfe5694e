"""The open segments of an object store, which writers borrow for exclusive use and give back.

A segment is sealed when it is full, when it was not used for a while, when too many segments are
idle, or when the store is closed. `seal_due` seals segments in the caller's thread, and the caller
must record the rows that it returns in the metadata. Until then the state in the segment's row is
OPEN; after a crash, recovery seals such a segment again.

Invariants:
- A segment has at most one borrower.
- A poisoned or full segment is not lent.
- A segment is sealed by one thread, while it has no borrower.
- After the store is closed, borrowers cannot write. Their segments are sealed when the store is
  opened again.
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
_RETRY_NS = 1 * NS_PER_S  # delay before another attempt to seal on a full disk


class SegmentPool:
    """The pool of open segments. Creates no file before the first `borrow`. Thread-safe."""

    def __init__(
        self,
        folder: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        config: SeglakeConfig,
        random: Random,
    ) -> None:
        """`folder` is `objects/segments` of the store and must exist."""
        self._folder = SegmentFolder(folder, disk=disk)
        self._reserve = SpaceReserve(disk, folder, reserve_bytes=config.reserve_bytes)
        self._reserving = runner.mutex()  # guards _reserve
        self._runner = runner
        self._clock = runner.clock
        self._config = config
        self._random = random
        self._mutex = runner.mutex()
        # All guarded by _mutex. Pairs of (time to seal at, writer), the last used last.
        self._idle: list[tuple[int, SegmentWriter]] = []
        self._to_seal: list[tuple[int, SegmentWriter]] = []  # never lent again
        self._lent: set[SegmentWriter] = set()
        self._is_closed = False

    def check_room(self, size: int) -> None:
        """Raises `NoSpace` if writing `size` bytes would leave less than `reserve_bytes` free.

        Must be called before a body is written. It is not called for changes of metadata alone, so
        that objects can still be deleted while the disk is nearly full.
        """
        with self._reserving:
            self._reserve.check(size)

    def borrow(self) -> SegmentWriter:
        """Lends the most recently used segment that is not full, or a new segment.

        The borrower must always give it back, even after a failure. The pool does not limit the
        number of lent segments: each large body that is being received has one.
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
        """Takes back a lent segment, which may be full or poisoned or have unsynced records.

        Unsynced records were never acknowledged, so they may be lost.
        """
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            self._lent.discard(writer)
            is_done = writer.is_poisoned or self._is_closed
            if not is_done:
                self._keep(now_ns, writer)
        if is_done:
            _log.warning(
                "segment %s is not sealed until the store is opened again", writer.segment_id
            )
            writer.close()

    def seal_due(self) -> list[SegmentRow]:
        """Seals the segments that are full or idle for long enough, and returns their rows.

        The caller must record the rows in the metadata. If a segment cannot be sealed, no error is
        raised: after an error that may pass (a full disk, too many open files), a later call tries
        again; after any other error, recovery seals the segment when the store is opened again.
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
        """Returns the ns until `seal_due` has a segment to seal, or None if no segment is open.

        Segments that are lent do not count.
        """
        now_ns = self._clock.monotonic_ns()
        with self._mutex:
            due_ns = [due_ns for due_ns, _ in (*self._to_seal, *self._idle[:1])]
        return max(0, min(due_ns) - now_ns) if due_ns else None

    def close(self) -> list[SegmentRow]:
        """Seals all segments that are not lent, and returns their rows. Idempotent.

        The caller must record the rows in the metadata. Segments without records are removed.
        Segments that are still lent, or cannot be sealed, are sealed by recovery when the store is
        opened again.
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
                _log.warning(
                    "segment %s is not sealed until the store is opened again: %s",
                    writer.segment_id,
                    error,
                )
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
        """Keeps the segment for the next borrower, or for sealing if it is full.

        If too many segments are idle then, the one idle for longest is to be sealed. The caller
        must hold the mutex.
        """
        if writer.is_full:
            self._to_seal.append((now_ns, writer))
            return
        self._idle.append((now_ns + self._config.segment_idle_ms * NS_PER_MS, writer))
        if len(self._idle) > self._config.open_segments_max:
            self._to_seal.append((now_ns, self._idle.pop(0)[1]))

    def _take_due(self, now_ns: int) -> list[SegmentWriter]:
        """Removes and returns the segments to seal now. The caller must hold the mutex."""
        both = (*self._to_seal, *self._idle)
        self._to_seal = [waiting for waiting in self._to_seal if waiting[0] > now_ns]
        self._idle = [waiting for waiting in self._idle if waiting[0] > now_ns]
        return [writer for due_ns, writer in both if due_ns <= now_ns]

    def _seal(self, writer: SegmentWriter) -> list[SegmentRow]:
        """Seals the segment and returns its row in a list.

        The list is empty if the segment had no records and was removed, or could not be sealed.
        Raises `RetryError` if sealing can be tried again later.
        """
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
            _log.warning(
                "segment %s is not sealed until the store is opened again: %s",
                writer.segment_id,
                error,
            )
            writer.close()
        return []

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the object store is closed")
