"""Records from lines: cut from a stream in batches, each line a record, its newline removed.

Memory is bounded by the largest record and one read. What is available is handed on at once, so
that a slow stream is not kept waiting for a batch to fill. A line that cannot be a record ends it
with its number, and not before the lines in front of it were handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakebed.base.errors import InputError
from lakebed.base.files import File
from lakebed.base.units import MIB

READ_BYTES = 1 * MIB

Read = Callable[[int], bytes]
"""At most that many bytes, at least one, or none at the end."""


class BadLine(InputError):
    """A line or a file that cannot be a record; what stands before it was handed on."""


def line_batches(read: Read, *, record_bytes_max: int, source: str = "") -> Iterator[list[bytes]]:
    """Batches of records, none empty; `source` is where the lines are from, for errors."""
    place = f"{source}: line" if source else "line"
    rest: list[bytes] = []  # of a line whose end was not read yet
    rest_bytes = 0
    number = 0  # of lines handed on
    while chunk := read(READ_BYTES):
        first, *others = chunk.split(b"\n")
        rest.append(first)
        rest_bytes += len(first)
        if others:
            lines = [b"".join(rest), *others[:-1]]
            rest, rest_bytes = [others[-1]], len(others[-1])
            good = _good_count(lines, record_bytes_max)
            if good:
                yield lines[:good]
            number += good
            if good < len(lines):
                raise _refusal(f"{place} {number + 1}", len(lines[good]), record_bytes_max)
        if rest_bytes > record_bytes_max:
            raise _refusal(f"{place} {number + 1}", rest_bytes, record_bytes_max)
    if rest_bytes:
        yield [b"".join(rest)]


def whole_file(file: File, *, record_bytes_max: int) -> bytes:
    """All of a file as one record."""
    size = file.size()
    if not 0 < size <= record_bytes_max:
        raise _refusal(f"{file.path}: the file", size, record_bytes_max)
    return file.pread(0, size)


def reads_of(file: File) -> Read:
    """Reads a file from its start on."""
    offset = 0

    def read(length: int) -> bytes:
        nonlocal offset
        data = file.pread(offset, length)
        offset += len(data)
        return data

    return read


def _good_count(lines: list[bytes], record_bytes_max: int) -> int:
    """How many lines, from the first on, can be records."""
    for index, line in enumerate(lines):
        if not 0 < len(line) <= record_bytes_max:
            return index
    return len(lines)


def _refusal(what: str, size: int, record_bytes_max: int) -> BadLine:
    if not size:
        return BadLine(f"{what} is empty, a record has at least one byte")
    return BadLine(f"{what} is longer than a record can be, which is {record_bytes_max} bytes")
