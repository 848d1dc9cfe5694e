# Made by `python -m tools.asynced` of `src/lakebed/keratin/follower.py`: edit that.
"""Follows a partition: yields its messages as they become durable, and waits for more.

See `lakebed.base.follower` for the guarantees. A follower raises `OffsetOutOfRange` if retention
removed messages that it had not read yet.
"""

from __future__ import annotations

from lakebed.aio.client.batch_iterator import BatchIterator
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch


class MessageIterator(BatchIterator[Message, MessageBatch, int]):
    """Implements the follower's iteration for messages, message batches and offsets."""

    def item_of(self, batch: MessageBatch, index: int) -> Message:
        return batch.message(index)

    def position_of(self, batch: MessageBatch, index: int) -> int:
        return int(batch.offsets[index]) if index < len(batch) else batch.next_offset

    def rest_of(self, batch: MessageBatch, first: int) -> MessageBatch:
        return batch.part(first, len(batch))
