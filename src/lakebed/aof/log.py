"""One log, open for writing: the API for appending, flushing, sealing and reading.

Appending encodes records, assigns their ids and queues them; without a timeout it never waits and
does no I/O. The queued records are written and synced together (group commit), by a thread that
waits for a flush or by the manager's flush task. Readers see only durable records.

Invariants:

- ids are assigned in order and never twice; records become durable in the order of their ids;
- normally at most two segments are not sealed: the active one and the one before it;
- after a disk error, such as a failed sync, the log accepts no appends until it is opened again.

The modules that do the work share a `LogState` and its mutex: `appender`, `flusher`, `sealer`,
`retention_worker`, `spare_preparer`, `manifest_recorder` (the manifest log), and `transitions`,
which starts, seals and retires segments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from lakebed.aof.appender import Appender
from lakebed.aof.archiver import Archiver
from lakebed.aof.change_waiter import ChangeWaiter
from lakebed.aof.config import AofConfig
from lakebed.aof.context import log_context
from lakebed.aof.durability_cursor import DurabilityCursor
from lakebed.aof.errors import BackpressureKind
from lakebed.aof.flusher import Flusher
from lakebed.aof.follower import Follower
from lakebed.aof.holds import Holds, PositionedReader
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.paths import LogPaths
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.recovery import Recovered
from lakebed.aof.retention_worker import RetentionWorker
from lakebed.aof.sealer import Sealer
from lakebed.aof.segment import Numbers
from lakebed.aof.spare_preparer import SparePreparer
from lakebed.aof.spares import Spares
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.coordinator import Coordinator
from lakebed.aof.tiers.log_tiers import LogTiers
from lakebed.aof.tiers.metrics import TieredObservabilitySnapshot, TierMetrics, observe
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.tiers.tier_scheduler import TierScheduler
from lakebed.aof.tiers.upkeep import LogUpkeep
from lakebed.aof.transitions import Transitions
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.base.counters import Counters
from lakebed.base.errors import BadConfig, Closed, DiskError, InputError, LakebedError
from lakebed.base.files import Disk, remove_temporaries
from lakebed.base.layout import Buffer
from lakebed.base.runner import Mutex, Runner
from lakebed.base.runner.failure_backoff import FailureBackoff
from lakebed.base.zero_fill import SpareBudget


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
        wake_flush: Callable[[Aof], None],
        wake_maintenance: Callable[[Aof], None],
        end_steps: Callable[[Aof], None],
        on_closed: Callable[[Aof], None],
        counters: Counters,
        random: Random,
        is_pinned: Callable[[int], bool],
        pin_mutex: Mutex,
        spare_budget: SpareBudget,
        services: TierServices,
        coordinator: Coordinator,
        on_lost: Callable[[Sequence[str]], None],
    ) -> None:
        """`wake_flush` and `wake_maintenance` make the manager call `flush_step` and
        `maintenance_step` soon. `end_steps` waits until no background step of this log is running.
        `on_closed` is called when the log will write nothing more. `on_lost` is called with
        descriptions of the losses, such as missing segments, that are found when the manifest log
        is opened."""
        context = log_context(
            disk, paths, recovered, config=config, runner=runner, counters=counters
        )
        self._context = context
        self._random = random
        self.disk = disk
        self.runner = runner
        self.name = paths.name
        self.counters = counters
        self.recovered = recovered
        self._paths = paths
        self._config = config
        self._state = context.state
        self._metrics = context.metrics
        self._notifier = context.notifier
        self._wake_maintenance = partial(wake_maintenance, self)
        self._end_steps = end_steps
        self._on_closed = on_closed
        self._closed = runner.event()
        self._is_pinned = is_pinned
        self._pin_mutex = pin_mutex  # also taken to add a reader to `_holds`; taken before others
        self._holds = Holds(runner.mutex())
        self._upkeep = FailureBackoff(task="aof maintenance", of=paths.name)
        self._cursor = DurabilityCursor(disk, paths, runner.clock)
        self._spares = Spares(
            disk,
            paths,
            segment_bytes=config.segment_bytes,
            budget=spare_budget,
            metrics=context.metrics,
            mutex=runner.mutex(),
            filling_mutex=runner.mutex(),
        )
        self._spare_preparer = SparePreparer(context, self._spares, spare_budget)
        self._flusher = flusher = Flusher(
            context,
            self._spares,
            random=random,
            writer_epoch=recovered.writer_epoch,
            wake=partial(wake_flush, self),
            on_change=self._on_flush,
        )
        self._services = services
        self._coordinator = coordinator
        self._tier_metrics = TierMetrics(counters)
        self._tiers: LogTiers | None = None
        self._tiering: TierScheduler | None = None
        self._recorder = ManifestRecorder(
            context,
            services,
            epoch=recovered.writer_epoch,
            random=random,
            wake=self._wake_maintenance,
            on_lost=on_lost,
        )
        self._transitions = transitions = Transitions(
            context, self._recorder, wake_maintenance=self._wake_maintenance
        )
        self._waiter = waiter = ChangeWaiter(context, flusher)
        self._appender = Appender(context, transitions, flusher, waiter)
        self._sealer = Sealer(context, transitions, flusher, waiter, on_sealed=self._on_sealed)
        self._tier_upkeep: LogUpkeep | None = None
        self._retention_worker = RetentionWorker(
            context,
            transitions,
            self._recorder,
            pin_mutex=pin_mutex,
            on_owed=self._start_tier_upkeep,
        )
        self._reader = LogReader(self)

    def start(self) -> None:
        """Publishes the durable end, opens the manifest log and starts work on the tiers.

        Must be called once, before any other method.
        """
        self._spares.remove_leftovers()
        remove_temporaries(self.disk, self._paths.archive)
        if self.disk.is_folder(self._paths.cursors):
            remove_temporaries(self.disk, self._paths.cursors)
        self._recorder.start(enabled=self._config.manifest.manifest_log_enabled)
        self._flusher.start()
        self._tiers = self._make_tiers()
        self._tier_upkeep = self._make_tier_upkeep(self._tiers)
        self._start_tier_upkeep()
        if self._config.tiers.tiering_enabled:
            self._tiering = self._transitions.tiering = self._make_tiering(self._tiers)
            self._coordinator.start()

    # Appending.

    def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record and returns its id. The record is durable after a flush.

        Never waits: if the append would have to wait, raises `WouldBlock`, which names the reason.
        """
        return self._appender.append([payload], ext_ids=ext_id, timestamps=timestamp)[0]

    def append_records(
        self,
        payloads: Sequence[Buffer],
        *,
        ext_ids: Numbers = 0,
        timestamps: Numbers | None = None,
    ) -> Sequence[RecordId]:
        """Appends many records without waiting, and returns their ids.

        If the append would have to wait, raises `WouldBlock`; its `record_ids` are the ids of the
        first records, which were appended, and empty if none were.
        """
        return self._appender.append(payloads, ext_ids=ext_ids, timestamps=timestamps)

    def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record and returns its id, waiting up to `timeout` seconds if necessary.

        Raises `WouldBlock` if the append would have to wait longer. If it waits for a flush that
        fails, raises the error of the flush. The record is not appended in either case.
        """
        return self._appender.append_with_timeout(
            payload, timeout, ext_id=ext_id, timestamp=timestamp
        )

    def wait_for_writable_segment(self, timeout: float | None = None) -> None:
        """Waits while the active segment is full and the next one cannot be started or requested.

        Also waits while flushes are failing, because appends are refused then. After `timeout`
        seconds, by default never, raises `WouldBlock`: of kind flush if flushes are still failing,
        and otherwise of kind admission.
        """
        self._appender.wait_for_segment(timeout)

    # Flushing and sealing.

    def flush(self, record_id: RecordId | None = None, *, timeout: float | None = None) -> None:
        """Waits until the record is durable; without an id, until all appended records are durable.

        Raises the error if the flush fails, and `NotFound` if the id is at or after the end of the
        appended records. After a `RetryError` (for example, the disk is full) or an
        `OutcomeUnknown` (the timeout passed) the records are still queued and become durable when
        possible: call this again, and do not append them again.
        """
        self._flusher.flush(record_id, timeout)

    def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seals the active segment and returns it once its footer is durable.

        Returns None if the active segment has no records, so that there is nothing to seal. Raises
        `WouldBlock` of kind rollover if the footer is not durable after `timeout` seconds.
        """
        return self._sealer.seal_current(timeout)

    @property
    def coordinator_watermark(self) -> int:
        return self._state.coordinator_watermark

    def set_coordinator_watermark(self, watermark: int) -> None:
        """Sets the log's watermark, a number that the caller defines and that only rises.

        A value below the current watermark is ignored; a value that is not from 0 to 2**64 - 1
        raises `InputError`. The watermark becomes durable when a segment is sealed or the log is
        closed, and is restored when the log is opened.
        """
        if not 0 <= watermark < 1 << 64:
            raise InputError(f"the watermark is {watermark}; it must be from 0 to 2**64 - 1")
        with self._state.mutex:
            highest = max(self._state.coordinator_watermark, watermark)
            self._state.coordinator_watermark = highest

    # The manifest log.

    @property
    def stream_id(self) -> int:
        """The random id that identifies the log permanently."""
        assert self._recorder.identity is not None, "the log is not started"
        return self._recorder.identity.stream_id

    @property
    def manifest(self) -> Journal | None:
        """The journal of the manifest log; None while that is off or after the log was closed."""
        return self._recorder.journal

    @property
    def tiering(self) -> TierScheduler | None:
        """The scheduler that moves segments between tiers, or None if tiering is off."""
        return self._tiering

    @property
    def tiers(self) -> LogTiers:
        """The API that shows in which tiers the log's segments are, and that moves them."""
        assert self._tiers is not None, "the log is not started"
        return self._tiers

    @property
    def tier_upkeep(self) -> LogUpkeep:
        """The background work for retention: deletes objects, and prepares segments to archive."""
        assert self._tier_upkeep is not None, "the log is not started"
        return self._tier_upkeep

    def observe_tiers(self) -> TieredObservabilitySnapshot:
        """Returns the state of the log's tiers and their counters, at approximately one moment."""
        self._tier_metrics.measured(self.tiers.states(), queue_depth=self._queue_depth())
        return observe(self.counters, self._services.counters)

    def set_manifest_log_enabled(self, enabled: bool) -> None:
        """Switches the manifest log of this log on or off until the log is closed.

        Switching it on first adds the records that are missing in it and writes a snapshot.
        Switching it off raises `BadConfig` if some segments are only in colder tiers, because only
        the manifest log records those, or if the manifest log is damaged; it then stays on.
        """
        if not enabled:
            self._recorder.stop()  # first, so that nothing is evicted during the check
        try:
            self._recorder.start(enabled=enabled)
        except BadConfig:
            self._recorder.start(enabled=True)
            raise

    # Reading: see `LogReader`.

    def get(self, record_id: RecordId) -> Record:
        """Returns the record with that id.

        Raises `NotFound` if there is no such durable record, and `Corrupt` if it is damaged.
        """
        return self._reader.get(record_id)

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """Yields the durable records of `[start, end)`, oldest first.

        By default, yields all records from the oldest to the current durable end.
        """
        return self._reader.read(start, end)

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> Iterator[RecordBatch]:
        """Yields the durable records of `[start, end)` in columnar batches, oldest first.

        This is much faster than `read`, which yields the same records one by one.
        """
        return self._reader.read_batches(start, end, batch_bytes_max=batch_bytes_max)

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """Yields the durable records before `start`, or all of them by default, newest first."""
        return self._reader.read_backward(start)

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Returns the position of the first record with that timestamp or a later one.

        Returns the durable end if there is no such record.
        """
        return self._reader.seek_timestamp(timestamp_ns)

    def follow(self, start: RecordId | None = None) -> Follower:
        """Returns an iterator over the records from `start`, or from the oldest.

        The iterator waits for new records, until it is closed.
        """
        follower = Follower(self, start)
        if self._tiering is not None and start is not None:
            self._tiering.on_followed(start.segment_index)
        return follower

    # The interface for readers: see `lakebed.aof.view.LogView`.

    def refresh(self) -> None:
        """Does nothing: the writer's view is always current."""

    @property
    def cold(self) -> ColdSegments | None:
        return self._recorder.cold

    def on_used(self, info: SegmentInfo) -> None:
        if self._tiering is not None:
            self._tiering.on_used(info)

    @property
    def failure(self) -> LakebedError | None:
        """The error after which the log accepts no writes until it is opened again, or None."""
        return self._flusher.failure

    @property
    def upkeep_failure(self) -> Exception | None:
        """The error that the last run of sealing, retention or other maintenance raised, or None.

        The failed work is retried.
        """
        return self._upkeep.error

    def hold(self, reader: PositionedReader) -> None:
        with self._pin_mutex:
            self._holds.add(reader)

    def describe(self) -> LogDescription:
        return LogDescription(
            name=self.name,
            stream_id=self.stream_id,
            durable_end=int(self.durable_end()),
            coordinator_watermark=self.coordinator_watermark,
            segments=len(self.segments()),
        )

    def segments(self) -> Sequence[SegmentInfo]:
        with self._state.mutex:
            return self._state.chain.readable()

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns the segments, oldest first, and the durable end.

        The segments contain every record before the durable end, which may itself be in the next
        segment.
        """
        durable_end = (
            self.durable_end()
        )  # read first, so that the segments listed afterwards include it
        return self.segments(), durable_end

    def durable_end(self) -> RecordId:
        return self._state.durable

    def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        deadline_ns = self._waiter.deadline_ns(timeout)
        while True:
            next_change = self._waiter.next_change()
            if self._state.durable > position:
                return True
            if self._state.is_closed:
                raise Closed(f"{self.name}: the log is closed")
            if not self._waiter.wait(BackpressureKind.TAIL, next_change, deadline_ns):
                return False

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers `callback` to be called after each change of the log.

        A change is, for example, that records become durable or that a flush fails. The call may
        come from any thread. The returned function unregisters the callback.
        """
        return self._notifier.listen(callback)

    # The manager's two tasks.

    def flush_step(self) -> int | None:
        """Flushes the queued records that are due.

        Returns the nanoseconds until this must be called again, or None if it need not be called.
        """
        return None if self._state.is_closed else self._flusher.step()

    def maintenance_step(self) -> int | None:
        """Runs the log's maintenance.

        This is: rollovers, sealing, retention, the durability cursor, spare segment files and the
        manifest log. Returns the nanoseconds until this must be called again, or None if it need
        not be called. If one kind of work fails, the others still run; `upkeep_failure` reports the
        failure, and the work is retried.
        """
        if self._state.is_closed:
            return None
        jobs = (
            self._acknowledge,
            self._seal,
            self._retire,
            self._note_position,
            self._spare_preparer.step,
            self._recorder.step,
        )
        delays: list[int | None] = []
        errors: list[LakebedError] = []
        for job in jobs:
            try:
                delays.append(job())
            except LakebedError as error:
                self._metrics.metadata_retry_attempts.add()
                errors.append(error)
        if errors:
            delays.append(self._upkeep.failed(errors[0]))
        else:
            self._upkeep.succeeded()
        return min((delay for delay in delays if delay is not None), default=None)

    def _acknowledge(self) -> int | None:
        return None if self._tiering is None else self._tiering.admission.acknowledge()

    def _seal(self) -> int | None:
        while self._sealer.seal_next():
            pass
        return None

    def _retire(self) -> int | None:
        return self._retention_worker.step(is_needed=self._is_needed)

    def _note_position(self) -> int | None:
        return self._cursor.step(requested=self._appended_end(), durable=self._state.durable)

    @property
    def is_closed(self) -> bool:
        """Whether the log is closed or being closed."""
        return self._state.is_closed

    def close(self) -> None:
        """Flushes everything, wakes all waiters and closes the files. Idempotent.

        Waits until no background work uses the files, so the log can be opened again afterwards.
        If appended records could not be made durable, raises the error after closing the files.
        """
        state = self._state
        with state.mutex:
            is_closed_already, state.is_closed = state.is_closed, True
        if is_closed_already:
            self._closed.wait()
            return
        with contextlib.ExitStack() as stack:
            stack.callback(self._closed.set)
            stack.callback(self._on_closed, self)
            stack.callback(self._notifier.notify)
            stack.callback(self._spares.close)
            stack.callback(self._reader.close)
            stack.callback(self._write_cursor)
            stack.callback(self._recorder.stop)
            if self._tiering is not None:
                stack.callback(self._tiering.admission.close)
            stack.callback(self._flusher.close)
            if self._tiers is not None:
                stack.callback(self._tiers.moves.close)
            stack.callback(self._end_steps, self)
            self._notifier.notify()
        with state.mutex:
            if not state.is_durable(None):
                error = state.failure or state.error
                raise error or DiskError(
                    "close", self._paths.folder, why="some appended records are not durable"
                )

    def _on_flush(self) -> None:
        """Wakes waiters, and maintenance if it has work, after a flush succeeded or failed."""
        self._notifier.notify()
        is_spare_due = self._spare_preparer.is_newly_due()
        if is_spare_due or self._state.chain.to_seal or self._cursor.is_fresh:
            self._wake_maintenance()

    def _is_needed(self, segment_id: int) -> bool:
        """Returns whether retention must keep the segment for a pin or a follower of this log."""
        lowest = self._holds.lowest_segment()
        return self._is_pinned(segment_id) or (lowest is not None and lowest <= segment_id)

    def _on_sealed(self) -> None:
        self._write_cursor()
        if self._tiering is not None:
            self._tiering.on_sealed()

    def _queue_depth(self) -> int:
        return 0 if self._tiering is None else self._tiering.queue_depth

    def _make_tiering(self, tiers: LogTiers) -> TierScheduler:
        return TierScheduler(
            self._context,
            self._recorder,
            tiers,
            config=self._config.tiers,
            budget=self._coordinator.budget,
            metrics=self._tier_metrics,
            random=self._random,
            is_pinned=self._is_pinned,
            wake=self._coordinator.wake,
            watch=self._coordinator.watch,
        )

    def _start_tier_upkeep(self) -> None:
        if self.tier_upkeep.is_owed:
            self._coordinator.keep()

    def _make_tier_upkeep(self, tiers: LogTiers) -> LogUpkeep:
        archiver = self._retention_worker.archiver = Archiver(
            self._context, self._recorder, tiers.moves, on_ready=self._wake_maintenance
        )
        return LogUpkeep(self._context, self._recorder, tiers.moves, archiver, random=self._random)

    def _make_tiers(self) -> LogTiers:
        cold, shared = self._recorder.cold, self._services.config
        assert cold is not None, "the log is not started"
        return LogTiers(
            self._context,
            self._recorder,
            cold,
            stream_id=self.stream_id,
            prefix=shared.prefix,
            compression=shared.compression(),
            is_pinned=self._is_pinned,
            should_stop=lambda: self._coordinator.is_stopping or self._state.is_closed,
        )

    def _write_cursor(self) -> None:
        self._cursor.write(requested=self._appended_end(), durable=self._state.durable)

    def _appended_end(self) -> RecordId:
        with self._state.mutex:
            return self._state.appended_end()
