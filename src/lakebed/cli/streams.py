"""Standard input as bytes, handed on as they come."""

from __future__ import annotations

import io
import sys

from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.lines import Read


def standard_input(interrupts: HeldInterrupts) -> Read:
    """Reads what is there, and waits only if nothing is; an interrupt ends the waiting.

    Nothing, if it was closed all along.
    """
    if sys.stdin is None:
        return io.BytesIO().read
    stream = sys.stdin.buffer
    read_some = stream.read1 if isinstance(stream, io.BufferedReader) else stream.read

    def read(length: int) -> bytes:
        with interrupts.let_through():
            return read_some(length)

    return read
