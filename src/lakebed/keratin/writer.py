"""The one who writes a partition: the barrier's sink.

Invariants:
- offsets are given out in the order of the queue, and only to what was written;
- an append that wants it is answered behind the sync that covers it; the high watermark and what
  other processes are told move only behind a sync;
- a segment is sealed, durable in its folder and complete with its indexes before the next one
  takes a record; the manifest follows, and recovery does not need it;
- changes of the list of segments are done here too, so that nobody else writes the manifest.

What may be lost: what was acknowledged after the write alone, in a power cut.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from lakebed.base.clock import NS_PER_MS
from lakebed.base.commit import SpaceReserve
from lakebed.base.errors import DiskError, LakebedError, WriteFailed
from lakebed.base.events import event
from lakebed.base.files import Disk, fork_guard, replace_atomically
from lakebed.base.layout import Buffer
from lakebed.base.runner import Runner
from lakebed.keratin.checkpoint import Checkpoint, checkpoint_of, save_checkpoint
from lakebed.keratin.commit_plan import CommitPlan, plan_commit
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.durable_end import DurableEndFile
from lakebed.keratin.filler import Filler
from lakebed.keratin.format import OFFSET_MAX, RECORDS_START, ManifestSegment
from lakebed.keratin.manifest import PartitionManifest, replace_manifest
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.producers import Runs, encode_producers
from lakebed.keratin.recovery import RecoveredPartition
from lakebed.keratin.segment import ActiveSegment
from lakebed.keratin.segment_files import SegmentFiles, create_segment, remove_segment
from lakebed.keratin.segment_rewrite import RewrittenSegment
from lakebed.keratin.state import PartitionState
from lakebed.keratin.view import PartitionSegment
from lakebed.keratin.writer_requests import SYNC, Append, Change, Work
from lakebed.kernels import keratin_batch

_log = logging.getLogger(__name__)
_CHECKPOINT_SHARE = 4  # the log grows by so many times a checkpoint's bytes before the next one


class WriterCallbacks(NamedTuple):
    """Whom the writer tells of what; each is quick, and does nothing itself."""

    on_sealed: Callable[[], None]  # there is one more sealed segment
    on_upkeep: Callable[[], None]  # upkeep should make a step: there is something for it to do
    on_unsynced: Callable[[], None]  # a sync is due within `sync_ms_max`


class PartitionWriter:
    """For one thread at a time: the barrier's leader."""

    def __init__(
        self,
        disk: Disk,
        paths: PartitionPaths,
        runner: Runner,
        recovered: RecoveredPartition,
        *,
        config: TopicConfig,
        state: PartitionState,
        filler: Filler,
        callbacks: WriterCallbacks,
    ) -> None:
        """Goes on where `recovered` says."""
        self._disk = disk
        self._paths = paths
        self._clock = runner.clock
        self._config = config
        self._state = state
        self._active = recovered.active
        self._producers = recovered.producers
        self._kept_producers: set[int] = set()  # not forgotten, however old they grow
        self._next_offset = recovered.next_offset
        self._created_ms = recovered.created_ms
        self._index_bytes = recovered.index_bytes
        self._filler = filler
        self._callbacks = callbacks
        self._reserve = SpaceReserve(disk, paths.folder, reserve_bytes=config.reserve_bytes)
        self._end_file = DurableEndFile(
            disk, paths.durable_end, writer_epoch=recovered.writer_epoch
        )
        self._files = SegmentFiles(disk, paths, recovered.active)
        self._manifest_due_ns = 0
        self._plan_checkpoint(recovered.checkpoint_end)
        self._unsynced_since_ns: int | None = None
        self._is_rolling = False  # begun, and not done
        self._is_closed = False
        self._process = fork_guard.generation()

    @property
    def unsynced_since_ns(self) -> int | None:
        """Since when something is written that is not durable; None if nothing is."""
        return self._unsynced_since_ns

    @property
    def next_offset(self) -> int:
        return self._next_offset

    @property
    def active_bytes(self) -> int:
        """Of the active segment; for looking alone."""
        return self._active.end

    def start(self) -> None:
        """Say how far the partition goes, before anything is appended."""
        self.write_manifest()
        self._end_file.start(
            base_offset=self._active.base_offset,
            position=self._active.end,
            next_offset=self._next_offset,
        )
        self._filler.begin(base_offset=self._active.base_offset, end=self._active.end)

    def commit(self, items: Sequence[Work]) -> Sequence[object]:
        """See `Sink`."""
        answers: list[object] = []
        appends: list[Append] = []
        for item in items:
            if isinstance(item, Append):
                appends.append(item)
                continue
            answers += self._try_to_commit(appends, is_alone=False)
            appends = []
            answers.append(self._change(item))
        answers += self._try_to_commit(appends, is_alone=not answers)
        if self._clock.monotonic_ns() >= self._manifest_due_ns:
            self._try_to_write_manifest()
        return answers

    def close(self) -> None:
        """Make everything durable, the manifest too, as far as the disk allows it. Idempotent:
        after it another writer may have the partition."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._unsynced_since_ns is not None:
                self._sync()
            self._files.write_indexes()
            self.write_manifest()
            if self._active.end - self._checkpoint_end >= self._config.checkpoint_bytes // 8:
                save_checkpoint(self._disk, self._paths.checkpoint, self.checkpoint())
        except LakebedError as error:
            _log.warning("%s: closed without a last sync: %s", self._paths.name, error)
        self.abandon()
        self._end_file.close()

    def abandon(self) -> None:
        """Close the files, and nothing more."""
        self._filler.end()
        self._files.close()

    # Appending.

    def _try_to_commit(self, appends: Sequence[Append], *, is_alone: bool) -> Sequence[object]:
        """What was done before them in the same commit was done, whatever becomes of these."""
        try:
            return self._commit_appends(appends) if appends else ()
        except DiskError:
            raise
        except LakebedError as error:
            if is_alone:
                raise
            return [error] * len(appends)

    def _commit_appends(self, appends: Sequence[Append]) -> Sequence[object]:
        plan = plan_commit(
            appends,
            next_offset=self._next_offset,
            durable_offset=self._state.durable_offset,
            producers=self._producers,
            now_ms=self._now_ms(),
        )
        if plan.size:
            if plan.next_offset > OFFSET_MAX:
                raise WriteFailed("append", self._paths.folder, why="all offsets are used up")
            self._reserve.check(plan.size)
            if self._is_roll_due(plan):
                self._roll()
            self._write(plan)
        if plan.is_sync_wanted and self._unsynced_since_ns is not None:
            self._sync()
        return plan.answers

    def _is_roll_due(self, plan: CommitPlan) -> bool:
        active = self._active
        is_full = active.end + plan.size > self._config.segment_bytes
        is_due = is_full or self._is_rolling or not active.may_take(plan.next_offset)
        return is_due and not active.is_empty

    def _write(self, plan: CommitPlan) -> None:
        batch = keratin_batch(
            plan.payloads,
            plan.headers,
            offsets=plan.offsets,
            timestamps_ms=plan.timestamps_ms,
            flags=plan.flags,
            capacity=plan.size,
        )
        assert len(batch.positions) == len(plan.payloads), "records without room"
        chunks = [cast("Buffer", batch)]  # encoded on their way to the disk
        tail = self._files.tail
        if self._filler.reach(tail.end + batch.size):
            self._callbacks.on_upkeep()
        if plan.is_sync_wanted:
            tail.commit(chunks)
            self._filler.check()
        else:
            tail.write(chunks)
            if self._unsynced_since_ns is None:
                self._unsynced_since_ns = self._clock.monotonic_ns()
                self._callbacks.on_unsynced()
        self._active.add(
            positions=batch.positions,
            offsets=plan.record_offsets(),
            timestamps_ms=plan.timestamps_ms,
            size=batch.size,
            next_offset=plan.next_offset,
        )
        self._next_offset = plan.next_offset
        has_first_producer = bool(plan.changed) and not self.producer_count
        self._producers.update(plan.changed)
        self._files.add_to_indexes()
        if self.is_checkpoint_due or has_first_producer:
            self._callbacks.on_upkeep()
        if plan.is_sync_wanted:
            self._publish_durable()

    def _sync(self) -> None:
        self._files.tail.sync()
        self._filler.check()
        self._publish_durable()

    def _publish_durable(self) -> None:
        """Everything that was written is durable now."""
        self._unsynced_since_ns = None
        self._end_file.publish(
            base_offset=self._active.base_offset,
            position=self._active.end,
            next_offset=self._next_offset,
        )
        self._state.move_durable(position=self._active.end, offset=self._next_offset)

    # Segments.

    def _roll(self) -> None:
        """Seal the active segment and go on in a new one.

        Refused half-way, it is done again before anything else is written: the new one may be on
        the disk already, and the old one ends where that begins.
        """
        old = self._active
        self._is_rolling = True
        self._filler.end()
        index_bytes = self._files.seal()
        self._filler.check()
        if self._unsynced_since_ns is not None:
            self._files.tail.sync()
            self._publish_durable()
        new = ActiveSegment(
            base_offset=self._next_offset,
            created_ms=self._now_ms(),
            index_stride_bytes=self._config.index_stride_bytes,
            next_offset=self._next_offset,
        )
        self._save_producers(new.base_offset)
        create_segment(self._disk, self._paths, new)
        files = SegmentFiles(self._disk, self._paths, new)
        self._files.close()
        self._files = files
        self._active = new
        self._is_rolling = False
        self._index_bytes[old.base_offset] = index_bytes
        sealed = PartitionSegment(
            base_offset=old.base_offset,
            next_offset=old.next_offset,
            path=self._paths.segment(old.base_offset, SegmentFile.LOG),
            end=old.end,
            is_sealed=True,
        )
        self._plan_checkpoint(RECORDS_START)
        self._state.begin(new, sealed)
        self._filler.begin(base_offset=new.base_offset, end=new.end)
        self._publish_durable()
        self._try_to_write_manifest()
        with contextlib.suppress(LakebedError):  # the new one has it all
            self._disk.unlink(self._paths.segment(old.base_offset, SegmentFile.PRODUCERS))
        event(_log, "segment_sealed", partition=self._paths.name, base_offset=old.base_offset)
        self._callbacks.on_sealed()

    def roll(self) -> bool:
        """Seal the active segment now; False if it has no records."""
        if self._active.is_empty:
            return False
        self._roll()
        return True

    # Producers.

    @property
    def producer_count(self) -> int:
        """How many are remembered; for looking alone."""
        return len(self._producers)

    def forget_producers(self) -> int:
        """Let go of those that were quiet too long, in the next checkpoint too; how many."""
        count = self._forget_producers()
        if count:
            self._checkpoint_due_end = 0
        return count

    def _forget_producers(self) -> int:
        oldest_ms = self._now_ms() - self._config.producer_ms
        return self._producers.forget_before(oldest_ms, kept=self._kept_producers)

    # What opening need not read again.

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether much was written since the last one; for looking alone."""
        return not self._active.is_empty and self._active.end >= self._checkpoint_due_end

    def checkpoint(self) -> Checkpoint:
        """The active segment and all producers as they are now, durable."""
        fork_guard.check(self._process, self._paths.checkpoint)
        if self._unsynced_since_ns is not None:
            self._sync()
        checkpoint = checkpoint_of(self._active, list(self._producers.all_runs()))
        self._plan_checkpoint(checkpoint.position, size=checkpoint.size)
        return checkpoint

    def _plan_checkpoint(self, end: int, *, size: int = 0) -> None:
        """The one after that: where the log has grown enough for one of that size."""
        self._checkpoint_end = end
        growth = max(self._config.checkpoint_bytes, _CHECKPOINT_SHARE * size)
        self._checkpoint_due_end = end + growth

    # What a change does to append by itself: see `idempotent_commits`.

    def runs_of(self, producer_id: int) -> Runs:
        """What it wrote so far."""
        return self._producers.runs_of(producer_id)

    def keep_producer(self, producer_id: int) -> Runs:
        """The same; and it is remembered until `drop_producer`."""
        self._kept_producers.add(producer_id)
        return self.runs_of(producer_id)

    def drop_producer(self, producer_id: int) -> None:
        """Nothing of it will be sent again."""
        self._kept_producers.discard(producer_id)
        self._producers.forget(producer_id)

    def make_room(self, size: int) -> None:
        """Begin a new segment, if so much fits into that one and not into the active one."""
        is_short = self._active.end + size > self._config.segment_bytes
        if is_short and RECORDS_START + size <= self._config.segment_bytes:
            self.roll()

    def append(self, appends: Sequence[Append], *, is_durable: bool) -> None:
        """Nobody sees them before they are durable: with the next sync, if not now."""
        for answer in self._commit_appends([*appends, SYNC] if is_durable else appends):
            if isinstance(answer, LakebedError):
                raise answer

    def replace_segments(
        self, sealed: Sequence[PartitionSegment], *, start_offset: int, index_bytes: dict[int, int]
    ) -> None:
        """Another list of sealed segments: fewer, or smaller ones. Durable when it returns."""
        self._index_bytes = {
            info.base_offset: index_bytes.get(
                info.base_offset, self._index_bytes.get(info.base_offset, 0)
            )
            for info in sealed
        }
        self._state.replace_sealed(sealed, start_offset=start_offset)
        self.write_manifest()

    def exchange(self, rewritten: RewrittenSegment) -> None:
        """One sealed segment's file was replaced; durable when it returns."""
        info = rewritten.info
        sealed = [
            info if one.base_offset == info.base_offset else one for one in self._state.sealed
        ]
        self.replace_segments(
            sealed,
            start_offset=self._state.start_offset(),
            index_bytes={info.base_offset: rewritten.index_bytes},
        )

    def remove_before(self, offset: int) -> list[PartitionSegment]:
        """The partition begins at `offset` from now on; the segments that went with it."""
        start_offset = max(offset, self._state.start_offset())
        sealed = self._state.sealed
        gone = [info for info in sealed if info.next_offset <= start_offset]
        kept = [info for info in sealed if info.next_offset > start_offset]
        if start_offset > self._state.start_offset() or gone:
            # First the manifest: a file that is left behind is below the start, and removed by
            # the next opening.
            self._write_manifest(kept, start_offset=start_offset)
            self._state.replace_sealed(kept, start_offset=start_offset)
            for info in gone:
                del self._index_bytes[info.base_offset]
                try:
                    remove_segment(self._disk, self._paths, info.base_offset)
                except LakebedError as error:
                    _log.warning("%s: left behind for now: %s", info.path, error)
        return gone

    def write_manifest(self) -> None:
        self._write_manifest(self._state.sealed, start_offset=self._state.start_offset())

    def _write_manifest(self, sealed: Sequence[PartitionSegment], *, start_offset: int) -> None:
        fork_guard.check(
            self._process, self._paths.manifest
        )  # by its name a child could replace it
        replace_manifest(
            self._disk,
            self._paths.manifest,
            PartitionManifest(
                created_ms=self._created_ms,
                segment_bytes_max=self._config.segment_bytes,
                index_stride_bytes=self._config.index_stride_bytes,
                open_segments_max=self._config.open_segments_max,
                active_base_offset=self._active.base_offset,
                next_offset=self._state.durable_offset,
                start_offset=start_offset,
                segments=tuple(map(self._listed, sealed)),
            ),
        )
        self._manifest_due_ns = self._clock.monotonic_ns() + self._config.manifest_ms * NS_PER_MS

    def _listed(self, info: PartitionSegment) -> ManifestSegment:
        index_bytes = self._index_bytes[info.base_offset]
        return ManifestSegment(info.base_offset, info.next_offset - 1, info.end, index_bytes)

    def _try_to_write_manifest(self) -> None:
        """It is a shortcut: that it could not be written is no reason to refuse messages."""
        try:
            self.write_manifest()
        except LakebedError as error:
            self._manifest_due_ns = (
                self._clock.monotonic_ns() + self._config.manifest_ms * NS_PER_MS
            )
            _log.warning("%s: the manifest was not written: %s", self._paths.name, error)

    def _save_producers(self, base_offset: int) -> None:
        """What they wrote so far, so that recovery need not look before the next segment."""
        self._forget_producers()
        data = encode_producers(self._producers.all_runs(), base_offset=base_offset)
        path = self._paths.segment(base_offset, SegmentFile.PRODUCERS)
        replace_atomically(self._disk, path, data)

    def _change(self, change: Change) -> object:
        try:
            return change.apply(self)
        except DiskError:
            raise
        except LakebedError as error:
            return error

    def _now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS
