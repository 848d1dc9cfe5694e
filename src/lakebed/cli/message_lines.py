"""Messages from lines: cut from a stream in batches, each line a message, its newline removed.

An empty line is an empty message. With a separator a line is a key and a value. Memory is bounded
by the largest message and one read. What is available is handed on at once, so that a slow stream
is not kept waiting for a batch to fill. A line that cannot be a message ends it with its number,
and not before the lines in front of it were handed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.cli.input_lines import BadLine, Read, cut_lines


class Messages(NamedTuple):
    """Some of them, at least one; `keys` is None if none has one."""

    keys: list[bytes] | None
    values: list[bytes | None]  # None deletes its key


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """How a line becomes a message."""

    message_bytes_max: int  # of key and value together
    separator: bytes | None = None  # between key and value
    null_value: bytes | None = None  # the value that stands for none

    @property
    def line_bytes_max(self) -> int:
        return self.message_bytes_max + len(self.separator or b"")


def message_batches(read: Read, line_format: LineFormat, *, source: str = "") -> Iterator[Messages]:
    """Batches of messages; `source` is where the lines are from, for errors."""
    place = f"{source}: line" if source else "line"
    number = 0  # of lines handed on
    for lines in cut_lines(read, line_bytes_max=line_format.line_bytes_max):
        good = _good_count(lines, line_format)
        if good:
            yield _messages(lines[:good], line_format)
        number += good
        if good < len(lines):
            raise BadLine(f"{place} {number + 1} {_problem(lines[good], line_format)}")


def _good_count(lines: list[bytes], line_format: LineFormat) -> int:
    """How many lines, from the first on, can be messages."""
    for index, line in enumerate(lines):
        is_too_long = len(line) > line_format.line_bytes_max
        if is_too_long or (line_format.separator is not None and line_format.separator not in line):
            return index
    return len(lines)


def _problem(line: bytes, line_format: LineFormat) -> str:
    if len(line) > line_format.line_bytes_max:
        return f"is longer than a message can be, which is {line_format.message_bytes_max} bytes"
    return "has no key separator"


def _messages(lines: list[bytes], line_format: LineFormat) -> Messages:
    if line_format.separator is None:
        return Messages(None, [*lines])
    split = [line.partition(line_format.separator) for line in lines]
    null = line_format.null_value
    values = [None if value == null else value for _, _, value in split]
    return Messages([key for key, _, _ in split], values)
