"""Which bytes of an object are asked for."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.seglake.errors import BadRange
from lakebed.seglake.model import ObjectInfo


class ByteRange(NamedTuple):
    """A range of bytes from `first` to `last`, both inclusive, as in HTTP.

    Without `last` it extends to the end; without `first` it is the last `last` bytes.
    """

    first: int | None
    last: int | None = None

    def resolve(self, size: int) -> tuple[int, int]:
        """Start and end of it in an object of that size; `BadRange` if it has no byte there."""
        if self.first is None:
            length = min(self.last or 0, size)
            start, end = size - length, size
        else:
            start = self.first
            end = size if self.last is None else min(self.last + 1, size)
        if not 0 <= start < end:
            raise BadRange(f"{self} has no byte in an object of {size} bytes", size=size)
        return start, end

    def __str__(self) -> str:
        first = "" if self.first is None else self.first
        last = "" if self.last is None else self.last
        return f"bytes={first}-{last}"


def part_range(info: ObjectInfo, number: int) -> range | None:
    """The bytes of a part, which may be none; None if they are all of an object."""
    sizes = info.part_sizes
    if not sizes and number == 1:
        return None
    if not 1 <= number <= len(sizes):
        raise InputError(f"there is no part {number} in an object of {max(1, len(sizes))}")
    first = sum(sizes[: number - 1])
    return range(first, first + sizes[number - 1])
