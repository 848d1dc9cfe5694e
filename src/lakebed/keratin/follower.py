"""Follows a partition: gives its messages as they become durable, and waits for more in between.

See `lakebed.base.follower` for what is promised. A follower that fell behind retention gets
`OffsetOutOfRange`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.base.batch_iterator import BatchIterator
from lakebed.base.follower import FollowerBase
from lakebed.base.units import MIB
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.reader import PartitionReader
from lakebed.keratin.view import PartitionView

BATCH_BYTES = 1 * MIB


class PartitionCursor:
    """A place from which reading goes on. Used by one thread at a time, but for `close`."""

    def __init__(
        self, view: PartitionView, start: int | None, *, batch_bytes_max: int, handles_max: int = 2
    ) -> None:
        self._view = view
        self._reader = PartitionReader(view, handles_max=handles_max, window_bytes=batch_bytes_max)
        self._position = view.start_offset() if start is None else start
        self._batches: Iterator[MessageBatch] = iter(())
        self._end = self._position  # of what `_batches` covers

    @property
    def position(self) -> int:
        """Behind the last message taken."""
        return self._position

    def take(self) -> MessageBatch | None:
        """The next durable messages; None if there are none beyond `position` now.

        `OffsetOutOfRange` if retention removed messages that were not taken, or if there never
        were so many. `Closed` if the partition is.
        """
        batch = next(self._batches, None)
        while batch is None:
            # What was covered has no more messages: gaps and control records at the most.
            self._position = max(self._position, self._end)
            if not self._view.wait_beyond(self._position, 0):
                if self._position > self._view.high_watermark():
                    self._reader.read_batches(self._position)  # raises: there is no such place
                return None
            self._end = self._view.high_watermark()
            self._batches = self._reader.read_batches(self._position, self._end)
            batch = next(self._batches, None)
        self._position = batch.next_offset
        return batch

    def close(self) -> None:
        """Idempotent, from any thread."""
        self._reader.close()


class MessageIterator(BatchIterator[Message, MessageBatch, int]):
    """What messages, batches and offsets are to a follower."""

    def item_of(self, batch: MessageBatch, index: int) -> Message:
        return batch.message(index)

    def position_of(self, batch: MessageBatch, index: int) -> int:
        return int(batch.offsets[index]) if index < len(batch) else batch.next_offset

    def rest_of(self, batch: MessageBatch, first: int) -> MessageBatch:
        return batch.part(first, len(batch))


class Follower(MessageIterator, FollowerBase[Message, MessageBatch, int]):
    """Messages from the offset `start` on, or from the oldest."""

    def __init__(
        self,
        view: PartitionView,
        start: int | None = None,
        *,
        batch_bytes_max: int = BATCH_BYTES,
    ) -> None:
        cursor = PartitionCursor(view, start, batch_bytes_max=batch_bytes_max)
        FollowerBase.__init__(self, view, cursor)
