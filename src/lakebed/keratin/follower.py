"""Follows a partition: yields its messages as they become durable, and waits for more.

See `lakebed.base.follower` for the guarantees. A follower raises `OffsetOutOfRange` if retention
removed messages that it had not read yet.
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
    """A position in a partition that advances as messages are taken.

    Only one thread may use it at a time, except that any thread may call `close`.
    """

    def __init__(
        self, view: PartitionView, start: int | None, *, batch_bytes_max: int, handles_max: int = 2
    ) -> None:
        self._view = view
        self._reader = PartitionReader(view, handles_max=handles_max, window_bytes=batch_bytes_max)
        self._position = view.start_offset() if start is None else start
        self._batches: Iterator[MessageBatch] = iter(())
        self._end = self._position  # the end of the range that `_batches` covers

    @property
    def position(self) -> int:
        """The offset from which `take` continues."""
        return self._position

    def take(self) -> MessageBatch | None:
        """Returns the next durable messages, or None if there are none at or after `position` yet.

        Raises `OffsetOutOfRange` if retention removed messages that were not taken, or if
        `position` is after the high watermark; `Corrupt` at damage; and `Closed` if the partition
        is closed.
        """
        batch = next(self._batches, None)
        while batch is None:
            # The covered range has no more messages; gaps or control records may remain.
            self._position = max(self._position, self._end)
            if not self._view.wait_beyond(self._position, 0):
                if self._position > self._view.high_watermark():
                    self._reader.read_batches(self._position)  # raises `OffsetOutOfRange`
                return None
            self._end = self._view.high_watermark()
            self._batches = self._reader.read_batches(self._position, self._end)
            batch = next(self._batches, None)
        self._position = batch.next_offset
        return batch

    def close(self) -> None:
        """Closes the files. Idempotent; may be called from any thread."""
        self._reader.close()


class MessageIterator(BatchIterator[Message, MessageBatch, int]):
    """Iterates over single messages, which are taken in batches. Positions are offsets."""

    def item_of(self, batch: MessageBatch, index: int) -> Message:
        return batch.message(index)

    def position_of(self, batch: MessageBatch, index: int) -> int:
        return int(batch.offsets[index]) if index < len(batch) else batch.next_offset

    def rest_of(self, batch: MessageBatch, first: int) -> MessageBatch:
        return batch.part(first, len(batch))


class Follower(MessageIterator, FollowerBase[Message, MessageBatch, int]):
    """Follows a partition from offset `start`, or from its oldest message if `start` is None."""

    def __init__(
        self,
        view: PartitionView,
        start: int | None = None,
        *,
        batch_bytes_max: int = BATCH_BYTES,
    ) -> None:
        cursor = PartitionCursor(view, start, batch_bytes_max=batch_bytes_max)
        FollowerBase.__init__(self, view, cursor)
