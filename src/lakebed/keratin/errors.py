"""The errors of topics and their messages, as subclasses of the errors in `lakebed.base`.

InputError
├── OffsetOutOfRange     (NotFound) the message was removed, or does not exist yet
├── ProducerFenced       a producer with the same id and a newer epoch has taken over
└── OutOfOrderSequence   the sequence is neither the next one nor that of a remembered message

LakebedError
├── CodecMissing         a compressed batch needs a package that is not installed
└── PartlyAppended       some partitions took their messages, and the append to another one failed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import InputError, LakebedError, NotFound

_NAMED_MAX = 10  # partitions listed in an error message


class OffsetOutOfRange(NotFound):
    """The offset is before the partition's start, or after its high watermark."""

    def __init__(self, name: str, offset: int, *, start_offset: int, high_watermark: int) -> None:
        super().__init__(
            f"{name}: offset {offset} is out of range (allowed: {start_offset} to {high_watermark})"
        )
        self.offset = offset
        self.start_offset = start_offset
        self.high_watermark = high_watermark


class ProducerFenced(InputError):
    """The producer's epoch has ended: a producer with the same id and a newer epoch took over."""


class OutOfOrderSequence(InputError):
    """The sequence is neither the producer's next one (0 in a new epoch) nor a remembered one.

    Either earlier messages of this producer are missing, or these messages were appended so long
    ago that they are no longer remembered.
    """


class CodecMissing(LakebedError):
    """A compressed record batch cannot be read or written without an optional package.

    This does not mean that the batch is damaged. The message names the package extra to install.
    """

    exit_code = 69


class AppendedPart(NamedTuple):
    """The messages of a request that were appended to one partition."""

    partition: int
    base_offset: int
    message_count: int


class PartlyAppended(LakebedError):
    """The messages of some partitions were appended; the append to at least one other failed.

    Sending the whole request again would duplicate the messages listed in `appended`.
    """

    def __init__(self, cause: LakebedError, appended: Iterable[AppendedPart]) -> None:
        self.appended = tuple(appended)
        self.cause = str(cause)
        names = ", ".join(str(part.partition) for part in self.appended[:_NAMED_MAX])
        more = ", …" if len(self.appended) > _NAMED_MAX else ""
        super().__init__(
            f"messages were appended to partitions {names}{more}, but the append to another "
            f"partition failed: {cause}"
        )
