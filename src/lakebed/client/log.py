"""A log of a remote store and its follower: the remote forms of `lakebed.aof.log.Aof` and
`lakebed.aof.follower.Follower`.

Records are read as pages, or as batches decoded from the stored bytes of the segments, which the
client verifies again. One page or batch is in memory at a time, or one whole segment if it has the
interchange format. After a lost response, an append is not sent again, and the caller cannot know
whether the records were appended. Retention does not wait for remote followers; pin the segments to
keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.aof.errors import AWAITED, WouldBlock
from lakebed.aof.follower import RecordIterator
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import plan
from lakebed.aof.tiers.log_tiers import Residence
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.api import logs as wire
from lakebed.base.clock import Clock
from lakebed.base.errors import InputError, NotFound, OutcomeUnknown
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.client.caller import Caller
from lakebed.client.connection_pool import Interruption
from lakebed.client.followers import BATCH_BYTES, PollingIterator
from lakebed.client.long_wait import LongWait
from lakebed.client.message_appender import as_bytes, milliseconds
from lakebed.client.record_page import batches_of, records_of
from lakebed.client.segment_range import SegmentRange, fetch_range
from lakebed.keratin.segment import Numbers

PAGE_BYTES = 2 * MIB
PAGE_RECORDS = 100_000
_MS_PER_S = 1000


class RemoteTiers:
    """The tiers of a remote log. Thread-safe. To move segments between tiers, use
    `RemoteStore.maintenance`."""

    def __init__(self, caller: Caller, log: str) -> None:
        self._caller = caller
        self._names = {"log": log}

    def residency(self) -> list[Residence]:
        """Lists the segments and the tiers they are in."""
        return self._caller.call(wire.LOG_TIERS, self._names).segments


class RemoteLog:
    """A log of a remote store. Thread-safe; each iterator is for one thread."""

    def __init__(self, caller: Caller, description: LogDescription) -> None:
        self._caller = caller
        self.name = description.name
        self.stream_id = description.stream_id
        self.tiers = RemoteTiers(caller, description.name)
        self._names = {"log": description.name}

    # Appending.

    def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record and returns its id. The record is durable after a flush.

        The server does not wait: if the append would have to wait, raises `WouldBlock`, which
        states the reason.
        """
        return self.append_records([payload], ext_ids=ext_id, timestamps=timestamp)[0]

    def append_records(
        self,
        payloads: Sequence[Buffer],
        *,
        ext_ids: Numbers = 0,
        timestamps: Numbers | None = None,
    ) -> Sequence[RecordId]:
        """Appends many records and returns their ids. The records are durable after a flush.

        The server does not wait: if the append would have to wait, raises `WouldBlock`, whose
        `record_ids` are the ids of the first records, which were appended.
        """
        return self._append(payloads, ext_ids, timestamps, 0.0)

    def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Appends one record like `append_record`, but waits up to `timeout` seconds before it
        raises `WouldBlock`."""
        waiting = LongWait(self._caller.runner.clock, timeout)
        wait_ms = waiting.next_ms()
        while True:
            try:
                return self._append([payload], ext_id, timestamp, wait_ms / _MS_PER_S)[0]
            except WouldBlock as error:  # the record was not appended
                wait_ms = waiting.next_ms()
                if not wait_ms or error.kind not in AWAITED:
                    raise

    # Flushing and sealing.

    def flush(self, record_id: RecordId | None = None, *, timeout: float | None = None) -> None:
        """Waits until the record `record_id` is durable, or by default all records appended so far.

        If the server reports a `RetryError` (for example, the disk is full), or after an
        `OutcomeUnknown` (the timeout passed), the records are still queued: flush again, and do not
        append them again. By default, the wait has no limit.
        """
        number = None if record_id is None else int(record_id)
        waiting = LongWait(self._caller.runner.clock, timeout)
        wait_ms = waiting.next_ms()
        while True:
            wait_s = wait_ms / _MS_PER_S
            try:
                self._caller.call(
                    wire.FLUSH_LOG,
                    self._names,
                    body=wire.Flush(record_id=number, timeout_ms=wait_ms),
                    wait_s=wait_s,
                    busy_s=None if timeout is None else wait_s,
                )
            except OutcomeUnknown:
                wait_ms = waiting.next_ms()
                if not wait_ms:
                    raise
            else:
                return

    def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seals the active segment durably and returns its description; None if it has no records.

        Raises `WouldBlock` if this takes longer than `timeout` seconds (default and maximum: 60).
        """
        # Sent once: if the log has rolled over by now, another call would seal the next segment.
        body = wire.Seal(timeout_ms=milliseconds(timeout))
        sealed = self._caller.call(
            wire.SEAL_LOG, self._names, body=body, wait_s=timeout or 60.0, busy_s=timeout
        )
        return sealed.segment

    @property
    def coordinator_watermark(self) -> int:
        return self.describe().coordinator_watermark

    def set_coordinator_watermark(self, watermark: int) -> None:
        """Sets the coordinator watermark, a number that the application chooses and that only
        rises: a lower number is ignored.

        The watermark becomes durable when a segment is sealed or the log is closed, and is restored
        when the log is opened.
        """
        body = wire.WatermarkBody(watermark=watermark)
        self._caller.call(wire.SET_WATERMARK, self._names, body=body)

    # Reading.

    def get(self, record_id: RecordId) -> Record:
        """Reads one record. Raises `NotFound` if no durable record has that id."""
        record_id = RecordId(record_id)
        query = wire.ReadQuery(start=str(record_id), max_records=1)
        for record in records_of(self._caller.call(wire.READ_RECORDS, self._names, query=query)):
            if record.record_id == record_id:
                return record
        raise NotFound(
            f"{self.name}: there is no record {record_id}, or the record is not durable yet"
        )

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records of `[start, end)`, oldest first; by default over all of
        them."""
        pages = self._pages(start, end)
        return (record for page in pages for record in records_of(page))

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> Iterator[RecordBatch]:
        """Iterates over the durable records of `[start, end)` in columnar batches, oldest first.

        This is much faster than `read`. Raises `NotFound`, in this call or at the first batch, if
        a read cannot begin at `start`: its segment was removed, or it is inside a record or after
        the durable end.
        """
        from lakebed.client.log_segments import read_spans

        segments, durable_end = self.segments_and_end()
        first = None if start is None else RecordId(start)
        stop = None if end is None else RecordId(end)
        return read_spans(
            self,
            plan(segments, durable_end, start=first, end=stop),
            durable_end if stop is None else min(stop, durable_end),
            fetch_bytes=batch_bytes_max or PAGE_BYTES,
            runner=self._caller.runner,
            read_pages=lambda start, end: self._page_batches(self._pages(start, end)),
        )

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """Iterates over the durable records before `start` (by default the end), newest first."""
        page = self.page(start, backward=True)
        return self._backward(page)

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Returns the position of the first record whose timestamp is `timestamp_ns` or later; the
        durable end if there is none."""
        query = wire.SeekQuery(timestamp_ns=timestamp_ns)
        return RecordId(self._caller.call(wire.SEEK_LOG, self._names, query=query).record_id)

    def follow(self, start: RecordId | None = None) -> LogFollower:
        """Iterates over the records from `start` (by default the oldest) on, and waits for new
        records."""
        return LogFollower(self, start, clock=self._caller.runner.clock)

    # State.

    def describe(self) -> LogDescription:
        return self._caller.call(wire.DESCRIBE_LOG, self._names)

    def segments(self) -> Sequence[SegmentInfo]:
        """Lists all segments, oldest first."""
        return self.segments_and_end()[0]

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns all segments, oldest first, and the durable end. The segments contain all records
        before that end, and may contain later ones."""
        listing = self._caller.call(wire.LOG_SEGMENTS, self._names)
        return tuple(listing.segments), RecordId(listing.durable_end)

    def segment_bytes(
        self,
        segment_id: int,
        *,
        offset: int = 0,
        length: int | None = None,
        tier: int | None = None,
    ) -> SegmentRange:
        """Returns `length` stored bytes of a segment from `offset` on, or fewer if its durable end
        comes first; by default all bytes up to there. Fetches more than 256 MiB in parts.

        Raises `NotFound` if the segment was removed, or is not in `tier`, and `Busy` if it moved to
        another tier several times during the call.
        """
        names = {**self._names, "segment": segment_id}
        query = wire.RangeQuery(offset=offset, length=length, tier=tier)
        return fetch_range(self._caller, wire.LOG_SEGMENT_BYTES, names, query, copy="tier")

    def durable_end(self) -> RecordId:
        """The position after the last durable record."""
        return RecordId(self.describe().durable_end)

    def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        """Waits until the durable end is beyond `position`. Returns False if `timeout` seconds pass
        first."""
        waiting = LongWait(self._caller.runner.clock, timeout)
        durable_end = self.durable_end()
        while durable_end <= position:
            wait_ms = waiting.next_ms()
            if not wait_ms:
                return False
            page = self.page(durable_end, max_records=1, max_bytes=1, wait_ms=wait_ms)
            durable_end = RecordId(page.durable_end)
        return True

    def page(
        self,
        start: RecordId | None,
        *,
        end: RecordId | None = None,
        max_records: int = PAGE_RECORDS,
        max_bytes: int = PAGE_BYTES,
        wait_ms: int = 0,
        backward: bool = False,
        interruption: Interruption | None = None,
    ) -> wire.Records:
        """Returns one page of the durable records of `[start, end)`, and the position of the next
        page. If there is no record yet, waits up to `wait_ms` for one. With `backward`, returns the
        records before `start`, newest first."""
        query = wire.ReadQuery(
            start=None if start is None else str(RecordId(start)),
            end=None if end is None else str(RecordId(end)),
            max_records=max_records,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            backward=backward,
        )
        return self._caller.call(
            wire.READ_RECORDS,
            self._names,
            query=query,
            wait_s=wait_ms / 1000,
            interruption=interruption,
        )

    def _append(
        self,
        payloads: Sequence[Buffer],
        ext_ids: Numbers,
        timestamps: Numbers | None,
        timeout: float,
    ) -> list[RecordId]:
        if isinstance(payloads, bytes | bytearray | memoryview | str):
            raise InputError(
                f"payloads: must be a sequence, not a single {type(payloads).__name__}"
            )
        try:
            data = [as_bytes(payload) for payload in payloads]
        except (TypeError, BufferError):
            raise InputError("payloads: each must be bytes") from None
        body = wire.AppendRecords(
            payloads=data,
            ext_ids=None if ext_ids == 0 else _each(ext_ids, len(data)),
            timestamps=None if timestamps is None else _each(timestamps, len(data)),
            is_durable=False,
            timeout_ms=milliseconds(timeout) or 0,
        )
        appended = self._caller.call(
            wire.APPEND_RECORDS, self._names, body=body, wait_s=timeout, busy_s=timeout
        )
        return list(map(RecordId, appended.record_ids))

    def _pages(
        self, start: RecordId | None, end: RecordId | None, *, max_bytes: int = PAGE_BYTES
    ) -> Iterator[wire.Records]:
        """Yields pages of records. Fetches the first page in this call, so that an invalid call
        raises here."""
        page = self.page(start, end=end, max_bytes=max_bytes)
        limit = RecordId(page.durable_end)
        return self._later_pages(
            page, limit if end is None else min(RecordId(end), limit), max_bytes
        )

    def _later_pages(
        self, page: wire.Records, end: RecordId, max_bytes: int
    ) -> Iterator[wire.Records]:
        while page.record_ids:
            if page.record_ids[-1] >= end:
                yield _before(page, end)
                return
            yield page
            if page.next >= end:
                return
            page = self.page(RecordId(page.next), end=end, max_bytes=max_bytes)

    def _page_batches(self, pages: Iterator[wire.Records]) -> Iterator[RecordBatch]:
        base_offsets: dict[int, int] = {}
        for page in pages:
            needed = {RecordId(number).segment_index for number in page.record_ids}
            if not needed <= base_offsets.keys():
                base_offsets = {info.segment_id: info.base_offset for info in self.segments()}
            yield from batches_of(page, base_offsets)

    def _backward(self, page: wire.Records) -> Iterator[Record]:
        while page.record_ids:
            yield from records_of(page)
            page = self.page(RecordId(page.record_ids[-1]), backward=True)


class LogFollower(RecordIterator, PollingIterator[Record, RecordBatch, RecordId]):
    """Iterates over the records of a log from `start` (by default the oldest) on, and waits for new
    ones."""

    def __init__(self, log: RemoteLog, start: RecordId | None, *, clock: Clock) -> None:
        PollingIterator.__init__(self, clock, RecordId(0) if start is None else RecordId(start))
        self._log = log
        self._next = self._position  # where the next page starts
        self._batches: list[RecordBatch] = []  # in reverse order
        self._base_offsets: dict[int, int] = {}

    def poll(self, wait_ms: int, interruption: Interruption) -> RecordBatch | None:
        if not self._batches:
            page = self._log.page(
                self._next, max_bytes=BATCH_BYTES, wait_ms=wait_ms, interruption=interruption
            )
            needed = {RecordId(number).segment_index for number in page.record_ids}
            if not needed <= self._base_offsets.keys():
                segments = self._log.segments()
                self._base_offsets = {info.segment_id: info.base_offset for info in segments}
            self._next = RecordId(page.next)
            self._batches = list(batches_of(page, self._base_offsets))[::-1]
        return self._batches.pop() if self._batches else None


def _each(numbers: Numbers, count: int) -> list[int]:
    return [numbers] * count if isinstance(numbers, int) else list(numbers)


def _before(page: wire.Records, end: RecordId) -> wire.Records:
    """Returns the page without the records at or after `end`, which became durable after the read
    began."""
    count = sum(1 for number in page.record_ids if number < end)
    return wire.Records(
        page.record_ids[:count],
        page.timestamps[:count],
        page.ext_ids[:count],
        page.payloads[:count],
        int(end),
        page.durable_end,
    )
