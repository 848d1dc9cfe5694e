"""The writer of a partition: commits queued appends.

No other code adds messages to an open partition, or changes its list of segments.

Invariants:
- offsets are assigned in the order of the queue, and only to messages that were written;
- an append with `Ack.AFTER_FSYNC` is answered after the sync that covers it; the high watermark and
  the end published to other processes move only after a sync;
- a segment is sealed and durable, with complete indexes, before any record is written to the next
  segment; the manifest is written afterwards, and recovery does not depend on it;
- the list of segments is changed only here, so nothing else writes the manifest.

What may be lost in a power cut: messages with `Ack.AFTER_WRITE`, which are acknowledged before they
are synced.
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
_CHECKPOINT_SHARE = 4  # the log grows by this multiple of a checkpoint's size before the next one


class WriterCallbacks(NamedTuple):
    """Functions that the writer calls on certain events. They may only wake other tasks."""

    on_sealed: Callable[[], None]  # a segment was sealed
    on_upkeep: Callable[[], None]  # there is work for the upkeep
    on_unsynced: Callable[[], None]  # a sync is due within `sync_ms_max`


class PartitionWriter:
    """Writes one partition. Only one thread at a time, the leader of a commit, may use it."""

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
        """Opens the files of the active segment, and continues from the recovered state."""
        self._disk = disk
        self._paths = paths
        self._clock = runner.clock
        self._config = config
        self._state = state
        self._active = recovered.active
        self._producers = recovered.producers
        self._kept_producers: set[int] = set()  # never forgotten for their age
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
        self._is_rolling = False  # True from the start of `_roll` until it succeeds
        self._is_closed = False
        self._process = fork_guard.generation()

    @property
    def unsynced_since_ns(self) -> int | None:
        """When the oldest record that is not synced was written, by the monotonic clock.

        None if all records are synced.
        """
        return self._unsynced_since_ns

    @property
    def next_offset(self) -> int:
        return self._next_offset

    @property
    def active_bytes(self) -> int:
        """The size of the active segment in bytes. Other threads may see an outdated value."""
        return self._active.end

    def start(self) -> None:
        """Publishes the manifest and the durable end. Must be called before the first append."""
        self.write_manifest()
        self._end_file.start(
            base_offset=self._active.base_offset,
            position=self._active.end,
            next_offset=self._next_offset,
        )
        self._filler.begin(base_offset=self._active.base_offset, end=self._active.end)

    def commit(self, items: Sequence[Work]) -> Sequence[object]:
        """Runs queued appends and changes in order; returns one answer per item. See `Sink`."""
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
        """Makes all messages and the manifest durable, and closes the files. Idempotent.

        If that fails, the error is logged, not raised. Afterwards another writer may open the
        partition.
        """
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
            _log.warning("%s: closing did not make everything durable: %s", self._paths.name, error)
        self.abandon()
        self._end_file.close()

    def abandon(self) -> None:
        """Closes the files of the active segment without making anything durable."""
        self._filler.end()
        self._files.close()

    # Appending.

    def _try_to_commit(self, appends: Sequence[Append], *, is_alone: bool) -> Sequence[object]:
        """Commits the appends; if that fails, returns the error as the answer to each of them.

        Raises the error instead if it is a `DiskError`, or if `is_alone`, which means that this
        commit has no other answers.
        """
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
        assert len(batch.positions) == len(plan.payloads), "the plan's size must fit all records"
        chunks = [cast("Buffer", batch)]  # encoded while they are written
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
        """Moves the durable end to the end of the written records, for all readers."""
        self._unsynced_since_ns = None
        self._end_file.publish(
            base_offset=self._active.base_offset,
            position=self._active.end,
            next_offset=self._next_offset,
        )
        self._state.move_durable(position=self._active.end, offset=self._next_offset)

    # Segments.

    def _roll(self) -> None:
        """Seals the active segment and continues in a new one.

        If this fails half-way, it must be repeated before anything else is written: the new segment
        may already be on the disk, and the old one must end where the new one begins.
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
        with contextlib.suppress(LakebedError):  # the new segment's file supersedes it
            self._disk.unlink(self._paths.segment(old.base_offset, SegmentFile.PRODUCERS))
        event(_log, "segment_sealed", partition=self._paths.name, base_offset=old.base_offset)
        self._callbacks.on_sealed()

    def roll(self) -> bool:
        """Seals the active segment and begins a new one.

        Returns False, and changes nothing, if the active segment has no records.
        """
        if self._active.is_empty:
            return False
        self._roll()
        return True

    # Producers.

    @property
    def producer_count(self) -> int:
        """The number of remembered producers. Other threads may see an outdated value."""
        return len(self._producers)

    def forget_producers(self) -> int:
        """Forgets the producers that wrote nothing for `producer_ms`; returns how many it forgot.

        If more than `PRODUCERS_MAX` are known, also forgets those that have been quiet for the
        longest time. If it forgot any, a checkpoint becomes due.
        """
        count = self._forget_producers()
        if count:
            self._checkpoint_due_end = 0
        return count

    def _forget_producers(self) -> int:
        oldest_ms = self._now_ms() - self._config.producer_ms
        return self._producers.forget_before(oldest_ms, kept=self._kept_producers)

    # Checkpoints.

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether enough was written since the last checkpoint, or producers were forgotten.

        False if the active segment has no records. Other threads may see an outdated value.
        """
        return not self._active.is_empty and self._active.end >= self._checkpoint_due_end

    def checkpoint(self) -> Checkpoint:
        """Syncs the log, and returns a checkpoint of the active segment and all producers."""
        fork_guard.check(self._process, self._paths.checkpoint)
        if self._unsynced_since_ns is not None:
            self._sync()
        checkpoint = checkpoint_of(self._active, list(self._producers.all_runs()))
        self._plan_checkpoint(checkpoint.position, size=checkpoint.size)
        return checkpoint

    def _plan_checkpoint(self, end: int, *, size: int = 0) -> None:
        """Sets the position at which the next checkpoint is due.

        `end` is the position that the last checkpoint covers, and `size` is the size of its file.
        """
        self._checkpoint_end = end
        growth = max(self._config.checkpoint_bytes, _CHECKPOINT_SHARE * size)
        self._checkpoint_due_end = end + growth

    # For changes that append: see `idempotent_commits`.

    def runs_of(self, producer_id: int) -> Runs:
        """Returns the last runs of a producer; none if the producer is not known."""
        return self._producers.runs_of(producer_id)

    def keep_producer(self, producer_id: int) -> Runs:
        """Returns a producer's last runs, and keeps them until `drop_producer` is called."""
        self._kept_producers.add(producer_id)
        return self.runs_of(producer_id)

    def drop_producer(self, producer_id: int) -> None:
        """Forgets a producer that will not send anything again."""
        self._kept_producers.discard(producer_id)
        self._producers.forget(producer_id)

    def make_room(self, size: int) -> None:
        """Begins a new segment if that lets `size` bytes fit into one segment.

        Does nothing if they fit into the active segment, or into no segment.
        """
        is_short = self._active.end + size > self._config.segment_bytes
        if is_short and RECORDS_START + size <= self._config.segment_bytes:
            self.roll()

    def append(self, appends: Sequence[Append], *, is_durable: bool) -> None:
        """Writes appends, and syncs them if `is_durable`.

        Readers do not see the messages before a sync. Raises if an append is refused; the others
        are written nevertheless.
        """
        for answer in self._commit_appends([*appends, SYNC] if is_durable else appends):
            if isinstance(answer, LakebedError):
                raise answer

    def replace_segments(
        self, sealed: Sequence[PartitionSegment], *, start_offset: int, index_bytes: dict[int, int]
    ) -> None:
        """Durably replaces the list of sealed segments, after some were removed or rewritten.

        `index_bytes` holds the size of the `.idx` of each changed segment, by base offset.
        """
        self._index_bytes = {
            info.base_offset: index_bytes.get(
                info.base_offset, self._index_bytes.get(info.base_offset, 0)
            )
            for info in sealed
        }
        self._state.replace_sealed(sealed, start_offset=start_offset)
        self.write_manifest()

    def exchange(self, rewritten: RewrittenSegment) -> None:
        """Durably replaces the entry of a rewritten segment in the list of segments."""
        info = rewritten.info
        sealed = [
            info if segment.base_offset == info.base_offset else segment
            for segment in self._state.sealed
        ]
        self.replace_segments(
            sealed,
            start_offset=self._state.start_offset(),
            index_bytes={info.base_offset: rewritten.index_bytes},
        )

    def remove_before(self, offset: int) -> list[PartitionSegment]:
        """Moves the start of the partition forward to `offset`, and removes the segments before it.

        Returns the removed segments. A file that cannot be removed now is removed when the
        partition is opened.
        """
        start_offset = max(offset, self._state.start_offset())
        sealed = self._state.sealed
        removed = [info for info in sealed if info.next_offset <= start_offset]
        kept = [info for info in sealed if info.next_offset > start_offset]
        if start_offset > self._state.start_offset() or removed:
            # The manifest is written first: a file that remains is then below the start offset,
            # and the next opening removes it.
            self._write_manifest(kept, start_offset=start_offset)
            self._state.replace_sealed(kept, start_offset=start_offset)
            for info in removed:
                del self._index_bytes[info.base_offset]
                try:
                    remove_segment(self._disk, self._paths, info.base_offset)
                except LakebedError as error:
                    _log.warning("%s: could not be removed yet: %s", info.path, error)
        return removed

    def write_manifest(self) -> None:
        self._write_manifest(self._state.sealed, start_offset=self._state.start_offset())

    def _write_manifest(self, sealed: Sequence[PartitionSegment], *, start_offset: int) -> None:
        fork_guard.check(
            self._process, self._paths.manifest
        )  # a forked child could still replace the file by its name
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
        """Writes the manifest. Errors are only logged: recovery works with an old manifest."""
        try:
            self.write_manifest()
        except LakebedError as error:
            self._manifest_due_ns = (
                self._clock.monotonic_ns() + self._config.manifest_ms * NS_PER_MS
            )
            _log.warning("%s: the manifest could not be written: %s", self._paths.name, error)

    def _save_producers(self, base_offset: int) -> None:
        """Saves the producers' runs, so that recovery need not scan earlier segments for them."""
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
