"""Standard output and standard error of a command.

A line of a report or a note stays one line: control characters, line separators and bytes that are
not text are escaped, because names and paths may contain anything. Only `Output.write` writes bytes
unchanged.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any, TextIO

from lakebed.cli.report import Part, document_of, one_line


class Output:
    """Prints reports, as lines or as one JSON document."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def show(self, *parts: Part) -> None:
        """Prints a report: with `--json` as one document, otherwise as lines."""
        if self.as_json:
            # In ASCII, so that it can be printed in any locale.
            print(json.dumps(document_of(parts), indent=2, default=os.fspath))
            return
        for part in parts:
            for text in part.lines():
                print(one_line(text))

    def line(self, text: str) -> None:
        """Prints one line immediately. With `--json` prints nothing, because the document comes at
        the end."""
        if not self.as_json:
            print(one_line(text), flush=True)

    def write(self, data: bytes) -> None:
        """Writes bytes unchanged, after everything that was printed before them."""
        if sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def note(self, text: str) -> None:
        """Prints one line to standard error: a remark that is not part of the result."""
        if sys.stderr is not None:
            print(f"lakebed: {one_line(text)}", file=sys.stderr, flush=True)


def buffer_unbuffered() -> None:
    """Makes the output complete a write that the system cut short, or fail.

    With `PYTHONUNBUFFERED`, Python's own streams drop the rest without an error, for example if the
    reader of a pipe goes away or a disk is full.
    """
    for name, original in (("stdout", sys.__stdout__), ("stderr", sys.__stderr__)):
        # A stream with which the calling program replaced Python's own is left as it is.
        stream = original if getattr(sys, name) is original else None
        if stream is not None and isinstance(raw := stream.buffer, io.RawIOBase):
            buffered = io.BufferedWriter(raw)
            text = io.TextIOWrapper(buffered, stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, text)


def tolerate_any_character() -> None:
    """Makes the output escape characters that the terminal's encoding lacks, instead of raising an
    error."""
    for stream in (sys.stdout, sys.stderr):
        # A stream is None if the process was started with it closed.
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flushes standard output. If that fails, the command fails."""
    if sys.stdout is not None:
        sys.stdout.flush()


def finish() -> None:
    """Flushes standard output and standard error, so that the interpreter cannot fail on them at
    exit. Drops what cannot be written."""
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
