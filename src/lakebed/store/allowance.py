"""Limits how many messages and how many bytes one lease or one peek returns.

The first message of a call is returned whatever its size; otherwise a message above the byte limit
would block all later ones forever. The first message that does not fit ends the call for all
partitions, even if smaller messages follow it, so that large messages are not skipped again and
again.
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
    """Offset ranges that fit into the byte limit, and the total size of their messages.

    The ranges may include offsets whose messages no longer exist.
    """

    ranges: list[LeasedRange]
    size: int  # of all keys, values and headers, uncompressed, in bytes

    @property
    def spans(self) -> list[tuple[int, int]]:
        return [(start, end) for start, end, _ in self.ranges]


class Allowance:
    """How many more messages and bytes one lease or one peek may return."""

    def __init__(self, *, max_messages: int, max_bytes: int | None) -> None:
        """Sets the limits of one lease or peek; `max_bytes=None` means no byte limit.

        Raises `InputError` if `max_bytes` is not an integer of 1 or more. `max_messages` is not
        checked here: the consumer group checks it when it chooses messages.
        """
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
        """Whether the byte limit applies to the next messages.

        It does not apply if the call returns at most one message, because the first always fits.
        """
        return self.bytes_left is not None and (self._has_some or self.message_count > 1)

    def take(self, message_count: int, size: int) -> None:
        self.message_count -= message_count
        self._has_some = self._has_some or message_count > 0
        if self.bytes_left is not None:
            self.bytes_left = max(0, self.bytes_left - size)

    def fitting(self, partition: Partition, ranges: Sequence[LeasedRange]) -> FittingSpans:
        """Returns `ranges`, in the same order, cut off before the first message that does not fit.

        The first message of the call always fits. The batches are read from the log, but only to
        measure them: no `Message` is created. Messages that cannot be read stay in the ranges and
        count no bytes.
        """
        assert self.bytes_left is not None, "without a byte limit every message fits"
        kept: list[LeasedRange] = []
        count = size = 0
        self._is_full = False
        for leased in ranges:
            for batch in batches_between(partition, leased.start, leased.end):
                batch_bytes = batch.size
                if size + batch_bytes > self.bytes_left:
                    self._is_full = True
                    at_least = 0 if count or self._has_some else 1
                    end, size = _cut(batch, size, self.bytes_left, at_least)
                    return FittingSpans(
                        [*kept, leased._replace(end=end)] if end > leased.start else kept, size
                    )
                count += len(batch)
                size += batch_bytes
            kept.append(leased)
        return FittingSpans(kept, size)


def _cut(batch: MessageBatch, size: int, bytes_max: int, at_least: int) -> tuple[int, int]:
    """Returns the offset of the first message that does not fit, and the size of those before it.

    If all messages of the batch fit, returns the offset after the batch. `size` is the size of
    earlier batches, in bytes, and is included in the returned size. The first `at_least` messages
    of this batch always fit.
    """

    def bytes_of(count: int) -> int:
        return batch.part(0, count).size if count else 0

    fits = bisect_right(range(1, len(batch) + 1), bytes_max - size, key=bytes_of)
    fits = max(fits, at_least)
    end = int(batch.offsets[fits]) if fits < len(batch) else batch.next_offset
    return end, size + bytes_of(fits)


def _check_bytes(value: object) -> None:
    if value is not None and (not isinstance(value, int) or value < 1):
        raise InputError(f"max_bytes = {str(value)[:30]}: must be an integer of 1 or more")
