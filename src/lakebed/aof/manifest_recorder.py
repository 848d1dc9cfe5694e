"""What a log tells its manifest log: segments that are opened, sealed and gone.

Each is recorded within the critical section that changes the log, so the two never disagree in
memory. On disk they may, after a crash or while the manifest log was switched off: the segments
are what counts, and whatever the manifest log does not know of them is recorded when it is opened.
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
from lakebed.aof.manifest.state import Residency
from lakebed.aof.paths import ArchivedName, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.aof.segment import Segment
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.aof.tiers.reconciliation import Correction, corrections, orphans
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import BadConfig, Busy, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.base.files import remove_temporaries

_log = logging.getLogger(__name__)
RECORDED_AT_ONCE_MAX = 256
"""While the log waits: no queue is too small for so many."""


class ManifestRecorder:
    """Owns the journal; without one (the manifest log is switched off) it records nothing.

    `opened`, `sealed` and `evicted`: with the log's mutex; `Busy` if the journal takes no more for
    the moment, and nothing was changed. The rest: by one thread at a time, and without it.
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
        """`on_lost` puts losses on record, before the manifest log forgets the segments."""
        self._context = context
        self._state = context.state
        self._services = services
        self._epoch = epoch
        self._random = random
        self._wake = wake
        self._on_lost = on_lost
        self.on_chunk_sealed: Callable[[], None] = lambda: None  # set by whoever archives them
        self.journal: Journal | None = None  # guarded by the mutex
        self.identity: LogIdentity | None = None
        self.cold: ColdSegments | None = None

    # Recording.

    def opened(self, segment: Segment) -> None:
        """The segment gets its first record. Recorded once, however often that is tried."""
        if not segment.is_announced:
            payload = SegmentOpened(segment.name.base_offset, self._epoch)
            self._append(payload, segment.name.segment_id, segment.name.base_offset)
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
        self._append(payload, segment.name.segment_id, end)

    def evicted(self, info: SegmentInfo, *, durable_bytes: int) -> None:
        """The segment left the log: it goes from every tier."""
        state = self.journal.state(info.segment_id) if self.journal is not None else None
        if state is None:
            return
        end = info.base_offset + durable_bytes
        if state.residency & Residency.TIER2:
            self._append(Tier2DeleteQueued(state.key), info.segment_id, end)
        elif state.upload_key:  # the object may be there, or come to be
            self._append(Tier2DeleteQueued(state.upload_key), info.segment_id, end)
        if state.residency & Residency.TIER0:
            self._append(LocalEvicted(durable_bytes), info.segment_id, end)
        if state.residency & Residency.TIER1:
            self._append(LocalEvicted(state.compressed_bytes), info.segment_id, end)

    def record(self, payload: Payload, info: SegmentInfo) -> None:
        """Something else happened to a sealed segment."""
        self._append(payload, info.segment_id, info.base_offset)

    def commit(self) -> None:
        """Until everything recorded so far is durable. Without the mutex."""
        journal = self.journal
        if journal is not None:
            journal.commit()

    def _append(self, payload: Payload, segment_id: int, logical_offset: int) -> None:
        if self.journal is not None:
            self.journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)

    # The journal's life.

    def start(self, *, enabled: bool) -> None:
        """Open the manifest log, if it is kept, and record what it does not know.

        `BadConfig` if it is not to be kept, and segments are in colder tiers alone: nothing else
        knows of them, and the log would start again where they are.
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
        """See `start`. Looks at what is recorded, whether or not it was kept the last time."""
        context, name = self._context, self._state.name
        try:
            identity = find_identity(context.disk, context.paths, tier2=self._services.address)
        except NotFound:
            return
        folder = ManifestPaths(f"{context.paths.manifest}/{identity.stream}")
        found = replay(ManifestReader(context.disk, folder))
        cold = [state.segment_id for state in found.index.segments() if state.is_cold]
        if found.damages:
            why = f"its manifest log is damaged ({found.damages[0].problem})"
        elif cold:
            why = f"{len(cold)} of its segments, from {cold[0]} to {cold[-1]}, are in colder tiers"
        else:
            return
        raise BadConfig(
            f"{name}: {why}, and without it nobody knows where they are: leave "
            "manifest_log_enabled on, or bring all segments back first (lakebed aof hydrate)"
        )

    def stop(self) -> None:
        """Close the journal; what it could not make durable is found out again when it is opened.

        Nothing is recorded from here on.
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
            is_news = self._attach(journal, knows_all=not was_off and not replayed.damages)
            self._place_cold(journal)
            if replayed.damages or (is_news and (was_off or is_first)):
                journal.take_snapshot()  # nobody has to get past the damage again
            undo.pop_all()
        self._raise_watermark(replayed)

    def _give_up(self, journal: Journal) -> None:
        with self._state.mutex:
            self.journal = None
        journal.close()

    def _attach(self, journal: Journal, *, knows_all: bool) -> bool:
        """Record what is missing, and from then on all that happens; whether anything was.

        The last of it, and with the mutex, for the log may change meanwhile: only a little.
        """
        chain = self._state.chain
        is_news = False
        report_lost = partial(self._report_lost, knows_all=knows_all)
        while True:
            with self._state.mutex:
                sealed = list(chain.sealed)
            footers = self._unrecorded_footers(journal, sealed)
            with self._state.mutex:
                if sealed != chain.sealed:
                    continue
                # One without records is to be sealed if it was cut: then there is no room for any.
                segments = [*chain.to_seal, *([chain.active] if chain.active.record_count else ())]
                found = [
                    SegmentOnDisk(one.segment_id, one.base_offset) for one in sealed if not one.tier
                ]
                found += [
                    SegmentOnDisk(one.name.segment_id, one.name.base_offset) for one in segments
                ]
                index = journal.index()
                missing = list(reconcile(index, found, epoch=self._epoch, footers=footers))
                is_news = is_news or bool(missing)
                if len(missing) <= RECORDED_AT_ONCE_MAX:
                    report_lost(missing, index, on_disk=found)
                    record_all(journal, missing)
                    for segment in segments:
                        segment.is_announced = True
                    self.journal = journal
                    return is_news
            report_lost(missing, index, on_disk=found)
            record_all(journal, missing)
            journal.commit()  # the queue has room for the rest

    def _report_lost(
        self,
        missing: Sequence[MissingRecord],
        index: ManifestIndex,
        *,
        on_disk: Sequence[SegmentOnDisk],
        knows_all: bool,
    ) -> None:
        """Segments whose file is gone and that no tier has, nor the archive.

        Retention takes the oldest, and records that first: they are lost if the manifest log
        `knows_all` that happened. One that was never sealed is lost if it had durable records.
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
        """The manifest log is gone: segments before the first file may be in colder tiers."""
        chain = self._state.chain
        with self._state.mutex:
            ids = [info.segment_id for info in chain.sealed]
            ids += [segment.name.segment_id for segment in (*chain.to_seal, chain.active)]
        oldest = min(ids)
        if oldest:
            what = f"the manifest log is missing: whether segments 0 to {oldest - 1} are in colder"
            way_back = "put its folder back, or restore a backup"
            self._on_lost([f"{what} tiers, and where, is not known; {way_back}"])

    def _is_archived(self, segment_id: int) -> bool:
        names = map(ArchivedName.parse, self._context.disk.names(self._context.paths.archive))
        return any(name is not None and name.segment_id == segment_id for name in names)

    def _place_cold(self, journal: Journal) -> None:
        """Segments that are in colder tiers alone are part of the log too."""
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
        """The next segment's header needs it: while nobody can tell, there must be none."""
        try:
            return cold.record_count_after(newest)
        except Tier2Error as error:
            why = f"only Tier 2 has segment {newest.segment_id}, behind which it goes on"
            raise type(error)(f"{self._state.name}: {why}: {error}") from error

    def _correct(self, journal: Journal, cold: ColdSegments) -> None:
        """What the manifest log says of warm files, against those that are there."""
        if self._context.disk.is_folder(self._context.paths.warm):
            remove_temporaries(self._context.disk, self._context.paths.warm)
        warm = cold.warm_names()
        record_all(journal, corrections(journal.index().segments(), warm=warm))
        for segment_id in orphans(journal.index().segments(), warm=warm):
            self._context.disk.unlink(cold.warm_path(warm[segment_id]))

    def _unrecorded_footers(
        self, journal: Journal, sealed: Sequence[SegmentInfo]
    ) -> dict[int, SegmentFooter]:
        """Of sealed segments that the index does not know as such: few, but for the first time."""
        index = journal.index()
        footers: dict[int, SegmentFooter] = {}
        for info in sealed:
            known = index.get(info.segment_id)
            if not info.tier and (known is None or not known.is_sealed):
                name = SegmentName(info.segment_id, info.base_offset, info.created_at)
                with self._context.disk.open(info.path) as file:
                    footer = read_footer(file, info.path, name)
                if footer is not None:
                    footers[info.segment_id] = footer
        return footers

    def _raise_watermark(self, replayed: ReplayResult) -> None:
        """The highest seen anywhere counts."""
        state = self._state
        with state.mutex:
            highest = max(state.coordinator_watermark, replayed.index.coordinator_watermark)
            state.coordinator_watermark = highest

    def _notify_chunk_sealed(self) -> None:
        """Whoever wants to know it by now."""
        self.on_chunk_sealed()

    def _fail(self, error: LakebedError) -> None:
        """The journal can make nothing durable any more: the log takes no more records."""
        with self._state.mutex:
            if self._state.failure is None:
                self._state.failure = error
        self._context.notifier.notify()


def record_all(journal: Journal, records: Iterable[MissingRecord | Correction]) -> None:
    """However many they are: when the queue is full, what is in it is committed."""
    for payload, segment_id, logical_offset in records:
        try:
            journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)
        except Busy:
            journal.commit()
            journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)
