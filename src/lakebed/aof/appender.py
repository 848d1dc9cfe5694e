"""Appends records: encodes them, assigns their ids and queues them for the next flush.

An append without a timeout never waits and does no I/O: if it would have to wait, it raises
`WouldBlock`, which names the reason. Records that do not fit in the active segment go to the next
segment, which can be started only after all segments before the active one are sealed.

Invariants:

- records are queued and get their ids in the same order, in one critical section of the log's
  mutex, and no id is assigned twice;
- every queued record is counted in its segment: arguments are checked before the record is queued,
  and if an append is interrupted after queueing and before counting, the log accepts no more
  writes;
- a batch may be split over several segments and flushes, but its records stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from lakebed.aof.change_waiter import ChangeWaiter
from lakebed.aof.context import LogContext
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.flusher import Flusher
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment import (
    FirstRecord,
    Numbers,
    RecordIds,
    fits_empty_segment,
    largest,
    payload_bytes_max,
)
from lakebed.aof.transitions import Transitions
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Busy, LakebedError, Poisoned, TooLarge
from lakebed.base.layout import Buffer
from lakebed.kernels import AofBatch

SET_BACK_NS_MAX = NS_PER_S
"""Automatic timestamps do not decrease when the clock is set back by at most this much. If the last
timestamp is further ahead of the clock than this, the next record takes the clock's time."""


class Appender:
    """Appends records to one log. Thread-safe.

    An append holds the log's mutex until its last record is queued, but not while it waits.
    """

    def __init__(
        self, context: LogContext, transitions: Transitions, flusher: Flusher, waiter: ChangeWaiter
    ) -> None:
        self._state = context.state
        self._clock = context.clock
        self._metrics = context.metrics
        self._segment_bytes = context.config.segment_bytes
        self._flush_bytes = context.config.flush.flush_bytes
        self._transitions = transitions
        self._flusher = flusher
        self._waiter = waiter

    def append(
        self, payloads: Sequence[Buffer], *, ext_ids: Numbers, timestamps: Numbers | None
    ) -> Sequence[RecordId]:
        """Appends records without waiting, and returns their ids; see `Aof.append_records`."""
        if not payloads:
            return ()
        started_ns = self._clock.monotonic_ns()
        parts: list[RecordIds] = []
        done = 0
        with self._state.mutex:
            stamps = self._stamp() if timestamps is None else timestamps
            try:
                while done < len(payloads):
                    parts.append(
                        self._append_some(
                            payloads[done:] if done else payloads,
                            timestamps=_from_index(stamps, done),
                            ext_ids=_from_index(ext_ids, done),
                            are_checked=bool(parts),
                        )
                    )
                    done += len(parts[-1])
            except WouldBlock as error:
                self._metrics.would_block[error.kind].add()
                error.record_ids = _joined(parts)
                raise
        self._metrics.append_latency_ns.observe(self._clock.monotonic_ns() - started_ns)
        return _joined(parts)

    def append_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int, timestamp: int | None
    ) -> RecordId:
        """Appends one record, waiting if necessary; see `Aof.append_record_with_timeout`."""
        started_ns = self._clock.monotonic_ns()
        deadline_ns = self._waiter.deadline_ns(timeout)
        while True:
            next_change = self._waiter.next_change()
            try:
                record_id = self.append([payload], ext_ids=ext_id, timestamps=timestamp)[0]
            except WouldBlock as error:
                if not self._waiter.wait(error.kind, next_change, deadline_ns):
                    raise
            else:
                now_ns = self._clock.monotonic_ns()
                self._metrics.admission_latency_ns.observe(now_ns - started_ns)
                return record_id

    def wait_for_segment(self, timeout: float | None) -> None:
        """Waits while the active segment is full and the next one cannot be started or requested.

        Also waits while flushes are failing, because appends are refused then. For the errors, see
        `Aof.wait_for_writable_segment`.
        """
        state = self._state
        deadline_ns = self._waiter.deadline_ns(timeout)
        while True:
            next_change = self._waiter.next_change()
            with state.mutex:
                state.check_writable()
                if state.error is not None:
                    refusal = self._flushes_fail(state.error)
                elif (
                    not state.is_tail_full
                    or self._transitions.may_roll
                    or self._transitions.is_asking_useful
                ):
                    return
                else:
                    reason = "the active segment is full, and no other can be started yet"
                    refusal = WouldBlock(BackpressureKind.ADMISSION, f"{state.name}: {reason}")
            if not self._waiter.wait(BackpressureKind.ROLLOVER, next_change, deadline_ns):
                raise refusal

    def _append_some(
        self,
        payloads: Sequence[Buffer],
        *,
        timestamps: Numbers,
        ext_ids: Numbers,
        are_checked: bool,
    ) -> RecordIds:
        """Appends the leading records that fit in the active segment, and returns their ids.

        Appends at most `flush_bytes` bytes, but at least one record: if the first record does not
        fit in the active segment, this first rolls over to the next segment. Before appending any
        record, raises `TooLarge` if one of the records does not fit in an empty segment;
        `are_checked` skips this check. The caller must hold the log's mutex.
        """
        state = self._state
        state.check_writable()
        if state.error is not None:
            raise self._flushes_fail(state.error)
        batch = self._encode(payloads, timestamps, ext_ids)
        if not are_checked:  # those that were encoded fit
            for payload in payloads[len(batch.offsets) :]:
                self._check_fits(payload)
        if not len(batch.offsets):
            self._transitions.roll()
            batch = self._encode(payloads, timestamps, ext_ids)
        segment = state.chain.active
        # These steps fail if the arguments are bad, so they come before the chunk is queued.
        first = FirstRecord(timestamp=_at(timestamps, 0), ext_id=_at(ext_ids, 0))
        max_timestamp = largest(timestamps, len(batch.offsets))
        chunk = segment.chunk(batch, first)
        if not segment.record_count:
            self._transitions.open(segment)
        try:
            self._flusher.submit(chunk)
            ids = segment.accept(batch, first, max_timestamp=max_timestamp)
        except Busy:
            raise WouldBlock(
                BackpressureKind.FLUSH, f"{state.name}: the queue of unflushed records is full"
            ) from None
        except BaseException as error:
            # The chunk is queued but not counted: the next append would get the same offset.
            if not isinstance(error, LakebedError):
                why = f"interrupted while records were being queued: {error!r}"
                state.failure = Poisoned("append", state.folder, why=why)
            raise
        self._metrics.appended_records.add(len(ids))
        self._metrics.appended_bytes.add(batch.size)
        return ids

    def _encode(
        self, payloads: Sequence[Buffer], timestamps: Numbers, ext_ids: Numbers
    ) -> AofBatch:
        """Encodes the leading payloads that fit in the active segment, up to `flush_bytes` bytes.

        If the first record is larger than `flush_bytes`, encodes it alone. The batch is empty if
        the first record does not fit in the segment.
        """
        segment, limit = self._state.chain.active, self._flush_bytes
        batch = segment.encode(payloads, timestamps=timestamps, ext_ids=ext_ids, limit=limit)
        if len(batch.offsets) or segment.room <= limit:
            return batch
        first = payloads[:1]
        return segment.encode(first, timestamps=_at(timestamps, 0), ext_ids=_at(ext_ids, 0))

    def _stamp(self) -> int:
        """Returns the current time as the timestamp of the next records.

        If the last timestamp is later than the current time by at most `SET_BACK_NS_MAX`, returns
        the last timestamp instead, so that timestamps do not fall when the clock is set back a
        little. The caller must hold the log's mutex.
        """
        state, now_ns = self._state, self._clock.wall_ns()
        if not now_ns < state.last_timestamp <= now_ns + SET_BACK_NS_MAX:
            state.last_timestamp = now_ns
        return state.last_timestamp

    def _flushes_fail(self, error: LakebedError) -> WouldBlock:
        return WouldBlock(
            BackpressureKind.FLUSH,
            f"{self._state.name}: flushes are failing, and appends are refused meanwhile: {error}",
        )

    def _check_fits(self, payload: Buffer) -> None:
        size = memoryview(payload).nbytes
        if not fits_empty_segment(size, self._segment_bytes):
            limit = payload_bytes_max(self._segment_bytes)
            raise TooLarge(f"{self._state.name}: the payload size in bytes", size=size, limit=limit)


def _from_index(numbers: Numbers, start: int) -> Numbers:
    return numbers if isinstance(numbers, int) or not start else numbers[start:]


def _at(numbers: Numbers, index: int) -> int:
    return numbers if isinstance(numbers, int) else numbers[index]


def _joined(parts: Sequence[RecordIds]) -> Sequence[RecordId]:
    return parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
