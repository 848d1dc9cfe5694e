"""What a lake does beside its requests: seal segments, write manifest files, checkpoint the WAL.

None of it is waited for by anyone, and none of it is needed for what was acknowledged: after a
crash recovery finds what was not done. It gives way to requests: files are written in batches
while nothing is committed, or when that was put off for long, and slowly beside reads.
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
_FILES_BESIDE_REQUESTS = 256  # a moment's work: requests may come meanwhile
_QUIET_NS = 200 * NS_PER_MS  # without requests, before files are written
_ROUND_NS = 1 * NS_PER_S
_WAL_BYTES_MAX = 16 * MIB  # it slows down readers, and what is put off is paid in the end
_REST_PART = 4  # beside reads, so many times as long as it works it rests
_PATIENCE_ROUNDS = 30  # so many rounds requests may put it off


class Upkeep:
    """One step at a time, by the runner."""

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
        """`reads` tells how many there were so far."""
        self._database = database
        self._segments = segments
        self._files = files
        self._barrier = barrier
        self._sink = sink
        self._reads = reads
        self._clock = runner.clock
        self._put_off = 0  # rounds

    def step(self) -> int | None:
        """Do what is due; ns until the next look. Raises what keeps it from that."""
        try:
            self._seal()
            if self._is_busy():
                self._put_off += 1
                if self._database.wal_bytes > _WAL_BYTES_MAX:
                    self._database.checkpoint()
                return _ROUND_NS
            self._put_off = 0
            read_count, started_ns = self._reads(), self._clock.monotonic_ns()
            if self._write_files():
                took_ns = self._clock.monotonic_ns() - started_ns
                return took_ns * _REST_PART if self._reads() != read_count else 0
            self._database.checkpoint()
        except (Busy, Closed):
            pass
        due_ns = self._segments.due_in_ns()
        return _ROUND_NS if due_ns is None else min(_ROUND_NS, max(due_ns, _QUIET_NS))

    def finish(self) -> None:
        """At close, when nobody writes any more: everything, however much it is."""
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
        return quiet_ns < _QUIET_NS and self._put_off < _PATIENCE_ROUNDS

    def _write_files(self) -> bool:
        """Whether there may be more to do."""
        pending = self._pending(_FILES_BESIDE_REQUESTS)
        if not pending:
            return False
        mark = self._carry_out(pending)
        used_ns, commit_count = self._sink.used_ns, self._sink.commit_count
        Change(self._barrier, lambda writer, _chunks: mark(writer)).run()
        if self._sink.commit_count == commit_count + 1:
            self._sink.used_ns = used_ns  # that was not a request
        return len(pending) == _FILES_BESIDE_REQUESTS

    def _carry_out(self, pending: Sequence[PendingManifest]) -> Callable[[Writer], None]:
        """Bring files up to date; what is to be noted of it."""
        written, removed = self._files.carry_out(pending)
        return lambda writer: writer.mark_manifest_files(written=written, removed=removed)

    def _pending(self, count_max: int) -> Sequence[PendingManifest]:
        with self._database.snapshot() as reader:
            return reader.pending_manifests(count_max)


def record(database: Database, rows: Sequence[SegmentRow]) -> None:
    """Write rows of segments, outside of any request."""
    if rows:
        _require(database.write([lambda writer: put_segments(writer, rows)]))


def _require(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, LakebedError):
            raise result
