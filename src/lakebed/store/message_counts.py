"""Counts the messages of a partition from an offset up to the high watermark.

Compaction removes messages only from sealed segments, and leaves gaps in their offsets. So each
sealed segment of a compacted topic is read once to count its messages; after that, a count reads
only the part of a batch before its first offset. In all other segments, messages are counted by
subtracting offsets, so that lost messages and records that are internal to the log count too.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.keratin.damage import raise_unreadable
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.view import PartitionSegment


class _CountedRange(NamedTuple):
    """The first offset of each batch of a segment, and for each batch a count of messages.

    The count includes the messages of the batch and of all later batches of the segment.
    """

    firsts: list[int]
    counts: list[int]


class MessageCounts:
    """Counts messages of one partition. Thread-safe."""

    def __init__(self, partition: Partition | ReadOnlyPartition, *, is_compacted: bool) -> None:
        self._partition = partition
        self._is_compacted = is_compacted
        # Replaced as a whole and never changed, so it needs no lock.
        self._counted: dict[PartitionSegment, _CountedRange] = {}

    def count(self, start: int, end: int) -> int:
        """Returns how many messages are in `[start, end)`.

        `end` must be a recent high watermark. In a sealed segment that cannot be read, each offset
        counts as a message.
        """
        if not self._is_compacted or start >= end:
            return max(0, end - start)
        infos = self._partition.segments()
        counted_segments = {info: self._counted[info] for info in infos if info in self._counted}
        total = 0
        for info in infos:
            if info.next_offset <= start:
                continue
            low, high = max(start, info.base_offset), min(end, info.next_offset)
            if not info.is_sealed or high < info.next_offset:
                total += max(0, high - low)
                continue
            try:
                counted = counted_segments.setdefault(
                    info, counted_segments.get(info) or self._windows(info)
                )
                total += self._count_from(low, counted)
            except LakebedError:  # removed or replaced meanwhile, or unreadable
                total += high - low
        self._counted = counted_segments
        return total

    def _windows(self, info: PartitionSegment) -> _CountedRange:
        firsts, lengths = [], []
        start = max(info.base_offset, self._partition.start_offset())
        for batch in self._partition.read_batches(
            start, info.next_offset, skip_damage=True, on_skipped=raise_unreadable
        ):
            firsts.append(int(batch.offsets[0]))
            lengths.append(len(batch))
        counts, left = [], sum(lengths)
        for length in lengths:
            counts.append(left)
            left -= length
        return _CountedRange(firsts, counts)

    def _count_from(self, offset: int, counted: _CountedRange) -> int:
        index = bisect_left(counted.firsts, offset)
        total = counted.counts[index] if index < len(counted.counts) else 0
        if index:  # `offset` may be inside the batch before
            ahead = counted.counts[index - 1] - total
            before = self._partition.read_batches(
                counted.firsts[index - 1],
                offset,
                skip_damage=True,
                on_skipped=raise_unreadable,
            )
            total += ahead - sum(map(len, before))
        return total
