"""Reads from the log the messages that a lease or a peek returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from lakebed.keratin.damage import OnSkipped, raise_unreadable
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.partition import Partition
from lakebed.store.leased_message import LeasedMessage, PeekedMessage, Ranges
from lakebed.stroma.lease_transitions import Grant, LeasedRange

_MAKE: Callable[[tuple[object, ...]], LeasedMessage] = partial(tuple.__new__, LeasedMessage)
# How many leading fields a message and a leased message (after its partition) have in common.
_SHARED = Message._fields.index("headers") + 1


class ReadLease(NamedTuple):
    """The messages of a lease, or of a part of it, and offsets whose messages no longer exist."""

    messages: list[LeasedMessage]
    gone: Ranges  # offsets compacted away, removed or lost since the group chose them


def read_leased(
    partition: Partition, grant: Grant, *, incarnation: str, on_skipped: OnSkipped | None = None
) -> Iterator[ReadLease]:
    """Reads the messages of a lease from the log, and yields them one batch of the log at a time.

    Calls `on_skipped` for each range that is damaged or that the device cannot read.
    """
    before = (partition.number,)
    for start, end, delivery_count in grant.leased:
        after = (delivery_count, grant.epoch, grant.deadline_ms, incarnation)
        position = start
        for batch in batches_between(partition, start, end, on_skipped=on_skipped):
            # Joining tuples is faster than naming the fields; both types have the same order.
            messages = [_MAKE(before + message[:_SHARED] + after) for message in batch]
            yield ReadLease(messages, _holes(batch, position))
            position = batch.next_offset
        if position < end:
            yield ReadLease([], [(position, end)])


def read_peeked(partition: Partition, ranges: Iterable[LeasedRange]) -> Iterator[PeekedMessage]:
    """Yields the messages of these ranges; those that no longer exist or are damaged are left out.

    Raises `DiskError` at the first message that the device cannot read.
    """
    for start, end, _ in ranges:
        for batch in batches_between(partition, start, end, on_skipped=raise_unreadable):
            for message in batch:
                yield PeekedMessage(
                    partition.number,
                    message.offset,
                    message.timestamp_ms,
                    message.key,
                    message.value,
                    message.headers,
                )


def batches_between(
    partition: Partition, start: int, end: int, *, on_skipped: OnSkipped | None = None
) -> Iterator[MessageBatch]:
    """Yields the messages of `[start, end)` that still exist, in batches.

    Messages that retention removes during the read are skipped. Damaged messages, and those that
    the device cannot read, are skipped too, and their ranges are passed to `on_skipped`.
    """
    start = max(start, partition.start_offset())
    while start < end:
        try:
            for batch in partition.read_batches(
                start, end, skip_damage=True, on_skipped=on_skipped
            ):
                yield batch
                start = batch.next_offset
            return
        except OffsetOutOfRange as error:
            if error.start_offset <= start:
                raise
            start = error.start_offset


def _holes(batch: MessageBatch, position: int) -> Ranges:
    """Returns the ranges of offsets without a message between `position` and the batch's end."""
    first, last = int(batch.offsets[0]), int(batch.offsets[-1])
    holes = [(position, first)] if position < first else []
    if last - first != len(batch) - 1:
        holes += [(left + 1, right) for left, right in pairwise(batch.offsets) if right > left + 1]
    return holes
