"""The log as a group sees it: where it starts and ends, and what is special about a message.

Whoever joins a group to a log implements this. A group calls none of it with a lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Fact(NamedTuple):
    """A message that needs care, or several in a row without anything to deliver."""

    offset: int
    key: int | None = None  # a hash of the message's key; None: it has none
    not_before_ms: int = 0  # ms since 1970 before which it must not be delivered
    is_deliverable: bool = True  # False: a control record, or compacted away
    message_count: int = 1  # more only if they are not deliverable


class Source(Protocol):
    """One partition. Offsets below `high_watermark` never change their message."""

    def start_offset(self) -> int:
        """The first offset that retention has left."""

    def high_watermark(self) -> int:
        """The end of what may be delivered: durable, so that no offset is ever used again."""

    def facts(self, start: int, end: int) -> Sequence[Fact]:
        """The messages of `[start, end)` that need care, by offset; all others are plain.

        Keys need be told only to a group that keeps their order.
        """

    def message_count(self, start: int, end: int) -> int:
        """How many messages of `[start, end)` there are: offsets without one do not count."""

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call whenever the high watermark has moved, until the function returned is called.

        From any thread, without a lock held.
        """
