"""One log: appending, flushing, rolling over and sealing, and what its readers see.

Appending encodes records, gives them their ids and queues them; it never waits and touches no
disk. The barrier writes and syncs them, led by whoever waits for a flush, or by the manager's
flush step. Readers see what is durable.

Invariants:
- ids are handed out in order and never twice; what is durable is a prefix of what was appended;
- at most two segments are not finalised: the one that is written and the one before it;
- after a failed sync the log takes no more appends until it is opened again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from random import Random

from lakebed.aof.batch import Record, RecordBatch
from lakebed.aof.chain import SegmentChain
from lakebed.aof.config import AofConfig
from lakebed.aof.cursors import Cursor
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.flushing import Flushing
from lakebed.aof.follower import Follower
from lakebed.aof.holds import Holds
from lakebed.aof.metrics import LogMetrics
from lakebed.aof.notifier import Notifier
from lakebed.aof.paths import LogPaths
from lakebed.aof.reader import LogReader
from lakebed.aof.record_id import RecordId
from lakebed.aof.recovery import Recovered
from lakebed.aof.retiring import Retiring
from lakebed.aof.sealing import seal
from lakebed.aof.segment import (
    FirstRecord,
    Numbers,
    RecordIds,
    Segment,
    fits_empty_segment,
    largest,
    payload_bytes_max,
)
from lakebed.aof.spares import Spares
from lakebed.aof.sparse_index import write_index
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_S
from lakebed.base.counters import Counters
from lakebed.base.errors import (
    Busy,
    Closed,
    DiskError,
    LakebedError,
    NoSpace,
    NotFound,
    Poisoned,
    TooLarge,
)
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.layout import Buffer
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.base.runner import Event, Runner
from lakebed.kernels import AofBatch

_log = logging.getLogger(__name__)


class Aof:
    """A log that is open for writing. Its methods may be called from any thread."""

    def __init__(
        self,
        disk: Disk,
        paths: LogPaths,
        recovered: Recovered,
        *,
        config: AofConfig,
        runner: Runner,
        wake_flush: Callable[[], None],
        wake_maintenance: Callable[[], None],
        counters: Counters,
        random: Random,
        is_pinned: Callable[[int], bool],
    ) -> None:
        self.disk = disk
        self.runner = runner
        self.name = paths.name
        self.counters = counters
        self.recovered = recovered
        self._paths = paths
        self._config = config
        self._clock = runner.clock
        self._wake_maintenance = wake_maintenance
        self._is_pinned = is_pinned
        self._metrics = LogMetrics(counters)
        self._notifier = Notifier(runner)
        self._holds = Holds(runner.mutex())
        self._retiring = Retiring(disk, paths, config.retention, counters=counters)
        self._backoff = Backoff(RetryPolicy(), random)
        self._spares = Spares(
            disk,
            paths,
            segment_bytes=config.segment_bytes,
            mutex=runner.mutex(),
            filling_mutex=runner.mutex(),
        )
        # The mutex guards everything below, and what the chain and the flushing hold.
        self._mutex = runner.mutex()
        self._chain = SegmentChain(
            recovered, paths=paths, segment_bytes=config.segment_bytes, clock=runner.clock
        )
        self._flushing = Flushing(
            disk,
            paths,
            self._chain,
            self._spares,
            mutex=self._mutex,
            config=config.flush,
            runner=runner,
            metrics=self._metrics,
            counters=counters,
            random=random,
            writer_epoch=recovered.writer_epoch,
            coordinator_watermark=recovered.coordinator_watermark,
            wake=wake_flush,
            on_change=self._on_flush,
        )
        self._cursor = Cursor(disk, paths, runner.clock)
        self._spare_asked_by: Segment | None = None  # the barrier's leader's own
        self._last_timestamp = recovered.last_timestamp
        self._is_tail_full = False  # an append found no room and could not roll over
        self._is_closed = False
        self._reader = LogReader(self)

    def start(self) -> None:
        """Publish the durable end; called once, before anything else."""
        self._spares.remove_leftovers()
        self._flushing.start()

    # Appending.

    def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Append one record; it has its id at once and is durable after a flush.

        Never waits: `WouldBlock` says what it would have waited for.
        """
        return self.append_records([payload], ext_ids=ext_id, timestamps=timestamp)[0]

    def append_records(
        self,
        payloads: Sequence[Buffer],
        *,
        ext_ids: Numbers = 0,
        timestamps: Numbers | None = None,
    ) -> Sequence[RecordId]:
        """Append many at once. `WouldBlock.record_ids` has those that were appended before it."""
        if not payloads:
            return ()
        started_ns = self._clock.monotonic_ns()
        parts: list[RecordIds] = []
        done = 0
        with self._mutex:
            stamps = self._stamp() if timestamps is None else timestamps
            try:
                while done < len(payloads):
                    parts.append(
                        self._append_some(
                            payloads[done:] if done else payloads,
                            timestamps=_rest(stamps, done),
                            ext_ids=_rest(ext_ids, done),
                        )
                    )
                    done += len(parts[-1])
            except WouldBlock as error:
                self._metrics.would_block[error.kind].add()
                error.record_ids = _joined(parts)
                raise
        self._metrics.append_latency_ns.observe(self._clock.monotonic_ns() - started_ns)
        return _joined(parts)

    def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """As `append_record`, waiting up to `timeout` seconds for what it would wait for."""
        started_ns = self._clock.monotonic_ns()
        deadline_ns = started_ns + round(timeout * NS_PER_S)
        while True:
            seen = self._notifier.next_change()
            try:
                record_id = self.append_record(payload, ext_id=ext_id, timestamp=timestamp)
            except WouldBlock as error:
                if not self._wait_for_change(error.kind, seen, deadline_ns):
                    raise
            else:
                now_ns = self._clock.monotonic_ns()
                self._metrics.admission_latency_ns.observe(now_ns - started_ns)
                return record_id

    async def append_record_async(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """As `append_record`, awaiting what it would wait for. See `lakebed.aof.aio`."""
        from lakebed.aof.aio import append_record_async

        return await append_record_async(self, payload, ext_id=ext_id, timestamp=timestamp)

    def wait_for_writable_segment(self, timeout: float | None = None) -> None:
        """Until an append would find a segment; `WouldBlock` of kind admission if none came."""
        deadline_ns = None if timeout is None else self._deadline(timeout)
        while True:
            seen = self._notifier.next_change()
            with self._mutex:
                self._check_writable()
                if self._flushing.error is None and (
                    not self._is_tail_full or self._chain.may_roll
                ):
                    return
                kind = BackpressureKind.ROLLOVER
            if not self._wait_for_change(kind, seen, deadline_ns):
                raise WouldBlock(BackpressureKind.ADMISSION, f"{self.name}: no writable segment")

    def _append_some(
        self, payloads: Sequence[Buffer], *, timestamps: Numbers, ext_ids: Numbers
    ) -> RecordIds:
        """As many as fit the segment that is written; the next one if none do. With the mutex."""
        self._check_writable()
        if self._flushing.error is not None:
            raise WouldBlock(
                BackpressureKind.FLUSH, f"{self.name}: flushing fails: {self._flushing.error}"
            )
        batch = self._encode(payloads, timestamps, ext_ids)
        if not len(batch.offsets):
            self._check_fits(payloads[0])
            self._roll()
            batch = self._encode(payloads, timestamps, ext_ids)
        segment = self._chain.active
        # Everything that the caller's values could fail is done before the chunk is queued.
        first = FirstRecord(timestamp=_at(timestamps, 0), ext_id=_at(ext_ids, 0))
        max_timestamp = largest(timestamps, len(batch.offsets))
        chunk = segment.chunk(batch, first)
        try:
            self._flushing.submit(chunk)
            ids = segment.accept(batch, first, max_timestamp=max_timestamp)
        except Busy:
            raise WouldBlock(
                BackpressureKind.FLUSH, f"{self.name}: too much is not durable yet"
            ) from None
        except BaseException as error:
            # Interrupted in between: queued, but not counted. The next would get the same place.
            if not isinstance(error, LakebedError):
                self._flushing.failure = Poisoned("append", self._paths.folder, why=repr(error))
            raise
        self._last_timestamp = max(self._last_timestamp, segment.max_timestamp)
        self._metrics.appended_records.add(len(ids))
        self._metrics.appended_bytes.add(batch.size)
        return ids

    def _encode(
        self, payloads: Sequence[Buffer], timestamps: Numbers, ext_ids: Numbers
    ) -> AofBatch:
        """No more at once than a flush takes, so that no batch is too large for the queue."""
        segment, limit = self._chain.active, self._config.flush.flush_bytes
        batch = segment.encode(payloads, timestamps=timestamps, ext_ids=ext_ids, limit=limit)
        if len(batch.offsets) or segment.room <= limit:
            return batch
        first = payloads[:1]
        return segment.encode(first, timestamps=_at(timestamps, 0), ext_ids=_at(ext_ids, 0))

    def _stamp(self) -> int:
        """Now, but never before a record that is there."""
        self._last_timestamp = max(self._last_timestamp, self._clock.wall_ns())
        return self._last_timestamp

    def _check_fits(self, payload: Buffer) -> None:
        size = memoryview(payload).nbytes
        if not fits_empty_segment(size, self._config.segment_bytes):
            limit = payload_bytes_max(self._config.segment_bytes)
            raise TooLarge(f"{self.name}: the payload", size=size, limit=limit)

    def _check_writable(self) -> None:
        if self._is_closed:
            raise Closed(f"{self.name}: the log is closed")
        failure = self._flushing.failure
        if failure is not None:
            raise Poisoned("append", self._paths.folder, why=f"failed earlier: {failure}")

    # Flushing.

    def flush(self, record_id: RecordId | None = None, *, timeout: float | None = None) -> None:
        """Until that record, or everything appended so far, is durable.

        If a flush fails, so does this; after `NoSpace` it may be called again.
        """
        with self._mutex:
            end = self._chain.active.position(self._chain.active.end)
            if record_id is not None and record_id >= end:
                raise NotFound(f"{self.name}: no record {record_id} was appended yet")
            if self._flushing.is_durable(record_id):
                return
            if self._flushing.failure is not None:
                self._check_writable()
        self._flushing.flush(timeout)

    def flush_step(self) -> int | None:
        """The manager's flush task."""
        return self._flushing.step()

    def _on_flush(self) -> None:
        """Something became durable, or failed to."""
        self._notifier.tell()
        active = self._chain.active
        is_spare_due = active is not self._spare_asked_by and active.end >= _spare_due_at(active)
        if is_spare_due:
            self._spare_asked_by = active
        if is_spare_due or self._chain.to_seal or self._cursor.is_fresh:
            self._wake_maintenance()

    # Rolling over and sealing.

    def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seal the segment that is written, and return when that is durable.

        None if it has no record: there is nothing to seal.
        """
        deadline_ns = None if timeout is None else self._deadline(timeout)
        while True:
            seen = self._notifier.next_change()
            with self._mutex:
                self._check_writable()
                if not self._chain.active.record_count:
                    return None
                segment_id = self._chain.active.name.segment_id
                if self._chain.may_roll:
                    self._roll()
                    break
            if not self._wait_for_change(BackpressureKind.ROLLOVER, seen, deadline_ns):
                raise WouldBlock(BackpressureKind.ROLLOVER, f"{self.name}: not sealed in time")
        while True:
            seen = self._notifier.next_change()
            with self._mutex:
                for info in reversed(self._chain.sealed):
                    if info.segment_id == segment_id:
                        return info
                self._check_writable()
            if not self._wait_for_change(BackpressureKind.ROLLOVER, seen, deadline_ns):
                raise WouldBlock(BackpressureKind.ROLLOVER, f"{self.name}: not sealed in time")

    def maintenance_step(self) -> int | None:
        """The manager's: seal, retire, prepare spares. ns to the next time, or None."""
        try:
            while self._seal_next():
                pass
            delays = [
                self._retire(),
                self._cursor.step(requested=self._appended_end(), durable=self._flushing.durable),
            ]
            if self._prepare_spare():
                return 0
            return min((delay for delay in delays if delay is not None), default=None)
        except NoSpace:
            self._metrics.metadata_retry_attempts.add()
            return self._backoff.next_ns()

    def _roll(self) -> None:
        """Hand the segment over and go on in the next one. With the mutex."""
        if not self._chain.may_roll:
            self._is_tail_full = True
            raise WouldBlock(
                BackpressureKind.ROLLOVER, f"{self.name}: the segment before is not sealed yet"
            )
        self._chain.roll()
        self._is_tail_full = False
        self._metrics.segment_rollovers.add()
        self._wake_maintenance()

    def _seal_next(self) -> bool:
        """Seal the oldest segment that waits for it; whether there may be another."""
        with self._mutex:
            if not self._chain.to_seal or self._flushing.failure is not None:
                return False
            segment = self._chain.to_seal[0]
            is_durable = segment.durable >= segment.end
            watermark = self._flushing.coordinator_watermark
        if not is_durable:
            with contextlib.suppress(LakebedError):
                self._flushing.flush(None)
            return segment.durable >= segment.end
        try:
            seal(
                self.disk,
                self._paths,
                segment,
                sealed_at=self._clock.wall_ns(),
                coordinator_watermark=watermark,
            )
        except NoSpace:
            raise
        except DiskError as error:
            self._metrics.metadata_retry_failures.add()
            event(_log, "seal_failed", level=logging.ERROR, log=self.name, error=error)
            with self._mutex:
                self._flushing.failure = error
            self._notifier.tell()
            return False
        with self._mutex:
            info = self._chain.finish(segment)
        if self._config.enable_sparse_index:
            write_index(self.disk, info.path, segment_id=info.segment_id, end=segment.end)
        self._metrics.segments_sealed.add()
        self._metrics.segment_bytes.observe(segment.end)
        event(
            _log,
            "segment_sealed",
            log=self.name,
            segment_id=info.segment_id,
            durable_bytes=segment.end,
            record_count=segment.record_count,
        )
        self._notifier.tell()
        self._cursor.write(requested=self._appended_end(), durable=self._flushing.durable)
        return True

    def _prepare_spare(self) -> bool:
        """A spare once the segment is a quarter full; zero-filled where that pays.

        It pays for many small flushes, whose syncs it shortens. Large ones gain little from it,
        and lose more to everything being written twice.
        """
        with self._mutex:
            active = self._chain.active
            is_due = active.end >= _spare_due_at(active) and not self._is_closed
            age_ns = max(1, self._clock.wall_ns() - active.name.created_at)
            is_busy = active.end * NS_PER_S // age_ns >= BUSY_BYTES_PER_S
        flushes = max(1, self._metrics.flush_operations.value)
        is_small = self._metrics.durable_bytes.value // flushes <= SMALL_FLUSH_BYTES
        zero_fill = self._config.zero_fill_spares and is_busy and is_small
        if not is_due or not self._config.preallocate_segments:
            return False
        try:
            return self._spares.prepare(
                wanted=self._config.preallocate_segments, zero_fill=zero_fill
            )
        except DiskError as error:
            # A spare is a convenience: without one the next segment is made when it is needed.
            event(_log, "spare_failed", level=logging.WARNING, log=self.name, error=error)
            self._spares.abandon()
            return False

    def _retire(self) -> int | None:
        """Remove what retention no longer wants; ns until age wants more gone."""
        with self._mutex:
            sealed = list(self._chain.sealed)
        lowest = self._holds.lowest_segment()
        gone, delay_ns = self._retiring.plan(
            sealed,
            now_ns=self._clock.wall_ns(),
            is_needed=lambda number: (
                self._is_pinned(number) or (lowest is not None and lowest <= number)
            ),
        )
        if gone:
            with self._mutex:
                self._chain.retire(gone)
            self._notifier.tell()
            try:
                self._retiring.remove(gone)
            except DiskError as error:
                # They are out of the log; files that stayed are found by the next opening.
                event(_log, "retire_failed", level=logging.ERROR, log=self.name, error=error)
        return delay_ns

    # Reading: see `LogReader`.

    def get(self, record_id: RecordId) -> Record:
        """The record with that id."""
        return self._reader.get(record_id)

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """The durable records of `[start, end)`, oldest first."""
        return self._reader.read(start, end)

    def read_batches(
        self, start: RecordId | None = None, end: RecordId | None = None
    ) -> Iterator[RecordBatch]:
        """The same as columns, many at a time: much faster."""
        return self._reader.read_batches(start, end)

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """The durable records before `start`, newest first."""
        return self._reader.read_backward(start)

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Where the first record is that is not older."""
        return self._reader.seek_timestamp(timestamp_ns)

    def follow(self, start: RecordId | None = None) -> Follower:
        """Records from `start` (or the oldest) on, waiting for new ones; retention spares them."""
        follower = Follower(self, start)
        self._holds.add(follower)
        return follower

    # What readers see: see `lakebed.aof.view.LogView`.

    def refresh(self) -> None:
        """Nothing: this is the writer."""

    def segments(self) -> Sequence[SegmentInfo]:
        with self._mutex:
            return self._chain.readable()

    def durable_end(self) -> RecordId:
        return self._flushing.durable

    def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        deadline_ns = None if timeout is None else self._deadline(timeout)
        while True:
            seen = self._notifier.next_change()
            if self._flushing.durable > position:
                return True
            if self._is_closed:
                raise Closed(f"{self.name}: the log is closed")
            if not self._wait_for_change(BackpressureKind.TAIL, seen, deadline_ns):
                return False

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call at each change, from whatever thread; the function returned ends it."""
        return self._notifier.listen(callback)

    @property
    def coordinator_watermark(self) -> int:
        return self._flushing.coordinator_watermark

    def set_coordinator_watermark(self, watermark: int) -> None:
        """Kept with the next seal and given back after recovery; it never goes back."""
        with self._mutex:
            highest = max(self._flushing.coordinator_watermark, watermark)
            self._flushing.coordinator_watermark = highest

    def close(self) -> None:
        """Flush everything, hand back every waiter, and let go of the files. Idempotent.

        If something that was appended could not be made durable, that error is raised at the end.
        """
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
        self._notifier.tell()
        self._flushing.close()
        self._cursor.write(requested=self._appended_end(), durable=self._flushing.durable)
        self._reader.close()
        self._spares.close()
        self._notifier.tell()
        with self._mutex:
            if not self._flushing.is_durable(None):
                error = self._flushing.failure or self._flushing.error
                raise error or DiskError("close", self._paths.folder, why="not all is durable")

    def _appended_end(self) -> RecordId:
        with self._mutex:
            return self._chain.active.position(self._chain.active.end)

    # Waiting.

    def _wait_for_change(
        self, kind: BackpressureKind, seen: Event, deadline_ns: int | None
    ) -> bool:
        """False if the deadline came first. Who waits for a flush flushes."""
        seconds = None
        if deadline_ns is not None:
            seconds = (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S
            if seconds <= 0:
                return False
        if kind is BackpressureKind.FLUSH and self._flushing.error is None:
            with contextlib.suppress(Busy):
                self.flush(timeout=seconds)
            return True
        return seen.wait(seconds)

    def _deadline(self, timeout: float) -> int:
        return self._clock.monotonic_ns() + round(timeout * NS_PER_S)


BUSY_BYTES_PER_S = 1 << 20
SMALL_FLUSH_BYTES = 64 << 10


def _spare_due_at(segment: Segment) -> int:
    return segment.size // 4


def _rest(numbers: Numbers, start: int) -> Numbers:
    return numbers if isinstance(numbers, int) or not start else numbers[start:]


def _at(numbers: Numbers, index: int) -> int:
    return numbers if isinstance(numbers, int) else numbers[index]


def _joined(parts: Sequence[RecordIds]) -> Sequence[RecordId]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
