"""The messages of one record batch, its records inflated and their lengths verified.

Headers stand in a section of their own behind each message's value, from their count on; it is
opened only for who asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import HEADERS_COUNT_MAX, Header
from lakebed.keratin.message import Message
from lakebed.kernels import record_batch_slices
from lakebed.kernels.format import RecordBatchHeader
from lakebed.kernels.results import BatchRecords
from lakebed.kernels.varints import read_varint, varint

_LENGTH_BITS = 32
_NULL = varint(-1)
# As `Message._make`, which is a Python function, and most of the time that a message takes.
_MESSAGE: Callable[[Iterable[Any]], Message] = partial(tuple.__new__, Message)


class DecodedBatch:
    """The messages as columns over the inflated records, and one by one.

    `columns` are what the kernel gave, with the messages' own offsets and timestamps; their
    positions are those of `buffer`, which views of it keep alive. `record_flags` are those that
    every message of the batch has.
    """

    __slots__ = ("buffer", "columns", "header", "record_flags")

    def __init__(
        self,
        *,
        header: RecordBatchHeader,
        buffer: memoryview,
        columns: BatchRecords,
        record_flags: RecordFlags,
    ) -> None:
        self.header = header
        self.buffer = buffer
        self.columns = columns
        self.record_flags = record_flags

    def __len__(self) -> int:
        return len(self.columns.offsets)

    def __iter__(self) -> Iterator[Message]:
        """Every message with bytes of its own; a null value is a tombstone."""
        columns = self.columns
        has_headers = any(columns.header_counts.tolist())
        rows = zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            record_batch_slices(self.buffer, columns.key_positions, columns.key_lengths),
            record_batch_slices(self.buffer, columns.value_positions, columns.value_lengths),
            map(self.headers, range(len(self))) if has_headers else repeat(()),
            self._flags(),
            strict=False,
        )
        return map(_MESSAGE, rows)

    def key(self, index: int) -> memoryview | None:
        """A view of the key: no copy."""
        return self._view(self.columns.key_positions[index], self.columns.key_lengths[index])

    def value(self, index: int) -> memoryview | None:
        """A view of the value: no copy."""
        return self._view(self.columns.value_positions[index], self.columns.value_lengths[index])

    def headers(self, index: int) -> tuple[Header, ...]:
        """A name that is not UTF-8 gets a mark where it is not, as in Java's clients."""
        position: int = self.columns.header_positions[index]
        end = position + self.columns.header_lengths[index]
        found: list[Header] = []
        for _ in range(self.columns.header_counts[index]):
            length, position = read_varint(self.buffer, position, end, width=_LENGTH_BITS)
            name = str(self.buffer[position : position + length], "utf-8", "replace")
            length, position = read_varint(self.buffer, position + length, end, width=_LENGTH_BITS)
            value = self._view(position, length)
            found.append((name, None if value is None else bytes(value)))
            position += max(0, length)
        return tuple(found)

    def _flags(self) -> Iterator[int]:
        flags = int(self.record_flags)
        lengths = self.columns.value_lengths.tolist()
        if min(lengths, default=0) >= 0:
            return repeat(flags)
        null_flags = int(self.record_flags | RecordFlags.TOMBSTONE)
        return (null_flags if length < 0 else flags for length in lengths)

    def _view(self, position: int, length: int) -> memoryview | None:
        return None if length < 0 else self.buffer[position : position + length]


def header_section(headers: Sequence[Header]) -> bytes:
    """What `DecodedBatch.headers` reads, and the count before it; no bytes for no headers."""
    if not headers:
        return b""
    if len(headers) > HEADERS_COUNT_MAX:
        raise TooLarge("the number of headers", size=len(headers), limit=HEADERS_COUNT_MAX)
    parts = [varint(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise InputError(f"header name {name[:40]!r}: not text") from None
        parts += [varint(len(encoded)), encoded]
        parts += [_NULL] if value is None else [varint(len(value)), value]
    return b"".join(parts)
