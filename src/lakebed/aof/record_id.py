"""Record ids: a segment's number and a byte offset in its file, packed into 64 bits."""

from __future__ import annotations

from lakebed.base.errors import InputError

_OFFSET_BITS = 32
SEGMENT_INDEX_MAX = (1 << 32) - 1
SEGMENT_OFFSET_MAX = (1 << _OFFSET_BITS) - 1


class RecordId(int):
    """The id of a record: `segment_index << 32 | segment_offset`. Ids sort in log order.

    Any other position in the log, for example the end of a record, is also a `RecordId`.
    """

    __slots__ = ()

    @classmethod
    def from_parts(cls, segment_index: int, segment_offset: int) -> RecordId:
        if not 0 <= segment_index <= SEGMENT_INDEX_MAX:
            raise InputError(f"segment index {segment_index} does not fit in 32 bits")
        if not 0 <= segment_offset <= SEGMENT_OFFSET_MAX:
            raise InputError(f"segment offset {segment_offset} does not fit in 32 bits")
        return cls(segment_index << _OFFSET_BITS | segment_offset)

    @classmethod
    def parse(cls, text: str) -> RecordId:
        """Parses a record id, either the printed form `segment:offset` or the packed number.

        Raises `InputError` if the text is neither, or if a number is too large.
        """
        parts = text.split(":")
        if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise InputError(
                f"{text[:40]!r} is not a record id: use segment:offset, for example 3:64"
            )
        if any(len(part) > 20 for part in parts):
            raise InputError(
                f"{text[:40]!r} is not a record id: use segment:offset, for example 3:64"
            )
        if len(parts) == 2:
            return cls.from_parts(int(parts[0]), int(parts[1]))
        number = int(parts[0])
        return cls.from_parts(number >> _OFFSET_BITS, number & SEGMENT_OFFSET_MAX)

    @property
    def segment_index(self) -> int:
        return int(self) >> _OFFSET_BITS

    @property
    def segment_offset(self) -> int:
        return int(self) & SEGMENT_OFFSET_MAX

    def __str__(self) -> str:
        return f"{self.segment_index}:{self.segment_offset}"

    def __repr__(self) -> str:
        return f"RecordId({self})"
