"""Background work of an object store: seals segments, writes manifest files, checkpoints the WAL.

It also removes the manifest files of removed versions. Requests do not wait for this work, except
that the last step of a checkpoint briefly blocks changes. Acknowledged data does not depend on it:
work that a crash prevented is done after the store is opened again. Requests take precedence: files
are written in batches while nothing is being committed, or after they were postponed for too long,
and more slowly while reads are running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit import Barrier
from lakebed.base.errors import Busy, Closed, LakebedError
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.seglake.change import Change
from lakebed.seglake.commit_sink import CommitSink, put_segments
from lakebed.seglake.manifest_files import ManifestFiles
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.rows import PendingManifest, SegmentRow
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.segment_pool import SegmentPool

FILES_AT_ONCE = 2048
_FILES_PER_STEP = 256  # few, because requests may arrive meanwhile
_QUIET_NS = 200 * NS_PER_MS  # time without commits before files are written
_ROUND_NS = 1 * NS_PER_S
_WAL_BYTES_MAX = 16 * MIB  # a longer WAL slows down readers and its checkpoint takes longer
_PAUSE_FACTOR = 4  # while reads are running, a batch is followed by a pause this many times as long
_POSTPONED_ROUNDS_MAX = 30  # rounds that requests may postpone the work


class Upkeep:
    """The background work of one object store. A `StepDriver` calls `step` repeatedly."""

    name: Final = "objects"

    def __init__(
        self,
        database: Database,
        segments: SegmentPool,
        files: ManifestFiles,
        barrier: Barrier[Change[Any], Any],
        sink: CommitSink,
        *,
        reads: Callable[[], int],
        runner: Runner,
    ) -> None:
        """`reads` returns the number of reads so far; reads are running while it grows."""
        self._database = database
        self._segments = segments
        self._files = files
        self._barrier = barrier
        self._sink = sink
        self._reads = reads
        self._clock = runner.clock
        self._postponed_rounds = 0

    def step(self) -> int | None:
        """Does the work that is due, and returns the ns until the next step.

        0 means that more work is due now. If the work fails, raises the error, except `Busy` and
        `Closed`, and a later step tries again.
        """
        try:
            self._seal()
            if self._is_busy():
                self._postponed_rounds += 1
                if self._database.wal_bytes > _WAL_BYTES_MAX:
                    self._database.checkpoint()
                return _ROUND_NS
            self._postponed_rounds = 0
            read_count, started_ns = self._reads(), self._clock.monotonic_ns()
            if self._write_files():
                took_ns = self._clock.monotonic_ns() - started_ns
                return took_ns * _PAUSE_FACTOR if self._reads() != read_count else 0
            self._database.checkpoint()
        except (Busy, Closed):
            pass
        due_ns = self._segments.due_in_ns()
        return _ROUND_NS if due_ns is None else min(_ROUND_NS, max(due_ns, _QUIET_NS))

    def finish(self) -> None:
        """Closes the pool of segments and does all pending work.

        Called when the store is closed, after the last write.
        """
        record(self._database, self._segments.close())
        while pending := self._pending(FILES_AT_ONCE):
            _require(self._database.write([self._carry_out(pending)]))
        self._database.checkpoint()

    def _seal(self) -> None:
        rows = self._segments.seal_due()
        if rows:
            Change(self._barrier, lambda writer, _chunks: put_segments(writer, rows)).run()

    def _is_busy(self) -> bool:
        quiet_ns = self._clock.monotonic_ns() - self._sink.used_ns
        return quiet_ns < _QUIET_NS and self._postponed_rounds < _POSTPONED_ROUNDS_MAX

    def _write_files(self) -> bool:
        """Writes and removes one batch of manifest files; returns whether more may be pending."""
        pending = self._pending(_FILES_PER_STEP)
        if not pending:
            return False
        mark = self._carry_out(pending)
        used_ns, commit_count = self._sink.used_ns, self._sink.commit_count
        Change(self._barrier, lambda writer, _chunks: mark(writer)).run()
        if self._sink.commit_count == commit_count + 1:
            self._sink.used_ns = used_ns  # that commit was not a request
        return len(pending) == _FILES_PER_STEP

    def _carry_out(self, pending: Sequence[PendingManifest]) -> Callable[[Writer], None]:
        """Writes and removes manifest files.

        Returns the operation that records this in the metadata.
        """
        written, removed = self._files.carry_out(pending)
        return lambda writer: writer.mark_manifest_files(written=written, removed=removed)

    def _pending(self, count_max: int) -> Sequence[PendingManifest]:
        with self._database.snapshot() as reader:
            return reader.pending_manifests(count_max)


def record(database: Database, rows: Sequence[SegmentRow]) -> None:
    """Records segments in the metadata, in a transaction of its own."""
    if rows:
        _require(database.write([lambda writer: put_segments(writer, rows)]))


def _require(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, LakebedError):
            raise result
