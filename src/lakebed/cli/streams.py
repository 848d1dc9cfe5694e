"""Standard input as bytes, handed on as they come."""

from __future__ import annotations

import io
import select
import sys

from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.lines import Read

_SLICE_S = 0.25


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
