"""Seals segments: writes the footer, then updates the sealed pointer `current.sealed`.

Footer and pointer are durable before the log lists the segment as sealed. If the segment's file
cannot be opened, or after a `RetryError` (for example, the disk is full), a later maintenance step
retries. A `DiskError` while the footer or the pointer is written ends writing to the log, because
it is unknown which bytes reached the disk.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from lakebed.aof.change_waiter import ChangeWaiter
from lakebed.aof.context import LogContext
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.flusher import Flusher
from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.pointer import encode_pointer
from lakebed.aof.segment import Segment
from lakebed.aof.sparse_index import write_index
from lakebed.aof.transitions import Transitions
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import DiskError, LakebedError
from lakebed.base.events import event
from lakebed.base.files import File, replace_atomically

_log = logging.getLogger(__name__)


class Sealer:
    """Seals the segments of one log.

    Only the maintenance step may call `seal_next`; any thread may call `seal_current`.
    """

    def __init__(
        self,
        context: LogContext,
        transitions: Transitions,
        flusher: Flusher,
        waiter: ChangeWaiter,
        *,
        on_sealed: Callable[[], None],
    ) -> None:
        self._disk = context.disk
        self._paths = context.paths
        self._clock = context.clock
        self._metrics = context.metrics
        self._notifier = context.notifier
        self._state = context.state
        self._with_sparse_index = context.config.enable_sparse_index
        self._transitions = transitions
        self._flusher = flusher
        self._waiter = waiter
        self._on_sealed = on_sealed

    def seal_current(self, timeout: float | None) -> SegmentInfo | None:
        """Seals the active segment and waits for the seal; see `Aof.seal_current_segment`."""
        deadline_ns = self._waiter.deadline_ns(timeout)
        segment_id = self._hand_over(deadline_ns)
        while segment_id is not None:
            next_change = self._waiter.next_change()
            with self._state.mutex:
                for info in reversed(self._state.chain.sealed):
                    if info.segment_id == segment_id:
                        return info
                self._state.check_writable()
            if not self._waiter.wait(BackpressureKind.ROLLOVER, next_change, deadline_ns):
                raise self._not_in_time()
        return None

    def _hand_over(self, deadline_ns: int | None) -> int | None:
        """Waits until the log can roll over to a new segment, and rolls over.

        Returns the number of the segment that was active. If the active segment has no records,
        does not roll over and returns None.
        """
        state = self._state
        while True:
            next_change = self._waiter.next_change()
            with state.mutex:
                state.check_writable()
                if not state.chain.active.record_count:
                    return None
                segment_id = state.chain.active.name.segment_id
                try:
                    self._transitions.roll()
                except WouldBlock as error:
                    kind = error.kind
                else:
                    return segment_id
            if not self._waiter.wait(kind, next_change, deadline_ns):
                raise self._not_in_time()

    def _not_in_time(self) -> WouldBlock:
        return WouldBlock(
            BackpressureKind.ROLLOVER,
            f"{self._state.name}: the segment was not sealed before the timeout",
        )

    def seal_next(self) -> bool:
        """Seals the oldest segment that waits to be sealed, or flushes it if it is not durable yet.

        Returns whether the caller should call this again now.
        """
        state = self._state
        with state.mutex:
            if not state.chain.to_seal or state.failure is not None:
                return False
            segment = state.chain.to_seal[0]
            is_durable = segment.durable >= segment.end
            watermark = state.coordinator_watermark
        if not is_durable:
            if self._flusher.is_held_up:
                return False  # otherwise writes to a full disk would be retried without a pause
            with contextlib.suppress(LakebedError):
                self._flusher.flush_queued(None)
            return segment.durable >= segment.end
        with self._disk.open(self._paths.segment(segment.name), writable=True) as file:
            try:
                self._write_footer(file, segment, coordinator_watermark=watermark)
                with state.mutex:
                    info = self._transitions.finish(segment, coordinator_watermark=watermark)
            except DiskError as error:
                self._fail(error)
                return False
        if self._with_sparse_index:
            write_index(self._disk, info.path, segment_id=info.segment_id, end=segment.end)
        self._notify_sealed(segment)
        self._on_sealed()
        return True

    def _write_footer(self, file: File, segment: Segment, *, coordinator_watermark: int) -> None:
        """Writes and syncs the footer, and then replaces the sealed pointer.

        In this order the pointer never names an unsealed segment. All records of the segment must
        be durable. May be repeated after a `RetryError`.
        """
        footer = segment.footer(
            sealed_at=self._clock.wall_ns(), coordinator_watermark=coordinator_watermark
        )
        file.write_and_sync(segment.size - FOOTER_BYTES, [footer])
        pointer = encode_pointer(
            segment_id=segment.name.segment_id,
            durable_bytes=segment.end,
            coordinator_watermark=coordinator_watermark,
        )
        replace_atomically(self._disk, self._paths.pointer, pointer)

    def _fail(self, error: DiskError) -> None:
        self._metrics.metadata_retry_failures.add()
        event(_log, "seal_failed", level=logging.ERROR, log=self._state.name, error=error)
        with self._state.mutex:
            self._state.failure = error
        self._notifier.notify()

    def _notify_sealed(self, segment: Segment) -> None:
        self._metrics.segments_sealed.add()
        self._metrics.segment_bytes.observe(segment.end)
        event(
            _log,
            "segment_sealed",
            log=self._state.name,
            segment_id=segment.name.segment_id,
            durable_bytes=segment.end,
            record_count=segment.record_count,
        )
        self._notifier.notify()
