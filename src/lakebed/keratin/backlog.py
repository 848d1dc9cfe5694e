"""Divides the unread messages of a partition into chunks, to read partitions in event-time order.

    ranges = [PartitionRange(partition, start, end), …]
    ends = advance_partitions(ranges, messages_max=10_000, bytes_max=None)

`lakebed.base.oldest_first` chooses among the chunks. Between two index entries of a sealed segment,
the chunk comes from the indexes. Elsewhere the messages are read, and each batch of them is a
chunk: in the active segment, before the first and after the last index entry, and where an index is
missing, is damaged or does not show the newest timestamp since `start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import LakebedError
from lakebed.base.files import Disk
from lakebed.base.oldest_first import Chunk, Items, Limit, advance
from lakebed.base.units import KIB
from lakebed.keratin.index_file import load_index, load_time_index
from lakebed.keratin.message_batch import MessageBatch, PackedMessages, PlainMessages
from lakebed.keratin.paths import index_path, time_index_path
from lakebed.keratin.view import PartitionSegment

_WINDOW_BYTES = 64 * KIB


class ReadablePartition(Protocol):
    @property
    def disk(self) -> Disk: ...

    def segments(self) -> Sequence[PartitionSegment]: ...

    def read_batches(
        self, start: int, end: int, *, batch_bytes_max: int
    ) -> Iterator[MessageBatch]: ...


class PartitionRange(NamedTuple):
    partition: ReadablePartition
    start: int
    end: int


def advance_partitions(
    ranges: Sequence[PartitionRange], *, messages_max: int | None, bytes_max: int | None
) -> list[int]:
    """Returns for each range the offset up to which to read next.

    The offsets are chosen so that event time advances in all partitions together, and that the
    messages of all ranges up to these offsets together stay within the limits. None means no limit.
    Sizes in bytes are approximate. If there are any messages, at least one is chosen, even if it
    exceeds a limit.
    """
    backlogs = [PartitionBacklog(*partition_range) for partition_range in ranges]
    return advance(backlogs, Limit(messages_max, bytes_max))


class _Stride(NamedTuple):
    """A record that has an entry in both indexes of its segment.

    `newest_ms` is the largest timestamp of the segment's records up to and including this one.
    """

    offset: int
    position: int
    newest_ms: int


class PartitionBacklog:
    """The unread messages `[start, end)` of one partition. Implements `Backlog`.

    Chunks that come from an index count every offset as a message, even if compaction has removed
    the message.
    """

    def __init__(self, partition: ReadablePartition, start: int, end: int) -> None:
        self._partition = partition
        self.start = start
        self.end = end

    @property
    def weight(self) -> int:
        return max(self.end - self.start, 1)

    def chunks(self) -> Iterator[Chunk]:
        newest_ms = 0
        for info in self._partition.segments():
            start, end = max(self.start, info.base_offset), min(self.end, info.next_offset)
            if start < end:
                for chunk in self._segment_chunks(info, start, end):
                    newest_ms = max(newest_ms, chunk.newest)
                    yield chunk._replace(newest=newest_ms)

    def items(self, start: int) -> Iterator[Items]:
        before: Items | None = None
        for batch in self._read(start, self.end):
            if before is not None:
                yield before
            count = len(batch)
            size_bytes = -(-bytes_of(batch) // count)
            ends = [int(offset) + 1 for offset in batch.offsets]
            before = Items(ends, list(map(int, batch.timestamps_ms)), [size_bytes] * count)
        if before is not None:
            yield before._replace(ends=[*before.ends[:-1], self.end])
        elif start < self.end:
            yield Items([self.end], [0], [0])

    def _segment_chunks(self, info: PartitionSegment, start: int, end: int) -> Iterator[Chunk]:
        strides = [stride for stride in self._strides(info) if start < stride.offset < end]
        if len(strides) < 2:
            yield from self._read_chunks(start, end)
            return
        # A time index entry holds the largest timestamp since the beginning of the segment. It is
        # the largest since `start` only where it exceeds that of the first entry after `start`.
        first = before = strides[0]
        yield from self._read_chunks(start, first.offset)
        for stride in strides[1:]:
            if stride.newest_ms > first.newest_ms:
                count, size_bytes = stride.offset - before.offset, stride.position - before.position
                yield Chunk(stride.offset, count, size_bytes, stride.newest_ms)
            else:
                yield from self._read_chunks(before.offset, stride.offset)
            before = stride
        yield from self._read_chunks(before.offset, end)

    def _strides(self, info: PartitionSegment) -> list[_Stride]:
        """Returns the records of a sealed segment that both indexes list.

        Returns none for the active segment, or if an index cannot be loaded.
        """
        if not info.is_sealed:
            return []
        disk, base_offset = self._partition.disk, info.base_offset
        try:
            positions = load_index(disk, index_path(info.path), base_offset=base_offset)
            timestamps = load_time_index(disk, time_index_path(info.path), base_offset=base_offset)
        except LakebedError:
            return []
        newest_ms = {entry.relative_offset: entry.timestamp_ms for entry in timestamps}
        return [
            _Stride(base_offset + relative, position, newest_ms[relative])
            for relative, _, position in positions
            if relative in newest_ms
        ]

    def _read_chunks(self, start: int, end: int) -> Iterator[Chunk]:
        for batch in self._read(start, end):
            newest_ms = max(map(int, batch.timestamps_ms))
            start = batch.next_offset
            yield Chunk(start, len(batch), bytes_of(batch), newest_ms)
        if start < end:
            yield Chunk(end, 0, 0, 0)

    def _read(self, start: int, end: int) -> Iterator[MessageBatch]:
        return self._partition.read_batches(start, end, batch_bytes_max=_WINDOW_BYTES)


def bytes_of(batch: MessageBatch) -> int:
    """Returns the approximate size in bytes of the batch's messages after decompression.

    For a part of a batch record, returns the size of all messages of that record.
    """
    if isinstance(batch, PlainMessages):
        return batch.run.end - batch.run.start
    assert isinstance(batch, PackedMessages), "unknown kind of batch"
    return len(batch.batch.buffer)
