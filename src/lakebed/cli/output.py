"""What the command line prints: lines, tables, or one JSON document.

Nothing that is printed as a line can break out of it: control characters, line separators and
bytes that are no text are escaped, for names and paths may come from anybody.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

# Unicode calls these letters' neighbours: line and paragraph separators, and the marks that
# reorder what stands around them.
_INVISIBLE = frozenset(
    "\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


class Output:
    """Standard output, as a person or as a program wants it."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def line(self, text: str) -> None:
        """Print one line at once; nothing with `--json`, whose document comes at the end."""
        if not self.as_json:
            print(one_line(text), flush=True)

    def write(self, data: bytes) -> None:
        """Write bytes as they are, behind whatever was printed before them."""
        if sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def note(self, text: str) -> None:
        """Tell something beside the result: one line on standard error."""
        if sys.stderr is not None:
            print(f"lakebed: {one_line(text)}", file=sys.stderr, flush=True)

    def result(self, document: Mapping[str, object], *, lines: Iterable[str]) -> None:
        """Print a command's result: the document with `--json`, else the lines."""
        if self.as_json:
            print(document_text(document))
            return
        for text in lines:
            print(one_line(text))


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as lines in aligned columns, whatever the terminal's width: they can be grepped."""
    cells = [tuple(heading), *(tuple(map(one_line, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def one_line(text: str) -> str:
    """The text with everything escaped that is not plainly visible on one line."""
    if text.isprintable() and _INVISIBLE.isdisjoint(text):
        return text
    return "".join(map(_visible, text))


def document_text(document: Mapping[str, object]) -> str:
    """One JSON document in ASCII, so that it can be printed in any locale."""
    return json.dumps(document, indent=2, default=os.fspath)


def tolerate_any_character() -> None:
    """Escape what the terminal's encoding lacks, where Python would raise."""
    for stream in (sys.stdout, sys.stderr):
        # A stream is None if the process was started with it closed.
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write out what was printed; an error here is a failure of the command."""
    if sys.stdout is not None:
        sys.stdout.flush()


def finish() -> None:
    """Make sure that nothing is left for the interpreter to write, and to fail on, as it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _drop_rest(stream)


def _drop_rest(stream: TextIO) -> None:
    # The reader went away or the disk is full: the buffered rest goes to the null device.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _visible(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    if "\udc80" <= character <= "\udcff":
        # How Python carries a byte of a path that is not UTF-8.
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
