"""Reads messages from lines, in batches: one message per line, without the newline.

Without a separator, a line is a value, which may be empty. With a separator, a line is a key, the
separator and a value. Memory is bounded by the largest message and one read. Lines are yielded as
soon as they are available, so that a slow stream does not wait for a batch to fill. A line that
cannot be a message raises an error with its line number, after the lines before it were yielded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.cli.input_lines import BadLine, Read, cut_lines


class Messages(NamedTuple):
    """A batch of one or more messages. `keys` is None if no message has a key."""

    keys: list[bytes] | None
    values: list[bytes | None]  # None: the message deletes its key


@dataclass(frozen=True, kw_only=True)
class LineFormat:
    """How a line is split into a key and a value, and how long it may be."""

    message_bytes_max: int  # of key and value together
    separator: bytes | None = None  # between key and value
    null_value: bytes | None = None  # a value that means: the message has no value

    @property
    def line_bytes_max(self) -> int:
        return self.message_bytes_max + len(self.separator or b"")


def message_batches(read: Read, line_format: LineFormat, *, source: str = "") -> Iterator[Messages]:
    """Yields batches of messages.

    Raises `BadLine` at a line that is too long, or that lacks the separator that the format needs,
    after the messages before it were yielded. The error names the `source`, if it is not empty, and
    the number of the line.
    """
    place = f"{source}: line" if source else "line"
    number = 0  # of lines yielded
    for lines in cut_lines(read, line_bytes_max=line_format.line_bytes_max):
        good = _good_count(lines, line_format)
        if good:
            yield _messages(lines[:good], line_format)
        number += good
        if good < len(lines):
            raise BadLine(f"{place} {number + 1} {_problem(lines[good], line_format)}")


def _good_count(lines: list[bytes], line_format: LineFormat) -> int:
    """Returns the number of lines before the first line that cannot be a message."""
    for index, line in enumerate(lines):
        is_too_long = len(line) > line_format.line_bytes_max
        if is_too_long or (line_format.separator is not None and line_format.separator not in line):
            return index
    return len(lines)


def _problem(line: bytes, line_format: LineFormat) -> str:
    if len(line) > line_format.line_bytes_max:
        return f"is longer than the maximum message of {line_format.message_bytes_max} bytes"
    return "has no key separator"


def _messages(lines: list[bytes], line_format: LineFormat) -> Messages:
    if line_format.separator is None:
        return Messages(None, [*lines])
    split = [line.partition(line_format.separator) for line in lines]
    null = line_format.null_value
    values = [None if value == null else value for _, _, value in split]
    return Messages([key for key, _, _ in split], values)
