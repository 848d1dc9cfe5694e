"""Records the changes of a log's segments in its manifest log: opened, sealed, evicted.

Each change is recorded in the critical section that changes the log, so in memory the log and its
manifest log always agree. On disk they may disagree after a crash, or if the manifest log was off.
The segment files are then authoritative: when the manifest log is opened, its missing records are
added.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from lakebed.aof import durable_end
from lakebed.aof.context import LogContext
from lakebed.aof.format import RECORDS_START, SegmentFooter
from lakebed.aof.identity import LogIdentity, ensure_identity, find_identity
from lakebed.aof.manifest.format import LocalEvicted, SealSegment, SegmentOpened
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.journal_opener import open_journal
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.reconciliation import MissingRecord, SegmentOnDisk, reconcile
from lakebed.aof.manifest.records import Payload, Tier2DeleteQueued
from lakebed.aof.manifest.replay import ReplayResult, replay
from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.aof.paths import ArchivedName, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.aof.segment import Segment
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.aof.tiers.reconciliation import Correction, corrections, orphans
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import BadConfig, Busy, Closed, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.base.files import remove_temporaries

_log = logging.getLogger(__name__)
RECORDED_AT_ONCE_MAX = 256
"""At most this many missing records are added while the log's mutex is held. With any settings, an
empty queue of a journal has room for them."""


class ManifestRecorder:
    """Owns the journal of one log's manifest log. Records nothing while the manifest log is off.

    `opened`, `sealed`, `evicted` and `record` must be called with the log's mutex held. If the
    journal's queue is full, they raise `Busy`. The other methods must be called without the mutex;
    only one thread at a time may call `start` or `stop`.
    """

    def __init__(
        self,
        context: LogContext,
        services: TierServices,
        *,
        epoch: int,
        random: Random,
        wake: Callable[[], None],
        on_lost: Callable[[Sequence[str]], None],
    ) -> None:
        """`on_lost` is called with descriptions of lost segments, before the manifest log stops
        listing them, or of a lost manifest log. `wake` makes the maintenance task call `step`
        soon."""
        self._context = context
        self._state = context.state
        self._services = services
        self._epoch = epoch
        self._random = random
        self._wake = wake
        self._on_lost = on_lost
        self.on_chunk_sealed: Callable[[], None] = lambda: None  # set by the tier scheduler
        self.journal: Journal | None = None  # guarded by the mutex
        self.identity: LogIdentity | None = None
        self.cold: ColdSegments | None = None

    # Recording.

    def opened(self, segment: Segment) -> None:
        """Records that the segment gets its first record, unless that is already recorded."""
        if not segment.is_announced:
            payload = SegmentOpened(segment.name.base_offset, self._epoch)
            name = segment.name
            self._append(payload, segment_id=name.segment_id, logical_offset=name.base_offset)
            segment.is_announced = True

    def sealed(self, segment: Segment, *, coordinator_watermark: int) -> None:
        payload = SealSegment(
            durable_bytes=segment.end,
            segment_crc64=segment.crc64,
            ext_id=segment.ext_id,
            coordinator_watermark=coordinator_watermark,
            flush_failure=segment.flush_failure,
        )
        end = segment.name.base_offset + segment.end
        self._append(payload, segment_id=segment.name.segment_id, logical_offset=end)

    def evicted(self, info: SegmentInfo, *, durable_bytes: int) -> None:
        """Records that the segment leaves the log, and queues the deletion of its object in Tier 2.

        Does nothing if the manifest log is off or does not list the segment. If it raises `Busy`,
        no record was added: if the segment stays in the log, its object must not be deleted.
        """
        state = self.journal.state(info.segment_id) if self.journal is not None else None
        if state is None:
            return
        payloads: list[Payload] = []
        if state.residency & Residency.TIER2:
            payloads.append(Tier2DeleteQueued(state.key))
        elif state.upload_key:  # the object may exist, or an upload may still create it
            payloads.append(Tier2DeleteQueued(state.upload_key))
        if state.residency & Residency.TIER0:
            payloads.append(LocalEvicted(durable_bytes))
        if state.residency & Residency.TIER1:
            payloads.append(LocalEvicted(state.compressed_bytes))
        if payloads:
            end = info.base_offset + durable_bytes
            self._append(*payloads, segment_id=info.segment_id, logical_offset=end)

    def record(self, payload: Payload, info: SegmentInfo) -> None:
        """Records a change of a sealed segment; `payload` is the record's content."""
        self._append(payload, segment_id=info.segment_id, logical_offset=info.base_offset)

    def journal_to_move(self) -> Journal:
        """Returns the journal, which moves of segments between tiers need.

        Raises `Closed` if the log is closed, and `BadConfig` if the manifest log is off.
        """
        journal = self.journal
        if journal is not None:
            return journal
        name = self._state.name
        if self._state.is_closed:  # closing sets this before it takes the journal away
            raise Closed(f"{name}: the log is closed")
        raise BadConfig(
            f"{name}: segments cannot be moved between tiers while the manifest log is off: set "
            "manifest_log_enabled"
        )

    def commit(self) -> None:
        """Waits until everything recorded so far is durable. Call it without the log's mutex."""
        journal = self.journal
        if journal is not None:
            journal.commit()

    def _append(self, *payloads: Payload, segment_id: int, logical_offset: int) -> None:
        if self.journal is not None:
            self.journal.append(*payloads, segment_id=segment_id, logical_offset=logical_offset)

    # Opening and closing the journal.

    def start(self, *, enabled: bool) -> None:
        """Opens the manifest log, if it is `enabled` and not open yet, and adds missing records.

        Raises `BadConfig` if it is not enabled although some segments are only in colder tiers:
        only the manifest log lists those, and without it the log would reuse their offsets. Raises
        `BadConfig` also if it is not enabled and damaged, because it may then list such segments.
        """
        context = self._context
        if not enabled:
            self._check_dispensable()
        self.identity, before = ensure_identity(
            context.disk,
            context.paths,
            random=self._random,
            manifest_log=enabled,
            tier2=self._services.address,
        )
        was_stopped = self.cold is not None
        if self.cold is None:
            self.cold = self._services.cold(context.paths, self.identity.tier2, is_writer=True)
        if enabled and self.journal is None:
            was_off = was_stopped or (before is not None and not before.manifest_log)
            self._open(self.identity, was_off=was_off, was_kept=before is not None and not was_off)

    def _check_dispensable(self) -> None:
        """Raises `BadConfig` if the manifest log cannot be switched off; see `start`."""
        context, name = self._context, self._state.name
        try:
            identity = find_identity(context.disk, context.paths, tier2=self._services.address)
        except NotFound:
            return
        folder = ManifestPaths(f"{context.paths.manifest}/{identity.stream}")
        replayed = replay(ManifestReader(context.disk, folder))
        cold = [state.segment_id for state in replayed.index.segments() if state.is_cold]
        if replayed.damages:
            why = f"its manifest log is damaged ({replayed.damages[0].problem})"
        elif cold:
            why = f"{len(cold)} of its segments, {cold[0]} to {cold[-1]}, are only in colder tiers"
        else:
            return
        raise BadConfig(
            f"{name}: the manifest log cannot be switched off: {why}, and only the manifest log "
            "records which tiers have a segment. Leave manifest_log_enabled on, or first bring all "
            "segments back to Tier 0 with 'lakebed aof hydrate'"
        )

    def stop(self) -> None:
        """Closes the journal, if it is open; nothing is recorded until `start` is called.

        Records of opened, sealed and evicted segments that could not be made durable are added
        again when the manifest log is opened.
        """
        with self._state.mutex:
            journal, self.journal = self.journal, None
        if journal is not None:
            try:
                journal.close()
            except LakebedError as error:
                name = self._state.name
                event(_log, "manifest_close_failed", level=logging.ERROR, log=name, error=error)

    def step(self) -> int | None:
        journal = self.journal
        return None if journal is None else journal.step()

    def _open(self, identity: LogIdentity, *, was_off: bool, was_kept: bool) -> None:
        context = self._context
        journal, replayed = open_journal(
            context.disk,
            f"{context.paths.manifest}/{identity.stream}",
            quarantine=context.paths.quarantine,
            config=context.config.manifest,
            runner=context.runner,
            random=self._random,
            counters=context.counters,
            wake=self._wake,
            on_failure=self._fail,
            on_sealed=self._notify_chunk_sealed,
            on_room=context.notifier.notify,
        )
        with contextlib.ExitStack() as undo:
            undo.callback(self._give_up, journal)
            is_first = replayed.snapshot is None and not replayed.record_count
            if is_first and was_kept:
                self._report_forgotten()
            was_incomplete = self._attach(journal, knows_all=not was_off and not replayed.damages)
            if was_off:
                self._forget_removed(journal)
            self._place_cold(journal)
            if replayed.damages or was_off or (was_incomplete and is_first):
                journal.take_snapshot()  # later replays start after the damage or the gap
            undo.pop_all()
        self._raise_watermark(replayed)

    def _give_up(self, journal: Journal) -> None:
        with self._state.mutex:
            self.journal = None
        journal.close()

    def _attach(self, journal: Journal, *, knows_all: bool) -> bool:
        """Adds the missing records to the journal, then starts recording the log's changes.

        Returns whether any records were missing. The last of them, at most `RECORDED_AT_ONCE_MAX`,
        are added with the mutex held, because the log may be changing.
        """
        chain = self._state.chain
        was_incomplete = False
        report_lost = partial(self._report_lost, knows_all=knows_all)
        while True:
            with self._state.mutex:
                sealed = list(chain.sealed)
            footers = self._unrecorded_footers(journal, sealed)
            with self._state.mutex:
                if sealed != chain.sealed:
                    continue
                # `to_seal` may hold a truncated segment without records, which cannot take any.
                segments = [*chain.to_seal, *([chain.active] if chain.active.record_count else ())]
                on_disk = [
                    SegmentOnDisk(info.segment_id, info.base_offset)
                    for info in sealed
                    if not info.tier
                ]
                on_disk += [
                    SegmentOnDisk(segment.name.segment_id, segment.name.base_offset)
                    for segment in segments
                ]
                index = journal.index()
                missing = list(reconcile(index, on_disk, epoch=self._epoch, footers=footers))
                was_incomplete = was_incomplete or bool(missing)
                if len(missing) <= RECORDED_AT_ONCE_MAX:
                    report_lost(missing, index, on_disk=on_disk)
                    record_all(journal, missing)
                    for segment in segments:
                        segment.is_announced = True
                    self.journal = journal
                    return was_incomplete
            report_lost(missing, index, on_disk=on_disk)
            record_all(journal, missing)
            journal.commit()  # makes room in the queue for the other records

    def _report_lost(
        self,
        missing: Sequence[MissingRecord],
        index: ManifestIndex,
        *,
        on_disk: Sequence[SegmentOnDisk],
        knows_all: bool,
    ) -> None:
        """Reports segments whose file is gone and that have no copy in a tier or in the archive.

        A missing segment that is older than all segments on disk may have been removed by
        retention, so it counts as lost only if the manifest log was complete (`knows_all`):
        retention records a removal before it deletes the file. A missing segment that was not
        sealed counts as lost only if it had durable records.
        """
        oldest = min((segment.segment_id for segment in on_disk), default=0)
        newest = max((segment.segment_id for segment in on_disk), default=-1)
        durable = durable_end.load(self._context.disk, self._context.paths.durable_end)
        if durable is not None:
            newest = max(newest, durable.segment_id + (durable.offset > RECORDS_START) - 1)
        lost: list[str] = []
        for record in missing:
            state = index.get(record.segment_id)
            if not isinstance(record.payload, LocalEvicted) or state is None:
                continue
            is_elsewhere = state.residency & ~Residency.TIER0 or self._is_archived(state.segment_id)
            if is_elsewhere or (not knows_all and state.segment_id < oldest):
                continue
            if state.is_sealed or state.segment_id <= newest:
                lost.append(f"segment {state.segment_id} is missing, with all its records")
                event(
                    _log,
                    "segment_missing",
                    level=logging.WARNING,
                    log=self._state.name,
                    segment_id=state.segment_id,
                )
        if lost:
            self._on_lost(lost)

    def _report_forgotten(self) -> None:
        """Reports that the manifest log is missing, if some segments may be only in colder tiers.

        Those are the segments older than the oldest local file.
        """
        oldest = self._oldest_on_disk()
        if oldest:
            what = f"the manifest log is missing: segments 0 to {oldest - 1} may be in colder tiers"
            way_back = "put its folder back, or restore a backup"
            self._on_lost([f"{what}, but it is not known where; {way_back}"])

    def _oldest_on_disk(self) -> int:
        chain = self._state.chain
        with self._state.mutex:
            ids = [info.segment_id for info in chain.sealed]
            ids += [segment.name.segment_id for segment in (*chain.to_seal, chain.active)]
        return min(ids)

    def _forget_removed(self, journal: Journal) -> None:
        """Records the removal of segments that left the log while the manifest log was off.

        These are the segments older than the oldest local file. The manifest log can be switched
        off only while every segment has a local file, so retention must have removed them.
        """
        oldest = self._oldest_on_disk()
        for state in list(journal.index().segments()):
            if state.segment_id < oldest:
                try:
                    self._forget(state)
                except Busy:
                    journal.commit()  # makes room in the queue
                    self._forget(state)

    def _forget(self, state: SegmentState) -> None:
        info = SegmentInfo(state.segment_id, state.base_offset, 0, "", True, None)
        with self._state.mutex:
            self.evicted(info, durable_bytes=state.durable_bytes)

    def _is_archived(self, segment_id: int) -> bool:
        names = map(ArchivedName.parse, self._context.disk.names(self._context.paths.archive))
        return any(name is not None and name.segment_id == segment_id for name in names)

    def _place_cold(self, journal: Journal) -> None:
        """Adds the segments that are only in colder tiers to the log's list of segments."""
        assert self.cold is not None
        self._correct(journal, self.cold)
        infos = self.cold.infos(journal.index().segments())
        chain = self._state.chain
        with self._state.mutex:
            for info in infos:
                chain.place(info)
            newest = chain.sealed[-1] if chain.sealed and chain.is_at_start else None
        if newest is not None and newest.tier:
            record_count = self._record_count_after(newest, self.cold)
            with self._state.mutex:
                chain.follow(newest, record_count=record_count)

    def _record_count_after(self, newest: SegmentInfo, cold: ColdSegments) -> int:
        """Returns the number of records in the log up to the end of its newest segment.

        Returns 0 if all its copies are missing or damaged. Raises a `Tier2Error` if reading it from
        Tier 2 fails for another reason.
        """
        try:
            return cold.record_count_after(newest)
        except Tier2Error as error:
            why = f"its newest segment, {newest.segment_id}, cannot be read from Tier 2"
            raise type(error)(f"{self._state.name}: {why}: {error}") from error

    def _correct(self, journal: Journal, cold: ColdSegments) -> None:
        """Corrects the manifest log to match the warm files on disk; see `tiers.reconciliation`.

        Deletes the warm files of segments that the manifest log does not list as in Tier 1.
        """
        if self._context.disk.is_folder(self._context.paths.warm):
            remove_temporaries(self._context.disk, self._context.paths.warm)
        warm = cold.warm_names()
        record_all(journal, corrections(journal.index().segments(), warm=warm))
        for segment_id in orphans(journal.index().segments(), warm=warm):
            self._context.disk.unlink(cold.warm_path(warm[segment_id]))

    def _unrecorded_footers(
        self, journal: Journal, sealed: Sequence[SegmentInfo]
    ) -> dict[int, SegmentFooter]:
        """Returns the footers, by id, of the sealed segments that are not recorded as sealed."""
        index = journal.index()
        footers: dict[int, SegmentFooter] = {}
        for info in sealed:
            recorded = index.get(info.segment_id)
            if not info.tier and (recorded is None or not recorded.is_sealed):
                name = SegmentName(info.segment_id, info.base_offset, info.created_at)
                with self._context.disk.open(info.path) as file:
                    footer = read_footer(file, info.path, name)
                if footer is not None:
                    footers[info.segment_id] = footer
        return footers

    def _raise_watermark(self, replayed: ReplayResult) -> None:
        """Raises the log's watermark to the highest in the manifest log, if that is higher."""
        state = self._state
        with state.mutex:
            highest = max(state.coordinator_watermark, replayed.index.coordinator_watermark)
            state.coordinator_watermark = highest

    def _notify_chunk_sealed(self) -> None:
        """Calls `on_chunk_sealed`, which may have been set after the journal was opened."""
        self.on_chunk_sealed()

    def _fail(self, error: LakebedError) -> None:
        """Ends writing to the log, because the journal can no longer make records durable."""
        with self._state.mutex:
            if self._state.failure is None:
                self._state.failure = error
        self._context.notifier.notify()


def record_all(journal: Journal, records: Iterable[MissingRecord | Correction]) -> None:
    """Appends any number of records, committing whenever the journal's queue is full."""
    for payload, segment_id, logical_offset in records:
        try:
            journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)
        except Busy:
            journal.commit()
            journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)
