"""A message as readers receive it."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header

# The header with the time, in ms since 1970, before which groups do not deliver the message.
NOT_BEFORE_HEADER = "lakebed-not-before-ms"


class Message(NamedTuple):
    """One message with its own copy of the bytes; `value` is None for a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    flags: int = 0

    @property
    def is_tombstone(self) -> bool:
        return bool(self.flags & RecordFlags.TOMBSTONE)

    @property
    def not_before_ms(self) -> int:
        """The earliest time at which consumer groups deliver the message, in ms since 1970.

        0 if the message is not scheduled, or if the value of its header is not a decimal number.
        """
        for name, value in self.headers:
            if name == NOT_BEFORE_HEADER and value is not None and value.isdigit():
                return int(value[:20])
        return 0
