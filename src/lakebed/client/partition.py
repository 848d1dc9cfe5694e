"""A partition of a remote store: the remote form of `lakebed.keratin.partition.Partition`.

Messages are fetched as pages of stored records, and the client verifies them again. One page is in
memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakebed.api import topics as wire
from lakebed.base.errors import InputError, NotFound
from lakebed.base.layout import Buffer
from lakebed.base.units import KIB, MIB
from lakebed.client.append_result import AppendResult
from lakebed.client.caller import Answer, Caller
from lakebed.client.connection_pool import Interruption
from lakebed.client.errors import BadAnswer
from lakebed.client.followers import PartitionFollower
from lakebed.client.long_wait import LongWait
from lakebed.client.message_appender import Batch, MessageAppender
from lakebed.client.segment_range import SegmentRange, fetch_range
from lakebed.keratin.config import Ack
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.raw_records import batches_in
from lakebed.keratin.reader import FetchedRecords
from lakebed.keratin.segment import Numbers
from lakebed.keratin.view import PartitionSegment

PAGE_BYTES = 2 * MIB
_GET_BYTES = 4 * KIB
_NO_SKIPPING = "skip_damage is not supported for a remote store: read without it"


class Page(NamedTuple):
    """Stored records of a partition, with its start offset and high watermark at the time of the
    read."""

    fetched: FetchedRecords
    start_offset: int
    high_watermark: int


class RemotePartition:
    """A partition of a remote store. Thread-safe; each iterator is for one thread."""

    def __init__(self, caller: Caller, producing: MessageAppender, topic: str, number: int) -> None:
        self._caller = caller
        self._producing = producing
        self._topic = topic
        self.number = number
        self._names = {"topic": topic, "partition": number}

    @property
    def name(self) -> str:
        return f"{self._topic}-{self.number}"

    # State.

    def segments(self) -> Sequence[PartitionSegment]:
        """Lists the segments, oldest first. Their paths are those on the server."""
        return tuple(self._caller.call(wire.TOPIC_SEGMENTS, self._names).segments)

    def segment_bytes(
        self,
        base_offset: int,
        *,
        offset: int = 0,
        length: int | None = None,
        generation: int | None = None,
    ) -> SegmentRange:
        """Returns `length` stored bytes of a segment from `offset` on, or fewer if its durable end
        comes first; by default all bytes up to there. Fetches more than 256 MiB in parts.

        Raises `NotFound` if the segment was removed. If a `generation` is given, also raises
        `NotFound` if compaction has replaced it with a newer one. Raises `Busy` if compaction
        replaced the segment several times during the call.
        """
        names = {**self._names, "base_offset": base_offset}
        query = wire.SegmentBytesQuery(offset=offset, length=length, generation=generation)
        return fetch_range(self._caller, wire.TOPIC_SEGMENT_BYTES, names, query, copy="generation")

    def start_offset(self) -> int:
        """The offset of the first message that can be read."""
        return self._state().start_offset

    def high_watermark(self) -> int:
        """The offset after the last durable message."""
        return self._state().high_watermark

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is beyond `offset`. Returns False if `timeout` seconds
        pass first."""
        waiting = LongWait(self._caller.runner.clock, timeout)
        high_watermark = self.high_watermark()
        while high_watermark <= offset:
            wait_ms = waiting.next_ms()
            if not wait_ms:
                return False
            page = self.page(high_watermark, max_bytes=1, wait_ms=wait_ms)
            high_watermark = page.high_watermark
        return True

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
    ) -> AppendResult:
        """Appends messages, and waits until they are acknowledged. They get consecutive offsets.

        A payload of None deletes its key. Raises `Busy` if the queue stays full for `timeout`
        seconds; by default, for as long as the client retries calls (`retry_s`).
        """
        batch = Batch(payloads, keys, headers, timestamps_ms, producer, not_before_ms, ack, timeout)
        return self._producing.append(self._topic, self.number, batch)

    def sync(self) -> None:
        """Makes all acknowledged messages durable.

        Without this call, messages that were acknowledged with `Ack.AFTER_WRITE` may not be durable
        yet.
        """
        self._caller.call(wire.SYNC_PARTITION, self._names)

    def seal(self) -> bool:
        """Seals the active segment and starts a new one. Returns False, and does neither, if the
        active segment is empty."""
        return self._caller.call(wire.SEAL_PARTITION, self._names).is_sealed

    def truncate_before(self, before: int) -> int:
        """Moves the start of the partition to the offset `before`, so that earlier messages can no
        longer be read. Returns the number of segments that were removed with them."""
        body = wire.Truncate(before=before)
        return self._caller.call(wire.TRUNCATE, self._names, body=body).segments

    # Reading.

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Iterates over the messages from `offset` to the current end, up to the given limits.

        The first message is returned whatever its size.
        """
        page_bytes = PAGE_BYTES
        if max_bytes is not None:
            page_bytes = min(page_bytes, max(max_bytes, _GET_BYTES))
        if max_messages is not None:
            if max_messages < 0:
                raise InputError(f"max_messages {max_messages}: must not be negative")
            page_bytes = min(page_bytes, max(_GET_BYTES * max_messages, _GET_BYTES))
        batches = self.read_batches(offset, batch_bytes_max=page_bytes)
        messages = (message for batch in batches for message in batch)
        return _limited(messages, max_bytes=max_bytes, max_messages=max_messages)

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,  # noqa: ARG002 - damage is never skipped
    ) -> Iterator[MessageBatch]:
        """Iterates over the messages of `[start, end)` in columnar batches; by default over all
        messages.

        If `start` is before the start offset or after the high watermark, the call itself raises
        `OffsetOutOfRange`, before the first batch is requested. With `skip_damage`, raises
        `InputError`, because a remote store does not support it.
        """
        if skip_damage:
            raise InputError(_NO_SKIPPING)
        first = self.start_offset() if start is None else start
        page_bytes = min(batch_bytes_max or PAGE_BYTES, wire.FETCH_BYTES_MAX)
        page = self.page(first, max_bytes=page_bytes)
        if end is not None and end < first:
            raise InputError(f"{self.name}: the end {end} is before the start {first}")
        limit = page.high_watermark if end is None else min(end, page.high_watermark)
        return self._batches(page, first, limit, page_bytes)

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """Iterates over the messages of `[start, end)`; by default over all messages."""
        batches = self.read_batches(start, end, skip_damage=skip_damage)
        return (message for batch in batches for message in batch)

    def follow(self, start: int | None = None) -> PartitionFollower:
        """Iterates over the messages from `start` (by default the oldest) on, and waits for new
        messages."""
        first = self.start_offset() if start is None else start
        return PartitionFollower(self, first, clock=self._caller.runner.clock)

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Returns the stored bytes of whole records, beginning with the record that contains
        `offset`, or else with the next one: at most `max_bytes`, but at least one record.

        Returns no bytes if there is no record at or after `offset`.
        """
        return self.page(offset, max_bytes=min(max(max_bytes, 1), wire.FETCH_BYTES_MAX)).fetched

    def get(self, offset: int) -> Message:
        fetched = self.page(offset, max_bytes=_GET_BYTES).fetched
        for batch in batches_in(fetched.data, start=offset, end=offset + 1, name=self.name):
            return batch.message(0)
        raise NotFound(f"{self.name}: there is no message with offset {offset}")

    def offset_for_time(self, timestamp_ms: int) -> int:
        """Returns the offset of the first message whose timestamp is `timestamp_ms` or later; the
        high watermark if there is none."""
        query = wire.OffsetQuery(timestamp_ms=timestamp_ms)
        return self._caller.call(wire.OFFSET_FOR_TIME, self._names, query=query).offset

    def page(
        self,
        offset: int,
        *,
        max_bytes: int,
        wait_ms: int = 0,
        interruption: Interruption | None = None,
    ) -> Page:
        """Returns stored records from `offset` on, and the partition's bounds. If `offset` is the
        end of the partition, waits up to `wait_ms` for a message."""
        if not 0 <= offset <= wire.INT64_MAX:  # cannot be encoded in the request
            state = self._state()
            raise OffsetOutOfRange(
                self.name,
                offset,
                start_offset=state.start_offset,
                high_watermark=state.high_watermark,
            )
        answer = self._caller.ask(
            wire.FETCH_RAW,
            self._names,
            query=wire.RawFetchQuery(offset=offset, max_bytes=max_bytes, wait_ms=wait_ms),
            wait_s=wait_ms / 1000,
            interruption=interruption,
        )
        return _page_of(answer)

    def _state(self) -> wire.PartitionState:
        topic = self._caller.call(wire.DESCRIBE_TOPIC, {"topic": self._topic})
        for state in topic.partitions:
            if state.partition == self.number:
                return state
        raise NotFound(f"{self._topic}: there is no partition {self.number}")

    def _batches(self, page: Page, start: int, end: int, page_bytes: int) -> Iterator[MessageBatch]:
        while start < end:
            data, _, next_offset = page.fetched
            yield from batches_in(data, start=start, end=end, name=self.name)
            if next_offset <= start:
                return
            start = next_offset
            if start < end:
                page = self.page(start, max_bytes=page_bytes)


def _page_of(answer: Answer) -> Page:
    numbers = []
    for name in ("base-offset", "next-offset", "start-offset", "high-watermark"):
        text = answer.headers.get("lakebed-" + name, "")
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise BadAnswer(f"fetch: the response has no valid header Lakebed-{name}")
        numbers.append(int(text))
    base_offset, next_offset, start_offset, high_watermark = numbers
    fetched = FetchedRecords(memoryview(answer.body).toreadonly(), base_offset, next_offset)
    return Page(fetched, start_offset, high_watermark)


def _limited(
    messages: Iterator[Message], *, max_bytes: int | None, max_messages: int | None
) -> Iterator[Message]:
    """Yields messages up to the limits, as `PartitionReader.scan_from` does."""
    total = count = 0
    while max_messages is None or count < max_messages:
        message = next(messages, None)
        if message is None:
            return
        total += len(message.key or b"") + len(message.value or b"")
        count += 1
        if max_bytes is not None and count > 1 and total > max_bytes:
            return
        yield message
