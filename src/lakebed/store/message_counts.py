"""How many messages a partition holds from an offset on.

Offsets follow one another but where compaction left messages out, and it does so in sealed segments
alone. So those of a topic that is compacted are counted, once each; after that a count reads at
most one window of one segment. Everything else is counted by its offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.view import PartitionSegment


class _CountedRange(NamedTuple):
    """A segment's windows: where each begins, and how many messages there are from there on."""

    firsts: list[int]
    counts: list[int]


class MessageCounts:
    """Thread-safe."""

    def __init__(self, partition: Partition | ReadOnlyPartition, *, is_compacted: bool) -> None:
        self._partition = partition
        self._is_compacted = is_compacted
        self._counted: dict[
            PartitionSegment, _CountedRange
        ] = {}  # replaced as a whole, never changed

    def count(self, start: int, end: int) -> int:
        """The messages of `[start, end)`; `end` is the high watermark, now or not long ago."""
        if not self._is_compacted or start >= end:
            return max(0, end - start)
        infos = self._partition.segments()
        known = {info: self._counted[info] for info in infos if info in self._counted}
        total = 0
        for info in infos:
            if info.next_offset <= start:
                continue
            low, high = max(start, info.base_offset), min(end, info.next_offset)
            if not info.is_sealed or high < info.next_offset:
                total += max(0, high - low)
                continue
            try:
                counted = known.setdefault(info, known.get(info) or self._windows(info))
                total += self._count_from(low, counted)
            except LakebedError:  # removed or replaced meanwhile, or unreadable
                total += high - low
        self._counted = known
        return total

    def _windows(self, info: PartitionSegment) -> _CountedRange:
        firsts, lengths = [], []
        start = max(info.base_offset, self._partition.start_offset())
        for batch in self._partition.read_batches(start, info.next_offset, skip_damage=True):
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
        if index:  # the window before may go on at `offset`
            ahead = counted.counts[index - 1] - total
            before = self._partition.read_batches(
                counted.firsts[index - 1], offset, skip_damage=True
            )
            total += ahead - sum(map(len, before))
        return total
