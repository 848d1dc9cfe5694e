"""What may go wrong with topics and their messages, below the errors of the base.

InputError
├── OffsetOutOfRange     (NotFound) the message is gone, or not there yet
├── ProducerFenced       a newer one with this id has taken over
└── OutOfOrderSequence   messages before these are missing
"""

from __future__ import annotations

from lakebed.base.errors import InputError, NotFound


class OffsetOutOfRange(NotFound):
    """Before the partition's start, or behind its high watermark."""

    def __init__(self, name: str, offset: int, *, start_offset: int, high_watermark: int) -> None:
        super().__init__(
            f"{name}: offset {offset} is not within {start_offset} to {high_watermark}"
        )
        self.offset = offset
        self.start_offset = start_offset
        self.high_watermark = high_watermark


class ProducerFenced(InputError):
    """The producer's epoch is over: another one with its id writes now."""


class OutOfOrderSequence(InputError):
    """The producer's messages before these did not arrive."""
