"""The protocol by which a group reads its log: its start, its end and facts about messages.

The code that connects a group to a log implements it. A group calls it without holding a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Fact(NamedTuple):
    """What is special about a message, or about consecutive offsets with nothing to deliver."""

    offset: int
    key: int | None = None  # a hash of the message's key; None if it has no key
    not_before_ms: int = 0  # the message must not be delivered before; ms since 1970
    is_deliverable: bool = True  # False for control records and compacted messages
    message_count: int = 1  # more than 1 only for undeliverable messages


class Source(Protocol):
    """The log of one partition. The message at an offset below `high_watermark` never changes."""

    def start_offset(self) -> int:
        """Returns the first offset that retention has not removed."""

    def high_watermark(self) -> int:
        """Returns the offset after the last durable message; only durable ones are delivered."""

    def facts(self, start: int, end: int) -> Sequence[Fact]:
        """Returns the facts of `[start, end)`, by offset; messages without a fact are plain.

        Keys are needed only for a group with `per_key_order`.
        """

    def message_count(self, start: int, end: int) -> int:
        """Returns the number of messages in `[start, end)`; offsets without one do not count."""

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` whenever the high watermark moves; returns a function that unsubscribes.

        The callback may be called from any thread, without a lock held.
        """
