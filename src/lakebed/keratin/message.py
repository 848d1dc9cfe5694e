"""A message as readers receive it."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Header

NOT_BEFORE_HEADER = "lakebed-not-before-ms"  # decimal ms: consumer groups deliver it only then


class Message(NamedTuple):
    """One message with its own copy of the bytes. A tombstone or a null value has `value` None."""

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
        """The earliest time at which consumer groups deliver the message; 0 if there is none."""
        for name, value in self.headers:
            if name == NOT_BEFORE_HEADER and value is not None and value.isdigit():
                return int(value[:20])
        return 0
