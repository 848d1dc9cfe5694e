"""Moves one segment between tiers. Each step is recorded in the manifest log.

    compress   Tier 0 → Tier 1   creates the warm file from the segment
    upload     Tier 1 → Tier 2   creates the object from the warm file
    evict      removes the copy in Tier 0 or Tier 1, if Tier 2 is confirmed to have the segment
    hydrate    Tier 1 or 2 → Tier 0
    archive    Tier 1 or 2 → `archive/`, before retention removes the segment
    delete     removes the object from Tier 2

Invariants:

- a copy is durable before the record that names it, and the record of a removal is durable before
  the copy is removed. So after a crash at any moment, every copy that the manifest log names
  exists, unless it is queued for deletion or the file system lost it;
- a segment's object has one key, which depends only on the segment: an upload may be repeated after
  any failure and never creates a second object;
- no segment is evicted from Tier 0 before the record of its object is durable.

Only one thread at a time may move a segment: it must hold the segment's `claim`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum

from lakebed.aof.context import LogContext
from lakebed.aof.format import SegmentFooter
from lakebed.aof.interchange_segment import is_interchange_file
from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
)
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.records import (
    Payload,
    ReasonCode,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import Pending, Residency, SegmentState
from lakebed.aof.manifest_recorder import ManifestRecorder
from lakebed.aof.paths import ArchivedName, SegmentName
from lakebed.aof.recovery import read_footer
from lakebed.aof.sparse_index import remove_index
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.errors import Missing, Tier2Error
from lakebed.aof.tiers.names import SegmentKey, WarmName
from lakebed.aof.tiers.object_store import ANSWERS_MAX
from lakebed.aof.tiers.transfer import (
    CRC64,
    SEGMENT_CRC64,
    crc64_text,
    segment_metadata,
    upload_file,
)
from lakebed.aof.tiers.warm_file import (
    Compression,
    ShouldStop,
    WarmFacts,
    check_segment_file,
    compress_segment,
    decompress_to,
    segment_footer,
    segment_header,
    warm_facts,
)
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import (
    Busy,
    Closed,
    Corrupt,
    DataError,
    InputError,
    LakebedError,
    NotFound,
)
from lakebed.base.events import event
from lakebed.base.files import fork_guard, make_folders

_log = logging.getLogger(__name__)


class RepairOutcome(Enum):
    """The outcome of checking and repairing a segment's object in Tier 2."""

    WHOLE = "whole"
    UPLOADED = "uploaded again"
    FOUND = "found again"
    LOST = "missing, and no local copy is left"


class SegmentTiering:
    """Moves the segments of one log between tiers.

    Different segments may be moved at the same time.
    """

    def __init__(
        self,
        context: LogContext,
        recorder: ManifestRecorder,
        cold: ColdSegments,
        *,
        stream_id: int,
        prefix: str,
        compression: Compression,
        should_stop: ShouldStop,
    ) -> None:
        self._disk = context.disk
        self._paths = context.paths
        self._state = context.state
        self._notifier = context.notifier
        self._recorder = recorder
        self._cold = cold
        self._stream_id = stream_id
        self._prefix = prefix
        self._compression = compression
        self.should_stop = should_stop
        self._claimed: set[int] = set()  # guarded by the log's mutex
        self._generation = fork_guard.generation()
        # Set by the scheduler; called when a caller other than its workers releases a segment.
        self.on_released: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def claim(self, segment_id: int, *, is_worker: bool = False) -> Iterator[None]:
        """Reserves the segment for a move, until the context ends.

        Raises `Busy` if another thread is moving the segment, and `Closed` if the log is closed.
        Background workers set `is_worker`, so that they are not woken when they release a segment
        themselves.
        """
        with self._state.mutex:
            if self._state.is_closed:
                raise Closed(f"{self._state.name}: the log is closed")
            if segment_id in self._claimed:
                raise Busy(
                    f"{self._state.name}: segment {segment_id} is being moved between tiers; try "
                    "again later"
                )
            self._claimed.add(segment_id)
        try:
            yield
        finally:
            with self._state.mutex:
                self._claimed.discard(segment_id)
            self._notifier.notify()  # `close` waits for this
            if not is_worker:
                self.on_released()

    def close(self) -> None:
        """Waits until all running moves have ended. They stop early, because the log is closed."""
        while (
            self._generation == fork_guard.generation()
        ):  # after a fork, moves continue only in the parent
            released = self._notifier.next_change()
            if not self.claimed():
                return
            released.wait()

    def claimed(self) -> frozenset[int]:
        """Returns the ids of the segments that are being moved."""
        with self._state.mutex:
            return frozenset(self._claimed)

    def owner(self, key: str) -> int:
        """Returns the id of the segment whose object has that key.

        Returns `MANIFEST_ITSELF` if it is not the key of a segment.
        """
        parsed = SegmentKey.parse(key, prefix=self._prefix)
        return MANIFEST_ITSELF if parsed is None else parsed.segment_id

    def compress(self, segment_id: int, *, give_way: Callable[[], None] | None = None) -> WarmName:
        """Creates the segment's warm file if there is none, and returns its name.

        Raises `InputError` if the file cannot be created, because the segment is not in Tier 0 or
        has the interchange layout. `give_way` is called before each frame, so that it can delay the
        compression.
        """
        info, state = self._find(segment_id)
        if state.residency & Residency.TIER1:
            name = self._cold.warm_names().get(segment_id)
            if name is not None:
                return name
        if info.tier:
            raise InputError(
                f"{self._state.name}: segment {segment_id} cannot be compressed, because it is "
                "not in Tier 0; hydrate it first"
            )
        refusal = self.refusal_of(info)
        if refusal is not None:
            raise refusal
        return self._compress(info, state, give_way)

    def refusal_of(self, info: SegmentInfo) -> InputError | None:
        """Returns the error for a segment in Tier 0 that has the interchange layout, or None.

        That layout has no warm form, so such a segment stays in Tier 0.
        """
        with self._disk.open(info.path) as file:
            if not is_interchange_file(file):
                return None
        return InputError(
            f"{self._state.name}: segment {info.segment_id} cannot be moved between tiers, "
            "because it has the interchange layout; only runtime segments can"
        )

    def upload(self, segment_id: int) -> None:
        """Uploads the segment's warm file to Tier 2, unless Tier 2 already has the segment.

        Creates the warm file first if necessary. When this returns, the store has confirmed the
        object and its record is durable.
        """
        info, state = self._find(segment_id)
        if state.residency & Residency.TIER2:
            return
        name = self.compress(segment_id)
        key = SegmentKey(self._stream_id, segment_id, name.sealed_at).below(self._prefix)
        try:
            self._upload(info, name, key, is_repeated=bool(state.upload_key))
        except DataError as error:
            if info.tier:
                raise
            # The warm file is damaged, but the segment that it was made from is still in Tier 0.
            self._log_event("warm_file_damaged", segment_id, error=error)
            name = self._compress(*self._find(segment_id))
            self._upload(info, name, key, is_repeated=True)
        self._log_event("tier2_upload_done", segment_id, key=key)

    def evict(self, segment_id: int) -> int:
        """Removes the segment from Tier 0, and returns the number of bytes freed.

        Returns 0 if the segment is not in Tier 0. Raises `InputError` if Tier 2 does not have the
        segment, or if its object needs repair or is queued for deletion.
        """
        info, state = self._find(segment_id)
        if info.tier:
            return 0
        self._check_evictable(state)
        self._leave_tier(info, state, info.end or state.durable_bytes)
        remove_index(self._disk, info.path)
        self._log_event("tier0_evicted", segment_id, bytes=state.durable_bytes)
        return state.durable_bytes

    def evict_warm(self, segment_id: int) -> int:
        """Removes the segment from Tier 1 if it is not in Tier 0; returns the bytes freed.

        Returns 0 if the segment is in Tier 0 or not in Tier 1. Raises `InputError` under the same
        conditions as `evict`.
        """
        info, state = self._find(segment_id)
        if info.tier != 1:
            return 0
        self._check_evictable(state)
        self._leave_tier(info, state, state.compressed_bytes)
        self._log_event("tier1_evicted", segment_id, bytes=state.compressed_bytes)
        return state.compressed_bytes

    def hydrate(self, segment_id: int) -> None:
        """Restores the segment to Tier 0; does nothing if the segment is in Tier 0 already.

        If the warm file is missing or damaged, restores the segment from its object in Tier 2.
        """
        info, state = self._find(segment_id)
        if not info.tier:
            return None
        self._record(HydrationStarted(info.tier), info)
        try:
            restored = self._restore(info)
        except LakebedError as error:
            self._record(HydrationFailed(_reason(error, tier=info.tier)), info)
            self._log_event("hydration_failed", segment_id, tier=info.tier, error=error)
            is_warm_file_bad = info.tier == 1 and isinstance(error, (NotFound, DataError))
            if is_warm_file_bad and state.residency & Residency.TIER2:
                self._leave_tier(info, state, state.compressed_bytes)
                return self.hydrate(segment_id)
            raise
        try:
            self._change(HydrationDone(state.durable_bytes), info, place=restored)
        except NotFound:
            self._remove(restored.path)
            raise
        self._log_event("hydration_done", segment_id, tier=info.tier)
        return None

    def repair(self, segment_id: int) -> RepairOutcome:
        """Checks the segment's object in Tier 2, and uploads it again if necessary.

        That is necessary if the object is missing, or if its size or recorded checksum is not that
        of the segment; its content is not read. If there is no local copy to upload, marks the
        segment as needing repair. Returns `WHOLE` if the segment should not be in Tier 2.
        """
        info, state = self._find(segment_id)
        if not state.residency & Residency.TIER2:
            return RepairOutcome.WHOLE
        etag = self._etag_of(state)
        if etag:
            if etag != state.etag or state.needs_repair:
                self._record(UploadDone(state.key, etag), info)
            return RepairOutcome.FOUND if state.needs_repair else RepairOutcome.WHOLE
        # Recorded first: until the object exists again, no local copy may be evicted.
        self._record(HydrationFailed(ReasonCode.MISSING), info)
        if not state.residency & (Residency.TIER0 | Residency.TIER1):
            return RepairOutcome.LOST
        self._upload(info, self.compress(segment_id), state.key, is_repeated=False)
        return RepairOutcome.UPLOADED

    def archive(self, segment_id: int) -> ArchivedName:
        """Restores a segment from Tier 1 or 2 into the archive, unless the archive has it.

        The segment also stays in the log. If a copy is missing or damaged, tries the next copy; if
        there is no other copy, raises the last error. Returns the name of the archived file.
        """
        _, state = self._find(segment_id)
        existing = self._archived(state)
        if existing is not None:
            return existing
        places = self._cold.infos(
            iter([state._replace(residency=state.residency & ~Residency.TIER0)])
        )
        failure: LakebedError = NotFound(
            f"{self._state.name}: segment {segment_id} has no copy in Tier 1 or 2"
        )
        for source in (source for place in places for source in self._cold.sources(place)):
            try:
                name = self._restore_archived(source, state)
            except (NotFound, DataError) as error:
                failure = error
                self._log_event("archive_source_failed", segment_id, tier=source.tier, error=error)
                continue
            self._log_event("segment_archived", segment_id, tier=source.tier)
            return name
        raise failure

    def delete(self, key: str, *, segment_id: int = MANIFEST_ITSELF) -> None:
        """Deletes an object that is queued for deletion.

        `segment_id` is the segment whose object is deleted; it must be omitted if the segment was
        removed from the log.
        """
        self._journal.commit()  # the record of the delete must be durable first
        self._cold.store.delete(key)
        self._journal.append(Tier2Deleted(key), segment_id=segment_id, logical_offset=0)
        self._journal.commit()
        event(_log, "tier2_deleted", log=self._state.name, key=key)

    # Steps.

    def _compress(
        self,
        info: SegmentInfo,
        state: SegmentState,
        give_way: Callable[[], None] | None = None,
    ) -> WarmName:
        def should_stop() -> bool:
            if give_way is not None:
                give_way()
            return self.should_stop()

        if not state.pending & Pending.COMPRESSION:
            self._record(CompressionStarted(info.segment_id), info)
        try:
            name = self._warm_name(info)
            path = self._cold.warm_path(name)
            make_folders(self._disk, self._paths.warm)
            facts = compress_segment(
                self._disk,
                info.path,
                path,
                compression=self._compression,
                should_stop=should_stop,
            )
        except LakebedError as error:
            is_damaged = isinstance(error, DataError)
            reason = ReasonCode.CODEC if is_damaged else ReasonCode.TRANSIENT
            self._record(CompressionFailed(reason), info)
            self._log_event("tier1_compression_failed", info.segment_id, error=error)
            raise
        try:
            self._record(CompressionDone(facts.compressed_bytes, facts.dictionary_id), info)
        except NotFound:
            self._remove(path)
            raise
        self._log_event("tier1_compression_done", info.segment_id, bytes=facts.compressed_bytes)
        return name

    def _warm_name(self, info: SegmentInfo) -> WarmName:
        """Returns the name of the segment's warm file, which contains the time of its sealing."""
        name = SegmentName(info.segment_id, info.base_offset, info.created_at)
        with self._disk.open(info.path) as file:
            footer = read_footer(file, info.path, name)
        if footer is None:
            raise Corrupt("the sealed segment has no footer", path=info.path)
        return WarmName(info.segment_id, info.base_offset, footer.sealed_at)

    def _upload(self, info: SegmentInfo, name: WarmName, key: str, *, is_repeated: bool) -> None:
        self._record(UploadStarted(key), info)
        self._journal.commit()  # an object without a record would never be deleted
        try:
            etag = self._put(key, self._cold.warm_path(name), is_repeated=is_repeated)
        except (Tier2Error, DataError) as error:
            reason = error.reason_code if isinstance(error, Tier2Error) else ReasonCode.CODEC
            self._record(UploadFailed(key, reason), info)
            self._log_event("tier2_upload_failed", info.segment_id, key=key, error=error)
            raise
        try:
            self._record(UploadDone(key, etag), info)
        except NotFound:
            # Retention removed the segment. Its queued delete may have run before the upload.
            queued = Tier2DeleteQueued(key)
            self._journal.append(queued, segment_id=MANIFEST_ITSELF, logical_offset=0)
            raise
        finally:
            self._journal.commit()

    def _put(self, key: str, path: str, *, is_repeated: bool) -> str:
        facts = warm_facts(self._disk, path)
        if is_repeated:
            with contextlib.suppress(Missing):
                return self._confirmed(key, facts)
        snapshot_id = str(self._journal.snapshot_id)
        metadata = {**segment_metadata(facts), "snapshot-id": snapshot_id}
        upload_file(
            self._cold.store,
            key,
            self._disk,
            path,
            crc64=facts.crc64,
            metadata=metadata,
            should_stop=self.should_stop,
        )
        return self._confirmed(key, facts)

    def _confirmed(self, key: str, facts: WarmFacts) -> str:
        """Returns the ETag of the object, after checking that it is a copy of the warm file.

        Raises `Missing` if there is no such object, or if its size or checksum differ.
        """
        stored = self._cold.store.head(key)
        crc64 = (stored.metadata or {}).get(CRC64)
        if (stored.size, crc64) != (facts.compressed_bytes, crc64_text(facts.crc64)):
            raise Missing(
                f"{key}: the object with this key has another size or checksum than the warm file"
            )
        return stored.etag

    def _check_evictable(self, state: SegmentState) -> None:
        name, segment_id = self._state.name, state.segment_id
        if not state.is_stored:
            raise InputError(
                f"{name}: segment {segment_id} cannot be evicted, because Tier 2 has no intact "
                "copy of it that will stay there; upload or repair it first"
            )

    def _leave_tier(self, info: SegmentInfo, state: SegmentState, size: int) -> None:
        """Removes the local copy of a segment after recording the eviction durably.

        From then on, the segment is read from its next colder copy.
        """
        self._journal.commit()
        residency = state.residency & ~(Residency.TIER0 if info.tier == 0 else Residency.TIER1)
        colder = self._cold.infos(iter([state._replace(residency=residency)]))
        assert colder, "no tier would hold the segment"
        self._change(LocalEvicted(size), info, place=colder[0])
        self._journal.commit()
        self._remove(info.path)

    def _restore(self, info: SegmentInfo) -> SegmentInfo:
        """Restores the segment's file in Tier 0, and returns its entry for the log.

        If the bytes that arrive from Tier 2 are damaged, fetches them again, up to `ANSWERS_MAX`
        times in total, because they may have been damaged in transit.
        """
        for _ in range(ANSWERS_MAX - 1 if info.tier == 2 else 0):
            with contextlib.suppress(DataError):
                return self._restore_once(info)
        return self._restore_once(info)

    def _restore_once(self, info: SegmentInfo) -> SegmentInfo:
        with self._cold.opened(info) as source:
            header = segment_header(source)
            name = SegmentName(info.segment_id, info.base_offset, header.created_at)
            path = self._paths.segment(name)
            footer = decompress_to(source, self._disk, path, should_stop=self.should_stop)
        return replace(
            info, created_at=header.created_at, path=path, end=footer.durable_bytes, tier=0
        )

    def _archived(self, state: SegmentState) -> ArchivedName | None:
        """Returns the name of the segment's file in the archive, or None.

        Returns None if the archive has no such file, or only a damaged file. The file exists
        already if a crash happened after the segment was archived and before retention removed the
        segment from the log.
        """
        for name in filter(None, map(ArchivedName.parse, self._disk.names(self._paths.archive))):
            if name.segment_id == state.segment_id:
                with contextlib.suppress(DataError):
                    footer = check_segment_file(self._disk, self._paths.archived(name))
                    _check_identity(footer, state, path=self._paths.archived(name))
                    return name
        return None

    def _restore_archived(self, info: SegmentInfo, state: SegmentState) -> ArchivedName:
        with self._cold.opened(info) as source:
            footer = segment_footer(source)
            _check_identity(footer, state, path=source.name)
            name = ArchivedName(info.segment_id, footer.sealed_at)
            path = self._paths.archived(name)
            decompress_to(source, self._disk, path, should_stop=self.should_stop)
        return name

    def _etag_of(self, state: SegmentState) -> str:
        """Returns the ETag of the segment's object; empty if it is missing.

        An object with another size or checksum than the segment's counts as missing.
        """
        try:
            stored = self._cold.store.head(state.key)
        except Missing:
            return ""
        crc64 = (stored.metadata or {}).get(SEGMENT_CRC64)
        expected = (state.compressed_bytes, crc64_text(state.segment_crc64))
        return stored.etag if (stored.size, crc64) == expected else ""

    # State.

    @property
    def _journal(self) -> Journal:
        return self._recorder.journal_to_move()

    def _find(self, segment_id: int) -> tuple[SegmentInfo, SegmentState]:
        """Returns a sealed segment's entry in the log, and its state in the manifest log.

        Raises `NotFound` if the log has no such sealed segment.
        """
        with self._state.mutex:
            info = self._state.chain.find(segment_id)
        state = self._journal.state(segment_id)
        if info is None or state is None:
            raise NotFound(f"{self._state.name}: the log has no sealed segment {segment_id}")
        return info, state

    def _record(self, payload: Payload, info: SegmentInfo) -> None:
        self._change(payload, info, place=None)

    def _change(self, payload: Payload, info: SegmentInfo, *, place: SegmentInfo | None) -> None:
        """Records a change of the segment; with `place`, also replaces its entry in the log.

        Raises `NotFound` and records nothing if retention has removed the segment from the log,
        because the record would add it to the manifest log again.
        """
        with self._state.mutex:
            if self._state.chain.find(info.segment_id) is None:
                raise NotFound(
                    f"{self._state.name}: segment {info.segment_id} was removed from the log"
                )
            self._recorder.record(payload, info)
            if place is not None:
                self._state.chain.place(place)
        if place is not None:
            self._notifier.notify()

    def _remove(self, path: str) -> None:
        with contextlib.suppress(NotFound):
            self._disk.unlink(path)
        self._disk.sync_folder(os.path.dirname(path))

    def _log_event(self, name: str, segment_id: int, **facts: object) -> None:
        event(_log, name, level=logging.INFO, log=self._state.name, segment_id=segment_id, **facts)


def _check_identity(footer: SegmentFooter, state: SegmentState, *, path: str) -> None:
    """Raises `Corrupt` if the footer is not that of the segment in the manifest log."""
    actual = (footer.segment_index, footer.payload_checksum)
    expected = (state.segment_id, state.segment_crc64)
    if actual != expected:
        raise Corrupt(
            "the copy belongs to another segment: its number or checksum differs",
            path=path,
            expected=expected,
            found=actual,
        )


def _reason(error: LakebedError, *, tier: int) -> ReasonCode:
    if isinstance(error, Missing) or (tier == 2 and isinstance(error, NotFound)):
        return ReasonCode.MISSING
    return error.reason_code if isinstance(error, Tier2Error) else ReasonCode.TRANSIENT
