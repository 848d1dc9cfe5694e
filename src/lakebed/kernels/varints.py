"""Encodes and decodes the variable-length numbers of Kafka's record format.

Each byte holds seven bits, lowest first; the eighth bit is set if more bytes follow. Values are
zigzag-encoded: 0, -1, 1, -2 … become 0, 1, 2, 3 …
"""

from __future__ import annotations


class BadVarint(Exception):
    """The bytes are not a valid number: the data ends inside the number (`is_cut`), or the number
    is too long.
    """

    def __init__(self, *, is_cut: bool) -> None:
        super().__init__("a number is cut short" if is_cut else "a number is too long")
        self.is_cut = is_cut


def read_varint(view: memoryview, position: int, end: int, *, width: int) -> tuple[int, int]:
    """Reads a number of up to `width` bits at `position`, and returns it with the position after
    it. Raises `BadVarint` if it is too long or does not end before `end`.
    """
    word = 0
    for shift in range(0, width, 7):
        if position == end:
            raise BadVarint(is_cut=True)
        byte = view[position]
        position += 1
        bits = byte & 0x7F
        if bits >> (width - shift):
            raise BadVarint(is_cut=False)
        word |= bits << shift
        if byte < 0x80:
            return (word >> 1) ^ -(word & 1), position
    raise BadVarint(is_cut=False)


def varint(value: int) -> bytes:
    """Returns the shortest encoding of a number."""
    word = value << 1 if value >= 0 else (-value << 1) - 1
    data = bytearray()
    while word > 0x7F:
        data.append(word & 0x7F | 0x80)
        word >>= 7
    data.append(word)
    return bytes(data)
