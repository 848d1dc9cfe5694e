"""A message that a consumer group would deliver next: nobody holds it."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.keratin.headers import Header
from lakebed.keratin.message import Message


class PeekedMessage(NamedTuple):
    """Fields as a `LeasedMessage` has them, but for those of the lease."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def message(self) -> Message:
        """As it is in the log."""
        return Message(self.offset, self.timestamp_ms, self.key, self.value, self.headers)
