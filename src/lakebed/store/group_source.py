"""Supplies a consumer group with facts about the messages of a partition.

Messages that are damaged in the log cannot be delivered: the group settles them (marks them as
never to be delivered), logs them and counts them. If the device cannot read messages, they may
still be whole: the error is raised, and the group does not settle them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from lakebed.base.counters import Counters
from lakebed.base.events import event
from lakebed.keratin.damage import OnSkipped, SkippedRange
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.partition import Partition
from lakebed.kernels.checksum import blake3
from lakebed.store.message_counts import MessageCounts
from lakebed.stroma.source import Fact

_log = logging.getLogger(__name__)
_SCHEDULED = int(RecordFlags.SCHEDULED)


class GroupSource:
    """Reads one partition for a consumer group: implements `lakebed.stroma.source.Source`."""

    def __init__(
        self, partition: Partition, *, wants_keys: bool, counters: Counters | None = None
    ) -> None:
        self._partition = partition
        self._wants_keys = wants_keys
        self._counts = MessageCounts(partition, is_compacted=partition.config.compact)
        self._on_skipped = damage_reporter(partition, counters or Counters())

    def start_offset(self) -> int:
        return self._partition.start_offset()

    def high_watermark(self) -> int:
        return self._partition.high_watermark()

    def message_count(self, start: int, end: int) -> int:
        return self._counts.count(start, end)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._partition.on_durable(callback)

    def facts(self, start: int, end: int) -> Sequence[Fact]:
        facts: list[Fact] = []
        position = start
        while position < end:
            first = max(position, self._partition.start_offset())
            if first >= end:
                break
            try:
                for batch in self._partition.read_batches(
                    first, end, skip_damage=True, on_skipped=self._on_skipped
                ):
                    facts += self._of(batch, position)
                    position = batch.next_offset
                break
            except OffsetOutOfRange as error:  # retention removed messages meanwhile
                if error.start_offset <= first:
                    raise
        facts += _missing(position, end)
        return facts

    def _of(self, batch: MessageBatch, position: int) -> Iterator[Fact]:
        offsets = batch.offsets
        first, last = int(offsets[0]), int(offsets[-1])
        yield from _missing(position, first)
        is_dense = last - first == len(offsets) - 1
        is_scheduled = any(flag & _SCHEDULED for flag in set(batch.flags))
        if is_dense and not is_scheduled and not self._wants_keys:
            return
        position = first
        for message in batch:
            yield from _missing(position, message.offset)
            position = message.offset + 1
            key = None
            if self._wants_keys and message.key is not None:
                key = int.from_bytes(blake3(message.key)[:8], "big")
            not_before_ms = message.not_before_ms
            if key is not None or not_before_ms:
                yield Fact(message.offset, key, not_before_ms)


def damage_reporter(partition: Partition, counters: Counters) -> OnSkipped:
    """Returns a callback that logs and counts damaged messages, which a group never delivers.

    If the device could not read the messages, the callback raises that `DiskError` instead.
    """
    damaged = counters.counter("stroma_messages_damaged")

    def report(skipped: SkippedRange) -> None:
        if skipped.unreadable is not None:
            raise skipped.unreadable
        damaged.add(skipped.next_offset - skipped.first_offset)
        event(
            _log,
            "damaged_messages_settled",
            level=logging.ERROR,
            partition=partition.name,
            first_offset=skipped.first_offset,
            next_offset=skipped.next_offset,
            error=skipped.error,
        )

    return report


def _missing(start: int, end: int) -> Iterator[Fact]:
    """Yields a `Fact` that nothing in `[start, end)` can be delivered; none if the range is empty.

    The messages were compacted away or removed by retention, are lost, or are internal to the log.
    """
    if start < end:
        yield Fact(start, is_deliverable=False, message_count=end - start)
