"""One partition that is open for writing: its writer, its reader and its upkeep.

    partition.append_batch([b"..."]).result()      # (base offset, count), when acknowledged
    for message in partition.scan_from(0): ...

The caller that opens a partition must hold the lock of its store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from lakebed.base.clock import NS_PER_MS
from lakebed.base.commit import Barrier, Linger, Ticket
from lakebed.base.counters import Counters
from lakebed.base.damage_ledger import DamageLedger, DamageRecord, Loss
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.layout import Buffer
from lakebed.base.runner import Mutex, Runner
from lakebed.base.zero_fill import SpareBudget
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.append_requests import build_append, build_batch_append
from lakebed.keratin.checkpoint import Checkpoint, save_checkpoint
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.filler import Filler
from lakebed.keratin.follower import Follower
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.idempotent_commits import IdempotentCommits
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.paths import PartitionPaths
from lakebed.keratin.reader import FetchedRecords, PartitionReader
from lakebed.keratin.recovery import RecoveredPartition, recover
from lakebed.keratin.repair import repair_segment
from lakebed.keratin.segment import Numbers
from lakebed.keratin.segment_rewrite import RewrittenSegment
from lakebed.keratin.state import PartitionState
from lakebed.keratin.upkeep import IsPinned, Upkeep
from lakebed.keratin.view import PartitionSegment
from lakebed.keratin.writer import PartitionWriter, WriterCallbacks
from lakebed.keratin.writer_requests import SYNC, Append, Appended, Change, Work

_log = logging.getLogger(__name__)


class Partition:
    """A partition that is open for writing. Thread-safe. Implements `PartitionView`."""

    def __init__(
        self,
        disk: Disk,
        paths: PartitionPaths,
        runner: Runner,
        *,
        config: TopicConfig,
        wake: Callable[[], None],
        wake_upkeep: Callable[[], None],
        spare_budget: SpareBudget,
        is_pinned: IsPinned | None = None,
        pin_mutex: Mutex | None = None,
        damage: DamageLedger | None = None,
    ) -> None:
        """Opens the partition, recovers it after a crash, and repairs damaged segments.

        An interrupted commit is completed later, by `commits.resume`. `wake` schedules
        `flush_step`, and `wake_upkeep` schedules `upkeep_step`. `is_pinned` returns whether
        retention and compaction must leave a segment alone; see `Topics` for `pin_mutex`. Losses
        are recorded in `damage` before the repair.
        """
        self._damage = damage
        self._disk = disk
        self._runner = runner
        self._clock = runner.clock
        self.paths = paths
        self.number = paths.number
        self.config = config
        self.counters = Counters()
        started_ns = self._clock.monotonic_ns()
        paths.ensure(disk)
        stride = config.index_stride_bytes
        recovered = recover(
            disk,
            paths,
            now_ms=self.now_ms(),
            index_stride_bytes=stride,
            record=None if damage is None else damage.record,
        )
        self.problems: Sequence[str] = tuple(recovered.problems)
        self._state = PartitionState(
            paths,
            runner,
            sealed=recovered.sealed,
            active=recovered.active,
            next_offset=recovered.next_offset,
            start_offset=recovered.start_offset,
        )
        self._filler = filler = Filler(
            disk, paths, runner, config=config, budget=spare_budget, counters=self.counters
        )
        self._upkeep = Upkeep(
            self, filler, is_pinned=is_pinned, pin_mutex=pin_mutex or runner.mutex()
        )
        self._wake_upkeep = wake_upkeep
        callbacks = WriterCallbacks(
            on_sealed=self._on_sealed, on_upkeep=wake_upkeep, on_unsynced=wake
        )
        self._writer = PartitionWriter(
            disk,
            paths,
            runner,
            recovered,
            config=config,
            state=self._state,
            filler=filler,
            callbacks=callbacks,
        )
        self._start_writer(recovered)
        commit_config = config.commit_config()
        self._queue_bytes_max = commit_config.queue_bytes_max
        self._barrier: Barrier[Work, object] = Barrier(
            self._writer,
            name=paths.name,
            runner=runner,
            wake=wake,
            config=commit_config,
            linger=Linger(delay_ms_max=config.linger_ms_max),
            counters=self.counters,
        )
        self._reader = PartitionReader(self, handles_max=config.open_segments_max)
        self.commits = IdempotentCommits(self)
        self._log_opened(recovered, self._clock.monotonic_ns() - started_ns)

    def _start_writer(self, recovered: RecoveredPartition) -> None:
        try:
            for info in recovered.damaged:
                self._repair(info)
            self._writer.start()
        except BaseException:
            self._writer.abandon()
            raise

    def _log_opened(self, recovered: RecoveredPartition, duration_ns: int) -> None:
        event(
            _log,
            "partition_opened",
            partition=self.name,
            segments=len(recovered.sealed) + 1,
            scanned=recovered.scanned_count,
            torn_bytes=recovered.torn_bytes,
            problems=len(recovered.problems),
            duration_ns=duration_ns,
        )

    # Properties.

    @property
    def name(self) -> str:
        return self.paths.name

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def runner(self) -> Runner:
        return self._runner

    @property
    def failure(self) -> LakebedError | None:
        """The error that makes the partition refuse writes until it is reopened, or None."""
        return self._barrier.failure or self._filler.failure

    def segments(self) -> Sequence[PartitionSegment]:
        return self._state.segments()

    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self._state.start_offset()

    def high_watermark(self) -> int:
        """The offset after the last durable message."""
        return self._state.durable_offset

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        return self._state.wait_beyond(offset, timeout)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._state.on_durable(callback)

    def now_ms(self) -> int:
        return self._clock.wall_ns() // NS_PER_MS

    # Writing.

    def append_batch(
        self,
        payloads: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
        timeout: float | None = None,
    ) -> AppendFuture:
        """Queues messages, which get consecutive offsets, and returns the future of their append.

        A payload of None deletes the message's key. `producer` holds the sequence of the first
        message; with a producer, messages that are already in the log are not appended again. This
        call waits only for room in the queue, and raises `Busy` after `timeout` seconds.
        """
        append = self.prepare(
            payloads,
            keys=keys,
            headers=headers,
            timestamps_ms=timestamps_ms,
            producer=producer,
            not_before_ms=not_before_ms,
            ack=ack,
        )
        return AppendFuture(self.submit(append, timeout=timeout), partition=self.number)

    def prepare(
        self,
        payloads: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        timestamps_ms: Numbers | None = None,
        producer: Producer | None = None,
        not_before_ms: int = 0,
        ack: Ack | None = None,
    ) -> Append:
        """Validates an append like `append_batch`, without queueing it; `submit` queues it."""
        return build_append(
            payloads,
            config=self.config,
            ack=ack or self.config.ack_level,
            timestamps_ms=self.now_ms() if timestamps_ms is None else timestamps_ms,
            keys=keys,
            headers=headers,
            producer=producer,
            not_before_ms=not_before_ms,
        )

    def append_copy(
        self, value: bytes | None, *, key: bytes | None, headers: Sequence[Header]
    ) -> AppendFuture:
        """Queues a copy of a message that another topic has accepted; returns the append's future.

        The size limits of this topic do not apply. The append is acknowledged after a sync, even if
        the topic's `ack` is `after_write`.
        """
        append = build_append(
            [value],
            config=None,
            ack=Ack.AFTER_FSYNC,
            timestamps_ms=self.now_ms(),
            keys=[key],
            headers=[headers],
        )
        return AppendFuture(self.submit(append), partition=self.number)

    def append_record_batch(
        self, batch: Buffer, *, ack: Ack | None = None, timeout: float | None = None
    ) -> AppendFuture:
        """Queues one Kafka record batch, and returns the future of the append.

        The batch is appended as a whole or not at all. This call waits only for room in the queue,
        and raises `Busy` after `timeout` seconds.
        """
        ack = ack or self.config.ack_level
        append = build_batch_append(batch, config=self.config, ack=ack)
        return AppendFuture(self.submit(append, timeout=timeout), partition=self.number)

    def sync(self) -> None:
        """Makes all written messages durable, also those acknowledged without a sync."""
        self._barrier.commit(SYNC, size=0)

    def seal(self) -> bool:
        """Seals the active segment and begins a new one.

        Returns False, and changes nothing, if the active segment has no records.
        """
        return bool(self.change(lambda writer: writer.roll()))

    def truncate_before(self, before: int) -> int:
        """Moves the start of the partition to offset `before`, if that is after its current start.

        Earlier messages can no longer be read. Removes the sealed segments that have only earlier
        messages, and returns their number. A `before` after the high watermark counts as the high
        watermark.
        """
        if before < 0:
            raise InputError(f"{self.name}: offset {before}: must be 0 or more")
        offset = min(before, self.high_watermark())
        removed = self.change(lambda writer: writer.remove_before(offset))
        return len(cast("list[PartitionSegment]", removed))

    def change(self, apply: Callable[[PartitionWriter], object]) -> object:
        """Calls `apply` with the writer, between two commits, and returns its result."""
        return self._barrier.commit(Change(apply), size=0)

    def exchange(self, rewritten: RewrittenSegment) -> None:
        """Switches readers to the smaller file that has replaced the file of a sealed segment."""
        self.change(lambda writer: writer.exchange(rewritten))

    def _repair(self, info: PartitionSegment) -> None:
        """Saves the damaged bytes of a sealed segment, and rewrites the segment without them.

        Called while the partition is being opened. The loss is recorded in the damage ledger.
        """
        repaired = repair_segment(
            self._disk,
            self.paths,
            info,
            start_offset=self.start_offset(),
            index_stride_bytes=self.config.index_stride_bytes,
            created_ms=self.now_ms(),
            record=self.record_loss,
        )
        if repaired is not None:
            self._writer.exchange(repaired.rewritten)
            damages = ", ".join(map(str, repaired.damages))
            self.problems = (*self.problems, f"{info.path}: repaired: {damages}")
            _log.error("%s", self.problems[-1])

    def record_loss(self, *losses: Loss) -> None:
        """Records `losses` durably in the damage ledger; does nothing if there is no ledger."""
        if self._damage is not None:
            self._damage.record(*losses)

    def lost_offsets(self) -> Sequence[DamageRecord]:
        """Returns the recorded losses of messages, sorted by first offset.

        Losses that an operator has acknowledged are left out.
        """
        if self._damage is None:
            return ()
        return self._damage.ledger().lost_offsets(self.paths.topic, self.number)

    def submit(
        self, append: Append, *, timeout: float | None = None, is_awaited: bool = False
    ) -> Ticket[Appended]:
        """Queues a prepared append.

        `is_awaited` means that the caller is waiting for the result without blocking a thread. The
        commit then does not linger for further appends.
        """
        ticket = self._barrier.submit(
            append,
            size=min(append.size, self._queue_bytes_max),  # a larger copy takes the whole queue
            count=append.message_count,
            timeout=timeout,
            is_awaited=is_awaited,
        )
        return cast("Ticket[Appended]", ticket)  # what the writer returns for an append

    # Reading.

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Yields the messages from `offset` on, up to `max_bytes` or `max_messages` if given.

        See `PartitionReader.scan_from`.
        """
        return self._reader.scan_from(offset, max_bytes=max_bytes, max_messages=max_messages)

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """Yields the messages of `[start, end)` in batches; by default all messages.

        See `PartitionReader.read_batches`.
        """
        return self._reader.read_batches(
            start,
            end,
            batch_bytes_max=batch_bytes_max,
            skip_damage=skip_damage,
            on_skipped=on_skipped,
        )

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """Yields the messages with offsets in `[start, end)`; by default all messages."""
        return self._reader.read(start, end, skip_damage=skip_damage)

    def follow(self, start: int | None = None) -> Follower:
        """Returns an iterator over the messages from `start` on, which waits for new messages.

        If `start` is None, it begins with the oldest message.
        """
        return Follower(self, start)

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Returns the records from `offset` on as raw bytes, as they are stored in the log.

        Returns at most `max_bytes`, but at least one record if there is one. See
        `PartitionReader.fetch`.
        """
        return self._reader.fetch(offset, max_bytes)

    def get(self, offset: int) -> Message:
        return self._reader.get(offset)

    def offset_for_time(self, timestamp_ms: int) -> int:
        """Returns the offset of the first message whose timestamp is at least `timestamp_ms`.

        Returns the high watermark if there is no such message.
        """
        return self._reader.offset_for_time(timestamp_ms)

    # Upkeep.

    def flush_step(self) -> int | None:
        """Commits queued appends and syncs written messages when they are due.

        Returns the ns until the next step is due, or None if none is due.
        """
        delay_ns = self._barrier.step()
        since_ns = self._writer.unsynced_since_ns
        if since_ns is None:
            return delay_ns
        left_ns = since_ns + self.config.sync_ms_max * NS_PER_MS - self._clock.monotonic_ns()
        if left_ns <= 0:
            try:
                self.sync()
            except LakebedError as error:
                _log.warning(
                    "%s: sync failed, written messages are not durable: %s", self.name, error
                )
            return delay_ns
        return left_ns if delay_ns is None else min(left_ns, delay_ns)

    def _on_sealed(self) -> None:
        self._upkeep.note_sealed()
        self._wake_upkeep()

    def upkeep_step(self) -> int | None:
        """Runs retention and other background work.

        Returns the ns until the next step is due, or None if none is due.
        """
        return self._upkeep.step()

    @property
    def producer_count(self) -> int:
        """The number of producers that the partition remembers."""
        return self._writer.producer_count

    def forget_producers(self) -> int:
        """Forgets old producers and returns how many: see `PartitionWriter.forget_producers`."""
        return cast("int", self.change(lambda writer: writer.forget_producers()))

    def checkpoint_if_due(self) -> None:
        """Saves a checkpoint if one is due: see `PartitionWriter.is_checkpoint_due`.

        The state is copied between two commits, and is then written to disk while appends continue.
        Errors are only logged.
        """
        if self._writer.is_checkpoint_due:
            try:
                checkpoint = cast("Checkpoint", self.change(lambda writer: writer.checkpoint()))
                save_checkpoint(self._disk, self.paths.checkpoint, checkpoint)
            except LakebedError as error:
                _log.warning("%s: the checkpoint could not be saved: %s", self.name, error)

    def close(self) -> None:
        """Waits until the queued appends are committed or have failed, and closes every file.

        Syncs the messages that are not durable yet; if that fails, the error is only logged.
        Idempotent.
        """
        self.commits.close()
        self._barrier.close()
        self._state.close()
        self._reader.close()
        self._writer.close()
