"""Standard input as bytes, handed on as they come."""

from __future__ import annotations

import io
import sys

from lakebed.cli.lines import Read


def standard_input() -> Read:
    """Reads what is there, and waits only if nothing is. Nothing if it was closed all along."""
    if sys.stdin is None:
        return io.BytesIO().read
    stream = sys.stdin.buffer
    return stream.read1 if isinstance(stream, io.BufferedReader) else stream.read
