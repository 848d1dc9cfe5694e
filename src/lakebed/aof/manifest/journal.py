"""A manifest log that is open for writing.

A record is encoded, gets its position, is applied to the index and queued, all in one critical
section. It becomes durable at most `commit_ms` later, unless writes fail. So the index in memory
may be ahead of the disk, and a crash may lose the last records. Lost records of opened, sealed and
evicted segments are added again when the log is opened, by comparing the index with the segment
files (`reconciliation`).

A chunk is sealed, and the next one started, when the next record does not fit, or when its first
record about a segment is `rotation_ms` old. A snapshot is taken after every `snapshot_chunks`
chunks, and on close if segments changed; it is durable before the marker that names it is recorded.
While the log does not change, nothing is written and no thread is woken, except to seal an old
chunk.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from random import Random

from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    RECORDS_START,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.metrics import ManifestMetrics
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    Position,
    Unknown,
    encode_record,
)
from lakebed.aof.manifest.replay import SEGMENT_ID_MAX, ReplayResult
from lakebed.aof.manifest.sink import ChunkSink, Item, Nothing, OpenChunk, Seal, Write
from lakebed.aof.manifest.snapshot import Snapshot, encode_snapshot
from lakebed.aof.manifest.state import SegmentState
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit import Barrier, Ticket
from lakebed.base.errors import DiskError, InputError, LakebedError, NotFound, RetryError
from lakebed.base.events import RareEvent, event
from lakebed.base.files import Disk, replace_atomically
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.base.runner import Runner

_log = logging.getLogger(__name__)


class Journal:
    """Writes the manifest log of one log. Thread-safe; `append` never waits and does no I/O."""

    def __init__(
        self,
        disk: Disk,
        paths: ManifestPaths,
        replayed: ReplayResult,
        tail: OpenChunk | None,
        *,
        config: ManifestConfig,
        runner: Runner,
        random: Random,
        metrics: ManifestMetrics,
        wake: Callable[[], None],
        on_sealed: Callable[[], None],
        on_room: Callable[[], None],
        on_failure: Callable[[LakebedError], None],
    ) -> None:
        """`wake` must make the owner of the journal call `step` soon.

        `on_sealed` is called after each chunk is sealed, `on_room` when the queue has room again
        after `append` raised `Busy`, and `on_failure` when the manifest log can no longer be
        written.
        """
        self.disk = disk
        self._paths = paths
        self._config = config
        self._runner = runner
        self._clock = runner.clock
        self._metrics = metrics
        self._wake = wake
        self._on_failure = on_failure
        self._backoff = Backoff(RetryPolicy(), random)
        self._sink = ChunkSink(
            disk,
            paths,
            chunk_bytes=config.chunk_bytes,
            growth_bytes=config.growth_bytes,
            tail=tail,
            on_committed=self._on_committed,
            on_sealed=on_sealed,
            on_failure=self._on_sink_failure,
        )
        self._barrier: Barrier[Item, None] = Barrier(
            self._sink,
            name=paths.folder,
            runner=runner,
            wake=wake,
            config=config.commit_config(),
            on_room=on_room,
        )
        # The mutex guards everything below. It is taken after the log's, and not held during I/O.
        self._mutex = runner.mutex()
        self._index = replayed.index
        states = replayed.index.segments()
        self._segment_id_max = max((state.segment_id for state in states), default=-1)
        self._end = replayed.end  # where the next record goes, if it fits
        self._ordinal = replayed.next_ordinal
        self._ticket: Ticket[None] | None = None
        self._sealed_count = replayed.sealed_count  # chunks sealed since the replayed snapshot
        self._news_count = replayed.news_count  # records about segments since then
        self._sealed_in_snapshot = 0  # the part of these counts that the last snapshot covers
        self._news_in_snapshot = 0
        self._snapshot_id = replayed.snapshot_id_max
        self._news_at_ns: int | None = (
            None  # when the open chunk got its first record about a segment
        )
        if tail is not None and replayed.news_count:
            self._news_at_ns = self._clock.monotonic_ns()
        self._lag_bytes = 0
        metrics.lag_bytes.follow(lambda: self._lag_bytes)
        self._error: RetryError | None = None  # why commits currently fail
        self._commit_failed = RareEvent(
            _log,
            "manifest_commit_failed",
            level=logging.ERROR,
            clock=runner.clock,
            every_ns=60 * NS_PER_S,
        )
        self._retry_at_ns = 0
        self._is_closed = False

    def append(self, *payloads: Payload, segment_id: int, logical_offset: int) -> Position:
        """Appends records about one segment, and returns the position of the first record.

        The records are durable after a `commit`. Raises `Busy` if the queue has no room for all of
        them, and `InputError` if a replay would not trust one of them; none is appended then. With
        the segment id `MANIFEST_ITSELF`, the records are about the manifest log itself.
        """
        with self._mutex:
            for payload in payloads:
                self._check_plausible(payload, segment_id, logical_offset)
            wall_ms = self._clock.wall_ns() // NS_PER_MS
            timestamp_ms = max(wall_ms, self._index.last_timestamp_ms)
            records = [
                ManifestRecord(payload, segment_id, logical_offset, timestamp_ms)
                for payload in payloads
            ]
            data = b"".join(map(encode_record, records))
            if not self._fits(len(data)):
                self._rotate()
            position = self._end
            self._submit(Write(position, self._ordinal, data), size=len(data))
            for record in records:
                self._index.apply(record)
                if isinstance(record.payload, SegmentOpened):
                    self._segment_id_max = max(self._segment_id_max, segment_id)
            self._end = Position(position.chunk_index, position.offset + len(data))
            self._ordinal += len(records)
            self._lag_bytes += len(data)
            self._metrics.records.add(len(records))
            if segment_id != MANIFEST_ITSELF:
                self._news_count += len(records)
                if self._news_at_ns is None:
                    self._news_at_ns = self._clock.monotonic_ns()
            return position

    def commit(self, timeout: float | None = None) -> None:
        """Waits until everything appended so far is durable; raises the error if a write fails.

        Raises `OutcomeUnknown` after `timeout` seconds; the records are still queued then.
        """
        with self._mutex:
            ticket = None if self._error is not None else self._ticket
        if ticket is None or ticket.is_done:
            if self._error is not None or ticket is not None:
                self._barrier.commit(Nothing(), size=0, timeout=timeout)
        else:
            ticket.wait(timeout)

    def step(self) -> int | None:
        """Makes queued records durable, seals an old chunk and takes a snapshot, as they are due.

        Returns the nanoseconds until this must be called again, or None if it need not be called.
        """
        if self._error is not None:
            delay_ns = self._retry_at_ns - self._clock.monotonic_ns()
            if delay_ns > 0:
                return delay_ns
            with contextlib.suppress(LakebedError):
                self._barrier.commit(Nothing(), size=0)
            if self._error is not None:
                return max(1, self._retry_at_ns - self._clock.monotonic_ns())
        rotation_ns = None
        try:
            rotation_ns = self._rotate_if_old()
            if self._is_snapshot_due():
                self.take_snapshot()
        except LakebedError as error:  # retried by a later step, or on close
            self._log_failure("manifest_upkeep_failed", error)
        delays = [rotation_ns, self._barrier.step()]
        return min((delay for delay in delays if delay is not None), default=None)

    def rotate(self) -> None:
        """Seals the open chunk now, if it has a record. The seal is durable after a `commit`."""
        with self._mutex:
            if self._end.offset > RECORDS_START:
                self._rotate()

    def take_snapshot(self) -> int:
        """Writes a snapshot of the current state and a marker record; returns the snapshot's id."""
        with self._mutex:
            self._snapshot_id += 1
            snapshot = Snapshot(self._snapshot_id, self._end, self._index.copy())
            news_count = self._news_count
            sealed_count = self._sealed_count
        self.commit()  # a snapshot must not contain records that a crash could still lose
        data = encode_snapshot(snapshot)
        replace_atomically(self.disk, self._paths.snapshot(snapshot.snapshot_id), data)
        with self._mutex:
            self._news_in_snapshot = max(self._news_in_snapshot, news_count)
            self._sealed_in_snapshot = max(self._sealed_in_snapshot, sealed_count)
        position = snapshot.position
        marker = SnapshotMarker(position.chunk_index, position.offset, snapshot.snapshot_id)
        self.append(marker, segment_id=MANIFEST_ITSELF, logical_offset=0)
        self._metrics.snapshots.add()
        self._metrics.snapshot_taken()
        event(
            _log,
            "manifest_snapshot",
            folder=self._paths.folder,
            snapshot_id=snapshot.snapshot_id,
            chunk_index=position.chunk_index,
            chunk_offset=position.offset,
            size=len(data),
        )
        self._prune_snapshots()
        return snapshot.snapshot_id

    @property
    def end(self) -> Position:
        """The position after the last record."""
        return self._end

    @property
    def snapshot_id(self) -> int:
        """The id of the last snapshot that was taken or is being taken; 0 if there was none."""
        return self._snapshot_id

    @property
    def lag_bytes(self) -> int:
        """The number of bytes of records that are not durable yet."""
        return self._lag_bytes

    @property
    def has_failed(self) -> bool:
        """Whether commits currently fail and are retried, for example because the disk is full."""
        return self._error is not None

    def state(self, segment_id: int) -> SegmentState | None:
        """Returns the current state of a segment, or None if it has no entry."""
        with self._mutex:
            return self._index.get(segment_id)

    def reader(self) -> ManifestReader:
        """Returns a reader of the files on disk."""
        return ManifestReader(self.disk, self._paths)

    def index(self) -> ManifestIndex:
        """Returns a copy of the current index."""
        with self._mutex:
            return self._index.copy()

    def close(self) -> None:
        """Takes a snapshot if segments changed since the last one, commits, and closes the files.

        The last chunk is not sealed: the next journal continues in it. Idempotent. Raises an error
        if the snapshot could not be taken, or if records could not be made durable.
        """
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            if self._news_count > self._news_in_snapshot:
                self.take_snapshot()
            self.commit()
        finally:
            self._barrier.close()
            self._sink.close()

    # Adding records. The caller of these methods must hold the mutex.

    def _check_plausible(self, payload: Payload, segment_id: int, logical_offset: int) -> None:
        """Raises `InputError` for a record that `replay.Plausibility` would not trust."""
        if isinstance(payload, Unknown):
            raise InputError(
                f"a manifest record of unknown type {payload.record_type} cannot be written"
            )
        if isinstance(payload, SegmentOpened):
            if logical_offset != payload.base_offset or segment_id > SEGMENT_ID_MAX:
                raise InputError(
                    f"segment {segment_id} cannot be recorded as opened at offset "
                    f"{logical_offset}: the id must be at most {SEGMENT_ID_MAX}, and the offset "
                    f"must be the segment's base offset, {payload.base_offset}"
                )
        elif segment_id > self._segment_id_max and segment_id != MANIFEST_ITSELF:
            raise InputError(
                f"a change of segment {segment_id} cannot be recorded, because the manifest log "
                "has no record that the segment was opened"
            )

    def _fits(self, size: int) -> bool:
        """Returns whether records of that size can be added to the open chunk.

        An empty chunk takes records of any size, because it can grow.
        """
        return (
            self._end.offset + size <= self._config.chunk_bytes or self._end.offset == RECORDS_START
        )

    def _rotate(self) -> None:
        self._submit(Seal(self._end.chunk_index), size=0)
        self._end = Position(self._end.chunk_index + 1, RECORDS_START)
        self._sealed_count += 1
        self._news_at_ns = None
        self._metrics.rotations.add()
        if self._is_snapshot_due():
            self._wake()

    def _is_snapshot_due(self) -> bool:
        sealed_count = self._sealed_count - self._sealed_in_snapshot
        return sealed_count >= self._config.snapshot_chunks

    def _rotate_if_old(self) -> int | None:
        """Seals the open chunk if its first record about a segment is old enough.

        If that record is not old enough, returns the nanoseconds until it is. Returns None if the
        chunk was sealed or has no such record.
        """
        with self._mutex:
            if self._news_at_ns is None or self._is_closed:
                return None
            age_ns = self._clock.monotonic_ns() - self._news_at_ns
            left_ns = self._config.rotation_ms * NS_PER_MS - age_ns
            if left_ns > 0:
                return left_ns
            self._rotate()
            return None

    def _submit(self, item: Item, *, size: int) -> None:
        self._ticket = self._barrier.submit(item, size=size, timeout=0)

    # The committing thread calls these methods after a commit.

    def _on_committed(self, size: int) -> None:
        self._metrics.commits.add()
        with self._mutex:
            self._lag_bytes -= size
            self._error = None
            self._backoff.reset()
            self._commit_failed.reset()

    def _on_sink_failure(self, error: LakebedError) -> None:
        self._commit_failed.note(folder=self._paths.folder, error=error)
        if isinstance(error, RetryError):
            with self._mutex:
                self._error = error
                self._retry_at_ns = self._clock.monotonic_ns() + self._backoff.next_ns()
        elif isinstance(error, DiskError):
            with self._mutex:
                self._error = None  # the commit is not retried
            self._on_failure(error)

    def _log_failure(self, name: str, error: LakebedError) -> None:
        event(_log, name, level=logging.ERROR, folder=self._paths.folder, error=error)

    def _prune_snapshots(self) -> None:
        """Removes all but the newest `snapshots_kept` snapshots.

        Errors are ignored; the next call tries again.
        """
        with contextlib.suppress(LakebedError):
            for snapshot_id in self._paths.snapshot_ids(self.disk)[: -self._config.snapshots_kept]:
                with contextlib.suppress(NotFound):
                    self.disk.unlink(self._paths.snapshot(snapshot_id))
