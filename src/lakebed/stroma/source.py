"""The protocol by which a group reads its log: its start, its end and facts about messages.

The code that connects a group to a log implements this protocol. A group calls it without holding a
lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Fact(NamedTuple):
    """Describes a message that has a key, is scheduled for a certain time or cannot be delivered.

    A fact may also describe several consecutive offsets that all have nothing to deliver.
    """

    offset: int
    key: int | None = None  # a hash of the message's key; None if it has no key
    not_before_ms: int = 0  # the message must not be delivered before; ms since 1970
    is_deliverable: bool = True  # False for control records and compacted messages
    message_count: int = 1  # more than 1 only for undeliverable messages


class Source(Protocol):
    """The log of one partition.

    Messages below `high_watermark` never change, but retention and compaction may remove them.
    """

    def start_offset(self) -> int:
        """Returns the first offset that retention has not removed."""

    def high_watermark(self) -> int:
        """Returns the offset after the last durable message.

        Only durable messages are delivered.
        """

    def facts(self, start: int, end: int) -> Sequence[Fact]:
        """Returns the facts about messages `[start, end)`, in the order of their offsets.

        A message without a fact is deliverable now and has no key. For a group without
        `per_key_order`, the keys may be left out.
        """

    def message_count(self, start: int, end: int) -> int:
        """Returns the number of messages in `[start, end)`; some offsets may have no message."""

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` whenever the high watermark moves; returns a function that unsubscribes.

        The callback may be called from any thread, and also when nothing has changed. No lock is
        held during the call.
        """
