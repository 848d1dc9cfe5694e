"""The byte ranges of an object that a request reads."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.seglake.errors import BadRange
from lakebed.seglake.model import ObjectInfo


class ByteRange(NamedTuple):
    """The bytes from `first` to `last`, both inclusive, as in HTTP.

    If `last` is None, the range goes to the end; if `first` is None, it is the final `last` bytes.
    """

    first: int | None
    last: int | None = None

    def resolve(self, size: int) -> tuple[int, int]:
        """Returns the half-open range `(start, end)` within an object of `size` bytes.

        Raises `BadRange` if no byte of the object is in the range.
        """
        if self.first is None:
            length = min(self.last or 0, size)
            start, end = size - length, size
        else:
            start = self.first
            end = size if self.last is None else min(self.last + 1, size)
        if not 0 <= start < end:
            raise BadRange(
                f"the range {self} is outside the object, which has {size} bytes", size=size
            )
        return start, end

    def __str__(self) -> str:
        first = "" if self.first is None else self.first
        last = "" if self.last is None else self.last
        return f"bytes={first}-{last}"


def part_range(info: ObjectInfo, number: int) -> range | None:
    """Returns the range of bytes of a part of the object.

    An object that was not uploaded in parts has only part 1, for which None is returned. Raises
    `InputError` if the part does not exist.
    """
    sizes = info.part_sizes
    if not sizes and number == 1:
        return None
    if not 1 <= number <= len(sizes):
        raise InputError(
            f"part {number} does not exist: the object's number of parts is {max(1, len(sizes))}"
        )
    first = sum(sizes[: number - 1])
    return range(first, first + sizes[number - 1])
