# Made by `python -m tools.asynced` of `src/lakebed/client/log.py`: edit that.
"""A log of a store that another process has open: as `lakebed.aof.log.Aof`.

Records come a page at a time, or as batches from the segments' own bytes, which are verified again
here; one page or batch is held at a time. An append is never sent twice: if its
answer is lost, nobody knows whether it is there. Retention does not wait for who follows from here:
pin the segments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from lakebed.aio.client.caller import Caller
from lakebed.aio.client.connection_pool import Interruption
from lakebed.aio.client.log_follower import LogFollower
from lakebed.aio.client.message_appender import as_bytes, milliseconds
from lakebed.aio.client.segment_range import SegmentRange, range_of
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.log_tiers import Residence
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.api import logs as wire
from lakebed.base.errors import InputError, NotFound, OutcomeUnknown
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.client.long_wait import LongWait
from lakebed.client.record_page import batches_of, records_of
from lakebed.keratin.segment import Numbers

PAGE_BYTES = 2 * MIB
PAGE_RECORDS = 100_000


class AsyncTiers:
    """For one event loop. Segments are moved by long work: see `AsyncStore.work`."""

    def __init__(self, caller: Caller, log: str) -> None:
        self._caller = caller
        self._names = {"log": log}

    async def residency(self) -> list[Residence]:
        """Where the segments are."""
        return (await self._caller.call(wire.LOG_TIERS, self._names)).segments


class AsyncLog:
    """For one event loop; an iterator it gave belongs to one task."""

    def __init__(self, caller: Caller, description: LogDescription) -> None:
        self._caller = caller
        self.name = description.name
        self.stream_id = description.stream_id
        self.tiers = AsyncTiers(caller, description.name)
        self._names = {"log": description.name}

    # Appending.

    async def append_record(
        self, payload: Buffer, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """Append one record; it has its id at once and is durable after a flush.

        Never waits: `WouldBlock` says what it would have waited for.
        """
        return (await self.append_records([payload], ext_ids=ext_id, timestamps=timestamp))[0]

    async def append_records(
        self,
        payloads: Sequence[Buffer],
        *,
        ext_ids: Numbers = 0,
        timestamps: Numbers | None = None,
    ) -> Sequence[RecordId]:
        """Append many at once. `WouldBlock.record_ids` has those that were appended before it."""
        return await self._append(payloads, ext_ids, timestamps, 0.0)

    async def append_record_with_timeout(
        self, payload: Buffer, timeout: float, *, ext_id: int = 0, timestamp: int | None = None
    ) -> RecordId:
        """As `append_record`, waiting up to `timeout` seconds for what it would wait for."""
        return (await self._append([payload], ext_id, timestamp, timeout))[0]

    # Flushing and sealing.

    async def flush(
        self, record_id: RecordId | None = None, *, timeout: float | None = None
    ) -> None:
        """Until that record, or everything appended so far, is durable.

        After a `RetryError` (the disk is full) or `OutcomeUnknown` (the seconds passed) the records
        are still queued: call this again, and do not append them again.
        """
        body = wire.Flush(
            record_id=None if record_id is None else int(record_id),
            timeout_ms=milliseconds(timeout),
        )
        while True:
            try:
                await self._caller.call(
                    wire.FLUSH_LOG, self._names, body=body, wait_s=timeout or 60.0, busy_s=timeout
                )
            except OutcomeUnknown:  # no call waits for longer there
                if timeout is not None:
                    raise
            else:
                return

    async def seal_current_segment(self, *, timeout: float | None = None) -> SegmentInfo | None:
        """Seal the segment that is written, and return when that is durable.

        None if it has no record: there is nothing to seal.
        """
        body = wire.Seal(timeout_ms=milliseconds(timeout))
        sealed = await self._caller.call(
            wire.SEAL_LOG, self._names, body=body, wait_s=timeout or 60.0, busy_s=timeout
        )
        return sealed.segment

    @property
    async def coordinator_watermark(self) -> int:
        return (await self.describe()).coordinator_watermark

    async def set_coordinator_watermark(self, watermark: int) -> None:
        """Kept with the next seal and given back after recovery; it never goes back."""
        body = wire.WatermarkBody(watermark=watermark)
        await self._caller.call(wire.SET_WATERMARK, self._names, body=body)

    # Reading.

    async def get(self, record_id: RecordId) -> Record:
        """The record with that id."""
        record_id = RecordId(record_id)
        query = wire.ReadQuery(start=str(record_id), max_records=1)
        for record in records_of(
            await self._caller.call(wire.READ_RECORDS, self._names, query=query)
        ):
            if record.record_id == record_id:
                return record
        raise NotFound(f"{record_id}: no record begins there, or it is not durable yet")

    async def read(
        self, start: RecordId | None = None, end: RecordId | None = None
    ) -> AsyncIterator[Record]:
        """The durable records of `[start, end)`, oldest first."""
        pages = await self._pages(start, end)
        return (record async for page in pages for record in records_of(page))

    async def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """The same as columns, many at a time."""
        pages = await self._pages(start, end, max_bytes=batch_bytes_max or PAGE_BYTES)
        return self._page_batches(pages)

    async def read_backward(self, start: RecordId | None = None) -> AsyncIterator[Record]:
        """The durable records before `start`, newest first."""
        page = await self.page(start, backward=True)
        return self._backward(page)

    async def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Where the first record is that is not older."""
        query = wire.SeekQuery(timestamp_ns=timestamp_ns)
        return RecordId(
            (await self._caller.call(wire.SEEK_LOG, self._names, query=query)).record_id
        )

    def follow(self, start: RecordId | None = None) -> LogFollower:
        """Records from `start` (or the oldest) on, waiting for new ones."""
        return LogFollower(self, start, clock=self._caller.runner.clock)

    # What it is.

    async def describe(self) -> LogDescription:
        return await self._caller.call(wire.DESCRIBE_LOG, self._names)

    async def segments(self) -> Sequence[SegmentInfo]:
        """All that exist now, oldest first."""
        return (await self.segments_and_end())[0]

    async def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """All segments, and the durable end, which they contain."""
        found = await self._caller.call(wire.LOG_SEGMENTS, self._names)
        return tuple(found.segments), RecordId(found.durable_end)

    async def segment_bytes(
        self,
        segment_id: int,
        *,
        offset: int = 0,
        length: int | None = None,
        tier: int | None = None,
    ) -> SegmentRange:
        """A segment's bytes as they are stored: fewer than asked for only at its durable end.

        `NotFound` if it is gone, or not in that tier any more.
        """
        answer = await self._caller.ask(
            wire.LOG_SEGMENT_BYTES,
            {**self._names, "segment": segment_id},
            query=wire.RangeQuery(offset=offset, length=length, tier=tier),
        )
        return range_of(answer, wire.LOG_SEGMENT_BYTES.name, offset=offset)

    async def durable_end(self) -> RecordId:
        """The position behind the last durable record."""
        return RecordId((await self.describe()).durable_end)

    async def wait_beyond(self, position: RecordId, timeout: float | None = None) -> bool:
        """Until the durable end is beyond `position`; False if the seconds passed first."""
        waiting = LongWait(self._caller.runner.clock, timeout)
        durable_end = await self.durable_end()
        while durable_end <= position:
            wait_ms = waiting.next_ms()
            if not wait_ms:
                return False
            page = await self.page(durable_end, max_records=1, max_bytes=1, wait_ms=wait_ms)
            durable_end = RecordId(page.durable_end)
        return True

    async def page(
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
        """Records, and from where to read on; waits for the first one."""
        query = wire.ReadQuery(
            start=None if start is None else str(RecordId(start)),
            end=None if end is None else str(RecordId(end)),
            max_records=max_records,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            backward=backward,
        )
        return await self._caller.call(
            wire.READ_RECORDS,
            self._names,
            query=query,
            wait_s=wait_ms / 1000,
            interruption=interruption,
        )

    async def _append(
        self,
        payloads: Sequence[Buffer],
        ext_ids: Numbers,
        timestamps: Numbers | None,
        timeout: float,
    ) -> list[RecordId]:
        if isinstance(payloads, bytes | bytearray | memoryview | str):
            raise InputError("payloads: a sequence is wanted, not one of them")
        try:
            data = [as_bytes(payload) for payload in payloads]
        except (TypeError, BufferError):
            raise InputError("payloads: every one must be bytes") from None
        body = wire.AppendRecords(
            payloads=data,
            ext_ids=None if ext_ids == 0 else _each(ext_ids, len(data)),
            timestamps=None if timestamps is None else _each(timestamps, len(data)),
            is_durable=False,
            timeout_ms=milliseconds(timeout) or 0,
        )
        found = await self._caller.call(
            wire.APPEND_RECORDS, self._names, body=body, wait_s=timeout, busy_s=timeout
        )
        return list(map(RecordId, found.record_ids))

    async def _pages(
        self, start: RecordId | None, end: RecordId | None, *, max_bytes: int = PAGE_BYTES
    ) -> AsyncIterator[wire.Records]:
        """The first one is asked for now: what is wrong with the call is known at once."""
        page = await self.page(start, end=end, max_bytes=max_bytes)
        limit = RecordId(page.durable_end)
        return self._rest(page, limit if end is None else min(RecordId(end), limit), max_bytes)

    async def _rest(
        self, page: wire.Records, end: RecordId, max_bytes: int
    ) -> AsyncIterator[wire.Records]:
        while page.record_ids:
            if page.record_ids[-1] >= end:
                yield _before(page, end)
                return
            yield page
            if page.next >= end:
                return
            page = await self.page(RecordId(page.next), end=end, max_bytes=max_bytes)

    async def _page_batches(self, pages: AsyncIterator[wire.Records]) -> AsyncIterator[RecordBatch]:
        base_offsets: dict[int, int] = {}
        async for page in pages:
            needed = {RecordId(one).segment_index for one in page.record_ids}
            if not needed <= base_offsets.keys():
                base_offsets = {one.segment_id: one.base_offset for one in await self.segments()}
            for item in batches_of(page, base_offsets):
                yield item

    async def _backward(self, page: wire.Records) -> AsyncIterator[Record]:
        while page.record_ids:
            for item in records_of(page):
                yield item
            page = await self.page(RecordId(page.record_ids[-1]), backward=True)


def _each(numbers: Numbers, count: int) -> list[int]:
    return [numbers] * count if isinstance(numbers, int) else list(numbers)


def _before(page: wire.Records, end: RecordId) -> wire.Records:
    """What became durable behind the end, as it was when the read began, is not of it."""
    count = sum(1 for one in page.record_ids if one < end)
    return wire.Records(
        page.record_ids[:count],
        page.timestamps[:count],
        page.ext_ids[:count],
        page.payloads[:count],
        int(end),
        page.durable_end,
    )
