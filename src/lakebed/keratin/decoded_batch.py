"""The messages of one record batch after decompression, with all lengths verified.

The headers of a message are stored after its value, preceded by their count. They are decoded only
on request.
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
# Faster than `Message._make`, which is a Python function and would dominate the decoding time.
_MESSAGE: Callable[[Iterable[Any]], Message] = partial(tuple.__new__, Message)


class DecodedBatch:
    """The messages of a record batch, as columns and, by iteration, as `Message` objects.

    `columns` come from the kernel. They hold the offset and timestamp of each message, and the
    positions of its key, value and headers in `buffer`. Views of `buffer` keep it alive.
    `record_flags` apply to every message of the batch.
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
        """Yields every message with its own copy of the bytes. A null value is a tombstone."""
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
        """Returns a view of the message's key, without copying it; None if the key is null."""
        return self._view(self.columns.key_positions[index], self.columns.key_lengths[index])

    def value(self, index: int) -> memoryview | None:
        """Returns a view of the message's value, without copying it; None if the value is null."""
        return self._view(self.columns.value_positions[index], self.columns.value_lengths[index])

    def headers(self, index: int) -> tuple[Header, ...]:
        """Decodes the headers of the message at `index`.

        Invalid UTF-8 in a name becomes U+FFFD, as in Kafka's Java client.
        """
        position: int = self.columns.header_positions[index]
        end = position + self.columns.header_lengths[index]
        headers: list[Header] = []
        for _ in range(self.columns.header_counts[index]):
            length, position = read_varint(self.buffer, position, end, width=_LENGTH_BITS)
            name = str(self.buffer[position : position + length], "utf-8", "replace")
            length, position = read_varint(self.buffer, position + length, end, width=_LENGTH_BITS)
            value = self._view(position, length)
            headers.append((name, None if value is None else bytes(value)))
            position += max(0, length)
        return tuple(headers)

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
    """Encodes the headers of a message and their count; `DecodedBatch.headers` decodes them.

    Returns no bytes if there are no headers; the record encoder then writes the count itself.
    Raises `TooLarge` if there are too many headers, and `InputError` if a name cannot be encoded.
    """
    if not headers:
        return b""
    if len(headers) > HEADERS_COUNT_MAX:
        raise TooLarge("the number of headers", size=len(headers), limit=HEADERS_COUNT_MAX)
    parts = [varint(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise InputError(f"header name {name[:40]!r}: cannot be encoded as UTF-8") from None
        parts += [varint(len(encoded)), encoded]
        parts += [_NULL] if value is None else [varint(len(value)), value]
    return b"".join(parts)
