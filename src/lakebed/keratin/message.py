"""A message as its readers get it."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header

NOT_BEFORE_HEADER = "lakebed-not-before-ms"  # decimal digits: groups do not deliver it before


class Message(NamedTuple):
    """A message. `value` is None for a tombstone or a null value."""

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
        """The earliest time at which groups deliver the message; 0: any time."""
        for name, value in self.headers:
            if name == NOT_BEFORE_HEADER and value is not None and value.isdigit():
                return int(value[:20])
        return 0
