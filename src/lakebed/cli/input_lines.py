"""Reads standard input and files as records: one record per line, without the newline.

Memory is bounded by the largest record and one read. Lines are yielded as soon as they are
available, so that a slow stream does not wait for a batch to fill. A line that cannot be a record
raises an error with its line number, after the lines before it were yielded.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable, Iterator

from lakebed.base.errors import InputError
from lakebed.base.files import File
from lakebed.base.units import MIB
from lakebed.cli.interrupts import HeldInterrupts

READ_BYTES = 1 * MIB
_SLICE_S = 0.25

Read = Callable[[int], bytes]
"""Reads up to the given number of bytes. Returns an empty result only at the end of the input."""


class BadLine(InputError):
    """A line or a file cannot be a record, or a line cannot be a message.

    The good lines before a bad line were yielded.
    """


def line_batches(read: Read, *, record_bytes_max: int, source: str = "") -> Iterator[list[bytes]]:
    """Yields batches of at least one record each.

    Raises `BadLine` at a line that is empty or too long, after the records before it were yielded.
    The error names the `source`, if it is not empty, and the number of the line.
    """
    place = f"{source}: line" if source else "line"
    number = 0  # of lines yielded
    for lines in cut_lines(read, line_bytes_max=record_bytes_max):
        good = _good_count(lines, record_bytes_max)
        if good:
            yield lines[:good]
        number += good
        if good < len(lines):
            raise _refusal(f"{place} {number + 1}", len(lines[good]), record_bytes_max)


def cut_lines(read: Read, *, line_bytes_max: int) -> Iterator[list[bytes]]:
    """Yields batches of lines without newlines.

    When more than `line_bytes_max` bytes of a line were read but not its end, yields the beginning
    of that line and stops.
    """
    rest: list[bytes] = []  # of a line whose end has not been read
    rest_bytes = 0
    while chunk := read(READ_BYTES):
        first, *others = chunk.split(b"\n")
        rest.append(first)
        rest_bytes += len(first)
        if others:
            yield [b"".join(rest), *others[:-1]]
            rest, rest_bytes = [others[-1]], len(others[-1])
        if rest_bytes > line_bytes_max:
            break
    if rest_bytes:
        yield [b"".join(rest)]


def whole_file(file: File, *, record_bytes_max: int) -> bytes:
    """Reads a whole file as one record. Raises `BadLine` if the file is empty or too large."""
    size = file.size()
    if not 0 < size <= record_bytes_max:
        raise _refusal(f"{file.path}: the file", size, record_bytes_max)
    return file.pread(0, size)


def reads_of(file: File) -> Read:
    """Returns a function that reads a file from its start, the next bytes with each call."""
    offset = 0

    def read(length: int) -> bytes:
        nonlocal offset
        data = file.pread(offset, length)
        offset += len(data)
        return data

    return read


def standard_input(interrupts: HeldInterrupts) -> Read:
    """Returns a function that reads from standard input.

    The function waits only if no bytes are available, and an interrupt ends the wait. If the
    process was started with standard input closed, the function returns no bytes.
    """
    if sys.stdin is None:
        return io.BytesIO().read
    stream = sys.stdin.buffer
    if not isinstance(stream, io.BufferedReader):
        return stream.read

    def read(length: int) -> bytes:
        with interrupts.let_through():
            _wait_for(stream)
            return stream.read1(length)

    return read


def _wait_for(stream: io.BufferedReader) -> None:
    """Waits for input.

    The thread wakes up regularly, because a signal that arrives just before it blocks is handled
    only when it wakes up.
    """
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return
    while not select.select([descriptor], [], [], _SLICE_S)[0]:
        pass


def _good_count(lines: list[bytes], record_bytes_max: int) -> int:
    """Returns the number of lines before the first line that cannot be a record."""
    for index, line in enumerate(lines):
        if not 0 < len(line) <= record_bytes_max:
            return index
    return len(lines)


def _refusal(what: str, size: int, record_bytes_max: int) -> BadLine:
    if not size:
        return BadLine(f"{what} is empty: a record must have at least one byte")
    return BadLine(f"{what} is longer than the maximum record of {record_bytes_max} bytes")
