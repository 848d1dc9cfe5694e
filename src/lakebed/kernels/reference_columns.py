"""Builds columns for Arrow from records, in plain Python like `reference`.

Callers may pass any positions and lengths, so they are checked: a range outside the buffer raises
`InputError`. If the bytes themselves are not valid, decoding stops, and `stop` of the result is the
reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakebed.base.files.writing import byte_view
from lakebed.kernels import arguments
from lakebed.kernels.arguments import I32_MAX
from lakebed.kernels.format import (
    BATCH_HEADER_BYTES_MIN,
    KERATIN_BLOCK,
    KERATIN_BLOCK_VERSION,
    KERATIN_HAS_KEY,
    KERATIN_HAS_PRODUCER,
    KERATIN_HEADERS,
    KERATIN_KEY,
    KERATIN_NAME,
    KERATIN_NULL_LENGTH,
    KERATIN_PRODUCER,
    KERATIN_RECORD,
    KERATIN_TOMBSTONE,
    KERATIN_TRAILER,
    KERATIN_VALUE,
)
from lakebed.kernels.results import BatchStop, BlockStop, Gathered, HeaderPlaces, KeratinFields
from lakebed.kernels.varints import BadVarint, read_varint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NULL = -1
_FIXED_BYTES = KERATIN_RECORD.size + KERATIN_TRAILER.size


class _Header(NamedTuple):
    """The positions of the name and value of one header, in the order of the result's columns."""

    name_position: int
    name_length: int
    value_position: int
    value_length: int


class _Bad(Exception):
    """A headers block or section is not valid; `stop` is the reason."""

    def __init__(self, stop: BlockStop | BatchStop) -> None:
        super().__init__(stop.name)
        self.stop = stop


def gather(buffer: ReadableBuffer, positions: ReadableBuffer, lengths: ReadableBuffer) -> Gathered:
    """Copies slices of `buffer` into one new buffer, one after another.

    Positions are u64 or u32, lengths i32 or u32. A negative length means a null; its position is
    ignored. Raises `TooLarge` if the total size in bytes exceeds an i32.
    """
    view = byte_view(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="QI")
    sizes, _ = arguments.companion_column(lengths, "lengths", codes="iI", count=len(starts))
    offsets = array("i", [0])
    validity = bytearray((len(starts) + 7) // 8)
    parts = []
    for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size < 0:
            offsets.append(offsets[-1])
            continue
        if start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        if offsets[-1] + size > I32_MAX:
            arguments.refuse_large("the column", offsets[-1] + size, I32_MAX)
        offsets.append(offsets[-1] + size)
        parts.append(view[start : start + size])
        validity[index // 8] |= 1 << index % 8
    null_count = len(starts) - len(parts)
    nulls = bytes(validity) if null_count else None
    return Gathered(b"".join(parts), memoryview(offsets).toreadonly(), nulls, null_count)


def keratin_fields(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    header_lengths: ReadableBuffer,
    payload_lengths: ReadableBuffer,
    flags: ReadableBuffer,
) -> KeratinFields:
    """Returns where the keys, values and headers of records are.

    The arguments after `buffer` are columns of a `KeratinScan`. The records must not contain record
    batches. A record with the tombstone flag has a null value, and a record without a key has a
    null key. Stops before the first record with an invalid headers block, or with a key or value
    that is longer than an i32 allows. It is not checked whether header names are valid text.
    """
    view = byte_view(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="Q")
    others = {"header_lengths": header_lengths, "payload_lengths": payload_lengths}
    blocks, payloads = (
        arguments.companion_column(column, what, codes="I", count=len(starts))[0]
        for what, column in others.items()
    )
    marks, _ = arguments.companion_column(flags, "flags", codes="H", count=len(starts))
    rows: list[tuple[int, ...]] = []
    headers: list[_Header] = []
    stop = BlockStop.WHOLE
    for index, row in enumerate(zip(starts, blocks, payloads, marks, strict=True)):
        start, block_bytes, payload_bytes, mark = row
        size = _FIXED_BYTES + block_bytes + payload_bytes
        if start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        block = start + KERATIN_RECORD.size
        is_null = bool(mark & KERATIN_TOMBSTONE)
        try:
            key, key_bytes, found = _block(view, block, block + block_bytes)
            value_bytes = _NULL if is_null else _length_within_i32(payload_bytes)
        except _Bad as bad:
            stop = BlockStop(bad.stop)
            break
        rows.append((key, key_bytes, block + block_bytes, value_bytes, len(found)))
        headers += found
    return KeratinFields._make((*_columns("QiQiI", rows), *_columns("QiQi", headers), stop))


def record_batch_headers(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    lengths: ReadableBuffer,
    counts: ReadableBuffer,
) -> HeaderPlaces:
    """Returns where the headers of messages are. The arguments after `buffer` are columns that
    `record_batch_decode` returned, or slices of them.

    Stops before the first message whose headers do not fill its section exactly. It is not checked
    whether header names are valid text.
    """
    view = byte_view(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="I")
    sizes, _ = arguments.companion_column(lengths, "lengths", codes="I", count=len(starts))
    numbers, _ = arguments.companion_column(counts, "counts", codes="I", count=len(starts))
    headers: list[_Header] = []
    for index, (start, size, count) in enumerate(zip(starts, sizes, numbers, strict=True)):
        if start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        try:
            headers += _section(view, start, start + size, count)
        except _Bad as bad:
            return HeaderPlaces._make((*_columns("QiQi", headers), index, BatchStop(bad.stop)))
    return HeaderPlaces._make((*_columns("QiQi", headers), len(starts), BatchStop.WHOLE))


def _columns(codes: str, rows: Sequence[tuple[int, ...]]) -> list[memoryview]:
    columns = [array(code, [row[index] for row in rows]) for index, code in enumerate(codes)]
    return [memoryview(column).toreadonly() for column in columns]


def _block(view: memoryview, position: int, end: int) -> tuple[int, int, list[_Header]]:
    """Decodes a headers block. Returns the position and length of the key, and the headers."""
    if position == end:
        return position, _NULL, []
    _need(KERATIN_BLOCK.size, position, end)
    start = KERATIN_BLOCK.unpack(view, position)
    if start.version > KERATIN_BLOCK_VERSION:
        raise _Bad(BlockStop.BAD_VERSION)
    position += KERATIN_BLOCK.size
    key, key_bytes = position, _NULL
    if start.flags & KERATIN_HAS_KEY:
        _need(KERATIN_KEY.size, position, end)
        length = KERATIN_KEY.unpack(view, position).length
        key, key_bytes = _taken(position + KERATIN_KEY.size, length, end)
        position = key + key_bytes
    if start.flags & KERATIN_HAS_PRODUCER:
        _need(KERATIN_PRODUCER.size, position, end)
        position += KERATIN_PRODUCER.size
    _need(KERATIN_HEADERS.size, position, end)
    count = KERATIN_HEADERS.unpack(view, position).header_count
    return key, key_bytes, _headers(view, position + KERATIN_HEADERS.size, end, count)


def _headers(view: memoryview, position: int, end: int, count: int) -> list[_Header]:
    _need(count * (KERATIN_NAME.size + KERATIN_VALUE.size), position, end)
    found = []
    for _ in range(count):
        _need(KERATIN_NAME.size, position, end)
        length = KERATIN_NAME.unpack(view, position).length
        name, name_bytes = _taken(position + KERATIN_NAME.size, length, end)
        position = name + name_bytes
        _need(KERATIN_VALUE.size, position, end)
        length = KERATIN_VALUE.unpack(view, position).length
        value, value_bytes = position + KERATIN_VALUE.size, _NULL
        if length != KERATIN_NULL_LENGTH:
            value, value_bytes = _taken(value, length, end)
        position = value + max(0, value_bytes)
        found.append(_Header(name, name_bytes, value, value_bytes))
    if position != end:
        raise _Bad(BlockStop.LEFT_OVER)
    return found


def _need(size: int, position: int, end: int) -> None:
    if size > end - position:
        raise _Bad(BlockStop.CUT)


def _taken(position: int, length: int, end: int) -> tuple[int, int]:
    _need(length, position, end)
    return position, _length_within_i32(length)


def _length_within_i32(length: int) -> int:
    if length > I32_MAX:
        raise _Bad(BlockStop.TOO_LONG)
    return length


def _section(view: memoryview, position: int, end: int, count: int) -> list[_Header]:
    """Decodes `count` headers, which must fill `[position, end)` exactly."""
    if count * BATCH_HEADER_BYTES_MIN > end - position:
        raise _Bad(BatchStop.BAD_LENGTH)
    found = []
    for _ in range(count):
        name, name_bytes = _length(view, position, end, minimum=0)
        position = name + name_bytes
        value, value_bytes = _length(view, position, end, minimum=_NULL)
        position = value + max(0, value_bytes)
        found.append(_Header(name, name_bytes, value, value_bytes))
    if position != end:
        raise _Bad(BatchStop.BAD_LENGTH)
    return found


def _length(view: memoryview, position: int, end: int, *, minimum: int) -> tuple[int, int]:
    """Reads a length, and returns the position after it and the length. Raises `_Bad` if that many
    bytes do not follow before `end`.
    """
    try:
        length, position = read_varint(view, position, end, width=32)
    except BadVarint as bad:
        # The section is complete: a number that continues after its end is wrong, not cut.
        raise _Bad(BatchStop.BAD_LENGTH if bad.is_cut else BatchStop.BAD_NUMBER) from None
    if not minimum <= length <= end - position:
        raise _Bad(BatchStop.BAD_LENGTH)
    return position, length
