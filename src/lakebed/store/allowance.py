"""How much a lease takes of what is next, or a peek: so many messages, and so many bytes.

The first message is taken whatever its size: else it would be in the way of all others for ever.
What is behind the first one that does not fit waits for the next lease, in all partitions, so that
large messages are not passed over again and again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.partition import Partition
from lakebed.store.lease_reader import batches_between
from lakebed.stroma.lease_transitions import LeasedRange


class FittingSpans(NamedTuple):
    """The first of some messages, and those between them that are gone."""

    ranges: list[LeasedRange]
    size: int  # bytes

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(start, end) for start, end, _ in self.ranges]


class Allowance:
    """What one lease, or one peek, may still take."""

    def __init__(self, *, max_messages: int, max_bytes: int | None) -> None:
        """`max_messages` is checked by whoever chooses messages."""
        _check_bytes(max_bytes)
        self.message_count = max_messages
        self.bytes_left = max_bytes
        self._has_some = False
        self._is_full = False

    @property
    def is_spent(self) -> bool:
        return self._is_full or self.message_count <= 0

    @property
    def counts_bytes(self) -> bool:
        """Whether it matters how long the next messages are: it does not of the first alone."""
        return self.bytes_left is not None and (self._has_some or self.message_count > 1)

    def take(self, message_count: int, size: int) -> None:
        self.message_count -= message_count
        self._has_some = self._has_some or message_count > 0
        if self.bytes_left is not None:
            self.bytes_left = max(0, self.bytes_left - size)

    def fitting(self, partition: Partition, ranges: Sequence[LeasedRange]) -> FittingSpans:
        """As many of those messages, in this order, as there is room for. Their lengths are
        looked at, and no message is made of them."""
        assert self.bytes_left is not None, "without a limit all of them fit"
        kept: list[LeasedRange] = []
        count = size = 0
        self._is_full = False
        for one in ranges:
            for batch in batches_between(partition, one.start, one.end):
                more = batch.size
                if size + more > self.bytes_left:
                    self._is_full = True
                    at_least = 0 if count or self._has_some else 1
                    end, size = _cut(batch, size, self.bytes_left, at_least)
                    return FittingSpans(
                        [*kept, one._replace(end=end)] if end > one.start else kept, size
                    )
                count += len(batch)
                size += more
            kept.append(one)
        return FittingSpans(kept, size)


def _cut(batch: MessageBatch, size: int, bytes_max: int, at_least: int) -> tuple[int, int]:
    """The offset of its first message that does not fit, and the bytes up to there."""

    def bytes_of(count: int) -> int:
        return batch.part(0, count).size if count else 0

    fits = bisect_right(range(1, len(batch) + 1), bytes_max - size, key=bytes_of)
    fits = max(fits, at_least)
    end = int(batch.offsets[fits]) if fits < len(batch) else batch.next_offset
    return end, size + bytes_of(fits)


def _check_bytes(value: object) -> None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise InputError(f"max_bytes = {str(value)[:30]}: it must be 1 or more")
