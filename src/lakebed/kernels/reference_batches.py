"""Encodes and decodes the records section of a Kafka record batch, in plain Python like
`reference`.

    records := record{count}
    record  := length varint, attributes u8, timestamp delta varlong, offset delta varint,
               key, value, header count varint, header{count}
    key, value := length varint (-1: null), bytes
    header  := name length varint, name, value

A varint (see `varints`) has a value of up to 32 bits, a varlong one of up to 64 bits.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

from lakebed.base.files.writing import byte_view
from lakebed.kernels import arguments
from lakebed.kernels.arguments import I32_MAX, I64_MAX, I64_MIN, U32_MAX
from lakebed.kernels.format import BATCH_RECORD_BYTES_MIN
from lakebed.kernels.results import BatchEncoded, BatchRecords, BatchStop, Column
from lakebed.kernels.varints import BadVarint, read_varint, varint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from lakebed.kernels.arguments import Numbers

_ATTRIBUTES = b"\0"  # the attributes of a record: none are defined
_NO_HEADERS = b"\0"
_COLUMN_CODES = "QqIiIiIII"


def record_batch_encode(
    values: Iterable[ReadableBuffer | None],
    keys: Iterable[ReadableBuffer | None] | None = None,
    headers: Iterable[ReadableBuffer | None] | None = None,
    *,
    timestamps_ms: Numbers,
    first_timestamp_ms: SupportsIndex,
    capacity: SupportsIndex,
) -> BatchEncoded:
    """Encodes the longest prefix of the messages whose records fit in `capacity` bytes.

    Offset deltas count up from 0. `keys` and `headers` are `None`, or have one item per message.
    Headers must be encoded, starting with their count, and are not checked; `None` or empty bytes
    mean no headers. All messages are checked, even those that do not fit.
    """
    value_views = _nullable_views(arguments.items(values, "values"), "value")
    count = len(value_views)
    key_views = _companion_views(keys, "keys", "key", count)
    blocks = _companion_views(headers, "headers", "header", count)
    stamps = arguments.numbers(timestamps_ms, "timestamps_ms", code="q", count=count)
    first = _signed(first_timestamp_ms, "first_timestamp_ms")
    room = min(arguments.limit(capacity, "capacity"), I32_MAX)
    deltas = _timestamp_deltas(stamps, first, count)
    data = bytearray()
    for index in range(count):
        body = b"".join(
            (
                _ATTRIBUTES,
                varint(deltas[index]),
                varint(index),
                _nullable(key_views[index]),
                _nullable(value_views[index]),
                bytes(blocks[index] or b"") or _NO_HEADERS,
            )
        )
        record = varint(len(body)) + body
        if len(data) + len(record) > room:
            return BatchEncoded(bytes(data), index)
        data += record
    return BatchEncoded(bytes(data), count)


def record_batch_decode(
    buffer: ReadableBuffer,
    start: SupportsIndex,
    end: SupportsIndex,
    *,
    count: SupportsIndex,
    first_offset: SupportsIndex = 0,
    first_timestamp_ms: SupportsIndex = 0,
) -> BatchRecords:
    """Decodes `count` messages, which must fill `buffer[start:end]` exactly, into columns.

    Offsets must increase but need not be consecutive. All lengths are checked, including those of
    headers. It is not checked whether header names are valid text. If the bytes are not valid,
    decoding stops, and `stop` of the result is the reason.
    """
    view = byte_view(buffer, "buffer")
    position, last = arguments.bounds(min(len(view), U32_MAX), start, end)
    wanted = arguments.integer(count, "count", maximum=I32_MAX)
    base = arguments.integer(first_offset, "first_offset", maximum=I64_MAX)
    stamp = _signed(first_timestamp_ms, "first_timestamp_ms")
    columns = [array(code) for code in _COLUMN_CODES]
    stop = BatchStop.WHOLE
    least_offset = base
    while len(columns[0]) < wanted and stop is BatchStop.WHOLE:
        try:
            row, position = _record(view, position, last, base, stamp, least_offset)
        except _Bad as bad:
            stop = bad.stop
        else:
            least_offset = row.offset + 1
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    if stop is BatchStop.WHOLE and position < last:
        stop = BatchStop.LEFT_OVER
    views = [memoryview(column).toreadonly() for column in columns]
    return BatchRecords._make((*views, position, stop))


def record_batch_slices(
    buffer: ReadableBuffer, positions: Column, lengths: Column
) -> list[bytes | None]:
    """Returns the bytes of each slice of `buffer`, or `None` where the length is -1. `positions`
    and `lengths` are the columns of the keys or values from `record_batch_decode`.
    """
    view = byte_view(buffer, "buffer")
    starts = arguments.column(positions, "positions", code="I")
    sizes = arguments.column(lengths, "lengths", code="i")
    if len(sizes) != len(starts):
        arguments.refuse_count("lengths", len(sizes), len(starts))
    found: list[bytes | None] = []
    for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size >= 0 and start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        found.append(None if size < 0 else bytes(view[start : start + size]))
    return found


class _Bad(Exception):
    """A record is not valid; `stop` is the reason."""

    def __init__(self, stop: BatchStop) -> None:
        super().__init__(stop.name)
        self.stop = stop


class _Row(NamedTuple):
    """The fields of one message, in the order of the columns of `BatchRecords`."""

    offset: int
    timestamp_ms: int
    key_position: int
    key_length: int
    value_position: int
    value_length: int
    header_position: int
    header_length: int
    header_count: int


def _record(
    view: memoryview, position: int, end: int, base: int, stamp: int, least_offset: int
) -> tuple[_Row, int]:
    if end - position < BATCH_RECORD_BYTES_MIN:
        raise _Bad(BatchStop.CUT)
    try:
        length, position = read_varint(view, position, end, width=32)
    except BadVarint as bad:
        raise _Bad(BatchStop.CUT if bad.is_cut else BatchStop.BAD_NUMBER) from None
    if length < 1:
        raise _Bad(BatchStop.BAD_LENGTH)
    if length > end - position:
        raise _Bad(BatchStop.CUT)
    end = position + length
    try:
        return _body(view, position + len(_ATTRIBUTES), end, base, stamp, least_offset), end
    except BadVarint as bad:
        # The record is complete: a number that continues after its end is wrong, not cut.
        raise _Bad(BatchStop.BAD_LENGTH if bad.is_cut else BatchStop.BAD_NUMBER) from None


def _body(
    view: memoryview, position: int, end: int, base: int, stamp: int, least_offset: int
) -> _Row:
    timestamp_delta, position = read_varint(view, position, end, width=64)
    if not I64_MIN <= stamp + timestamp_delta <= I64_MAX:
        raise _Bad(BatchStop.BAD_TIMESTAMP)
    offset_delta, position = read_varint(view, position, end, width=32)
    if base + offset_delta < least_offset:
        raise _Bad(BatchStop.BAD_OFFSET)
    key_length, key = _length(view, position, end, minimum=-1)
    value_length, value = _length(view, key + max(0, key_length), end, minimum=-1)
    header_count, headers = read_varint(view, value + max(0, value_length), end, width=32)
    if header_count < 0:
        raise _Bad(BatchStop.BAD_LENGTH)
    position = headers
    for _ in range(header_count):
        length, position = _length(view, position, end, minimum=0)
        position += length
        length, position = _length(view, position, end, minimum=-1)
        position += max(0, length)
    if position != end:
        raise _Bad(BatchStop.BAD_LENGTH)
    return _Row(
        offset=base + offset_delta,
        timestamp_ms=stamp + timestamp_delta,
        key_position=key,
        key_length=key_length,
        value_position=value,
        value_length=value_length,
        header_position=headers,
        header_length=end - headers,
        header_count=header_count,
    )


def _length(view: memoryview, position: int, end: int, *, minimum: int) -> tuple[int, int]:
    """Reads a length, and returns it with the position after it. Raises `_Bad` if that many bytes
    do not follow before `end`.
    """
    length, position = read_varint(view, position, end, width=32)
    if not minimum <= length <= end - position:
        raise _Bad(BatchStop.BAD_LENGTH)
    return length, position


def _nullable(view: memoryview | None) -> bytes:
    return varint(-1) if view is None else varint(len(view)) + bytes(view)


def _nullable_views(items: tuple[object, ...], what: str) -> list[memoryview | None]:
    views = [
        None if item is None else byte_view(item, f"{what} {index}")  # type: ignore[arg-type]
        for index, item in enumerate(items)
    ]
    for index, view in enumerate(views):
        if view is not None and len(view) > I32_MAX:
            arguments.refuse_large(f"{what} {index}", len(view), I32_MAX)
    return views


def _companion_views(
    values: Iterable[ReadableBuffer | None] | None, plural: str, what: str, count: int
) -> list[memoryview | None]:
    """Returns one view per message. All are None if `values` is None."""
    if values is None:
        return [None] * count
    items = arguments.items(values, plural)
    if len(items) != count:
        arguments.refuse_count(plural, len(items), count)
    return _nullable_views(items, what)


def _timestamp_deltas(stamps: int | memoryview, first: int, count: int) -> list[int]:
    deltas = []
    for index in range(count):
        stamp = stamps if isinstance(stamps, int) else stamps[index]
        if not I64_MIN <= stamp - first <= I64_MAX:
            arguments.refuse_distance(index, stamp, first)
        deltas.append(stamp - first)
    return deltas


def _signed(value: SupportsIndex, what: str) -> int:
    return arguments.integer(value, what, minimum=I64_MIN, maximum=I64_MAX)
