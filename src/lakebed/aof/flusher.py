"""Makes a log's appended bytes durable, and handles flushes that fail.

Chunks of records are queued in the order of the records' ids. After a temporary failure, such as a
full disk, the flush is retried with growing delays, and appends are refused until it succeeds.
After a disk error, such as a failed sync, the log accepts no writes until it is opened again.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from random import Random

from lakebed.aof.context import LogContext
from lakebed.aof.durable_end import DurableEndFile
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment import Chunk, Segment
from lakebed.aof.spares import Spares
from lakebed.aof.writer import SegmentSink
from lakebed.base.clock import NS_PER_S
from lakebed.base.commit import Barrier, SpaceReserve, Ticket
from lakebed.base.errors import DiskError, LakebedError, NotFound, RetryError
from lakebed.base.events import RareEvent
from lakebed.base.retry import Backoff, RetryPolicy

_log = logging.getLogger(__name__)


class Flusher:
    """Flushes the appended records of one log to disk. The log's mutex is not held during I/O."""

    def __init__(
        self,
        context: LogContext,
        spares: Spares,
        *,
        random: Random,
        writer_epoch: int,
        wake: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        disk, paths, config = context.disk, context.paths, context.config.flush
        self._state = context.state
        self._clock = context.clock
        self._metrics = context.metrics
        self._failed = RareEvent(
            _log, "flush_failed", level=logging.ERROR, clock=context.clock, every_ns=60 * NS_PER_S
        )
        self._backoff = Backoff(RetryPolicy(), random)
        self._wake = wake
        self._on_change = on_change
        self._sink = SegmentSink(
            disk,
            paths,
            spares,
            reserve=SpaceReserve(disk, paths.folder, reserve_bytes=config.reserve_bytes),
            on_durable=self._on_durable,
            on_failure=self._on_failure,
        )
        self._barrier: Barrier[Chunk, None] = Barrier(
            self._sink,
            name=paths.folder,
            runner=context.runner,
            wake=wake,
            config=config.commit_config(),
            counters=context.counters,
            on_room=on_change,  # called after `_on_durable`, when the queue has room again
        )
        self._end_file = DurableEndFile(disk, paths.durable_end, writer_epoch=writer_epoch)
        self._ticket: Ticket[None] | None = None  # guarded by the mutex, like the next field
        self._retry_at_ns = 0

    @property
    def failure(self) -> LakebedError | None:
        """The error that ended writing to the log, or None."""
        return self._state.failure or self._barrier.failure

    def start(self) -> None:
        """Publishes the durable end to other processes. Must be called once, before any append."""
        state = self._state
        self._end_file.start(
            segment_id=state.durable.segment_index,
            offset=state.durable.segment_offset,
            coordinator_watermark=state.coordinator_watermark,
        )

    def submit(self, chunk: Chunk) -> None:
        """Queues a chunk; raises `Busy` if the queue is full. The caller must hold the mutex."""
        self._ticket = self._barrier.submit(chunk, size=chunk.size, timeout=0)

    def flush(self, record_id: RecordId | None, timeout: float | None) -> None:
        """Waits until the record is durable; without an id, until all appended records are durable.

        Raises the same errors as `Aof.flush`.
        """
        state = self._state
        with state.mutex:
            if record_id is not None and record_id >= state.appended_end():
                raise NotFound(f"{state.name}: record {record_id} has not been appended")
            if state.is_durable(record_id):
                return
            if state.failure is not None:
                state.check_writable()
        self.flush_queued(timeout)

    def flush_queued(self, timeout: float | None) -> None:
        """Waits until all records queued so far are durable; raises the error if the flush fails.

        Raises `OutcomeUnknown` or `Busy` if `timeout` seconds pass first.
        """
        with self._state.mutex:
            ticket = None if self._state.error is not None else self._ticket
        started_ns = self._clock.monotonic_ns()
        if ticket is None or ticket.is_done:
            self._barrier.commit(self._empty_chunk(), size=0, timeout=timeout)
        else:
            ticket.wait(timeout)
        self._metrics.flush_latency_ns.observe(self._clock.monotonic_ns() - started_ns)

    @property
    def is_held_up(self) -> bool:
        """Whether the last flush failed and the time for its retry has not come yet."""
        is_later = self._retry_at_ns > self._clock.monotonic_ns()
        return self._state.error is not None and is_later

    def step(self) -> int | None:
        """Flushes the queued chunks that are due, and retries a failed flush.

        Returns the nanoseconds until the next step, or None if none is needed.
        """
        if self._state.error is not None:
            delay_ns = self._retry_at_ns - self._clock.monotonic_ns()
            if delay_ns > 0:
                return delay_ns
            with contextlib.suppress(LakebedError):
                self._barrier.commit(self._empty_chunk(), size=0)
            if self._state.error is not None:
                return max(1, self._retry_at_ns - self._clock.monotonic_ns())
        return self._barrier.step()

    def close(self) -> None:
        """Flushes the queued chunks and closes the files.

        Chunks that cannot be written are lost; the files stay consistent.
        """
        self._barrier.close()
        if self._state.error is not None:
            with contextlib.suppress(LakebedError):
                self._sink.commit(())
        self._publish(self._state.durable)
        self._end_file.close()
        self._sink.close()

    def _empty_chunk(self) -> Chunk:
        """Returns a chunk without bytes.

        Committing it makes `SegmentSink` write the chunks that earlier commits could not write.
        """
        with self._state.mutex:
            return Chunk(self._state.chain.active, 0, b"", None, 0)

    def _publish(self, durable: RecordId) -> None:
        self._end_file.publish(
            segment_id=durable.segment_index,
            offset=durable.segment_offset,
            coordinator_watermark=self._state.coordinator_watermark,
        )

    def _on_durable(self, segment: Segment, end: int) -> None:
        """Moves the durable end, publishes it and wakes waiters.

        The committing thread calls this after it has synced the segment's bytes up to `end`.
        """
        self._metrics.flush_operations.add()
        self._metrics.durable_bytes.add(end - segment.durable)
        state = self._state
        with state.mutex:
            state.chain.note_durable(segment, end)
            state.durable = durable = segment.position(end)
            had_failed, state.error = state.error is not None, None
            if had_failed:
                self._backoff.reset()
                self._failed.reset()
        self._publish(durable)
        self._on_change()
        if had_failed:
            self._wake()  # `step` sleeps until the retry; chunks were queued meanwhile

    def _on_failure(self, segment: Segment, error: LakebedError) -> None:
        """Schedules a retry after a `RetryError`; after a `DiskError`, ends writing to the log.

        The committing thread calls this when it could not write chunks to the segment.
        """
        self._metrics.flush_failures.add()
        self._failed.note(log=self._state.name, error=error)
        with self._state.mutex:
            segment.flush_failure = True
            if isinstance(error, RetryError):
                self._state.error = error
                self._retry_at_ns = self._clock.monotonic_ns() + self._backoff.next_ns()
            elif isinstance(error, DiskError):
                self._state.failure, self._state.error = error, None  # the flush is not retried
        self._on_change()
        self._wake()
