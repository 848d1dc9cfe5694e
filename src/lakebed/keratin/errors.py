"""What may go wrong with topics and their messages, below the errors of the base.

InputError
├── OffsetOutOfRange     (NotFound) the message is gone, or not there yet
├── ProducerFenced       a newer one with this id has taken over
└── OutOfOrderSequence   messages before these are missing

LakebedError
├── CodecMissing         a compressed batch needs a package that is not installed
└── PartlyAppended       some partitions have their messages, and would have them twice
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import InputError, LakebedError, NotFound

_NAMED_MAX = 10  # partitions in the text of an error


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


class CodecMissing(LakebedError):
    """A compressed record batch cannot be read or written without an optional package.

    Nothing is wrong with the batch. The message names the extra to install.
    """

    exit_code = 69


class AppendedPart(NamedTuple):
    """The messages that went to one partition."""

    partition: int
    base_offset: int
    message_count: int


class PartlyAppended(LakebedError):
    """Messages for some partitions were appended, others were not.

    Sent again as a whole, those of `appended` would be there twice.
    """

    def __init__(self, cause: LakebedError, appended: Iterable[AppendedPart]) -> None:
        self.appended = tuple(appended)
        self.cause = str(cause)
        names = ", ".join(str(part.partition) for part in self.appended[:_NAMED_MAX])
        more = ", …" if len(self.appended) > _NAMED_MAX else ""
        super().__init__(f"appended to partition {names}{more} alone, for: {cause}")
