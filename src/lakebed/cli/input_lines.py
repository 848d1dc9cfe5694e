"""Records from lines: cut from a stream in batches, each line a record, its newline removed.

Memory is bounded by the largest record and one read. What is available is handed on at once, so
that a slow stream is not kept waiting for a batch to fill. A line that cannot be a record ends it
with its number, and not before the lines in front of it were handed on.
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
"""At most that many bytes, at least one, or none at the end."""


class BadLine(InputError):
    """A line or a file that cannot be a record; what stands before it was handed on."""


def line_batches(read: Read, *, record_bytes_max: int, source: str = "") -> Iterator[list[bytes]]:
    """Batches of records, none empty; `source` is where the lines are from, for errors."""
    place = f"{source}: line" if source else "line"
    number = 0  # of lines handed on
    for lines in cut_lines(read, line_bytes_max=record_bytes_max):
        good = _good_count(lines, record_bytes_max)
        if good:
            yield lines[:good]
        number += good
        if good < len(lines):
            raise _refusal(f"{place} {number + 1}", len(lines[good]), record_bytes_max)


def cut_lines(read: Read, *, line_bytes_max: int) -> Iterator[list[bytes]]:
    """Lines without their newlines; one that grows too long is the last, and not all of it."""
    rest: list[bytes] = []  # of a line whose end was not read yet
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


def standard_input(interrupts: HeldInterrupts) -> Read:
    """Reads what is there, and waits only if nothing is; an interrupt ends the waiting.

    Nothing, if it was closed all along.
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
    """A signal that comes just before this thread blocks is handled only when it wakes: so it
    wakes now and then, or an interrupt could be lost."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return
    while not select.select([descriptor], [], [], _SLICE_S)[0]:
        pass


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
