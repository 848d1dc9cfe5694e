"""The kernels in plain Python. The compiled functions must return the same results, byte for byte.

This code is meant to be readable, not fast. Tests compare the compiled functions with it, and
installations without compiled kernels use it. The docstrings here also describe the compiled
functions.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, SupportsIndex

from lakebed.base.files.writing import (
    FILE_OFFSET_MAX,
    WriteOnce,
    WriteOutcome,
    byte_view,
    byte_views,
    write_all,
    zero_all,
)
from lakebed.kernels import arguments
from lakebed.kernels.format import (
    AOF_ALIGNMENT,
    AOF_RECORD,
    KERATIN_MAGIC,
    KERATIN_RECORD,
    KERATIN_TRAILER,
    KERATIN_VERSION,
    AofRecordHeader,
    KeratinRecordHeader,
    KeratinRecordTrailer,
)
from lakebed.kernels.polynomials import CRC64NVME_POLYNOMIAL, shift_crc
from lakebed.kernels.reference_batches import record_batch_decode as record_batch_decode
from lakebed.kernels.reference_batches import record_batch_encode as record_batch_encode
from lakebed.kernels.reference_batches import record_batch_slices as record_batch_slices
from lakebed.kernels.reference_checksums import crc32_combine as crc32_combine
from lakebed.kernels.reference_checksums import crc32c as crc32c
from lakebed.kernels.reference_checksums import crc32c_combine as crc32c_combine
from lakebed.kernels.reference_checksums import crc64_combine as crc64_combine
from lakebed.kernels.reference_checksums import crc64nvme as crc64nvme
from lakebed.kernels.reference_checksums import fold64 as fold64
from lakebed.kernels.reference_columns import gather as gather
from lakebed.kernels.reference_columns import keratin_fields as keratin_fields
from lakebed.kernels.reference_columns import record_batch_headers as record_batch_headers
from lakebed.kernels.reference_producers import keratin_producers as keratin_producers
from lakebed.kernels.reference_slices import murmur2 as murmur2
from lakebed.kernels.reference_slices import murmur2_hashes as murmur2_hashes
from lakebed.kernels.reference_slices import (
    record_batch_encode_slices as record_batch_encode_slices,
)
from lakebed.kernels.reference_slices import record_batch_sections as record_batch_sections
from lakebed.kernels.results import AofEncoded, AofScan, Column, KeratinEncoded, KeratinScan, Stop

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from lakebed.kernels.arguments import Numbers

_AOF_END = bytes(AOF_RECORD.size)
_MAGIC_BYTES = KERATIN_RECORD.field("magic").size
_CHECKED_FROM = KERATIN_RECORD.offset_of("version")
_FD_MAX = (1 << 31) - 1


def features() -> tuple[str, ...]:
    """Returns the names of the CPU instruction sets that are used; in plain Python, none."""
    return ()


def aof_encode(
    payloads: Iterable[ReadableBuffer],
    *,
    timestamps: Numbers,
    ext_ids: Numbers,
    capacity: SupportsIndex,
    crc64: SupportsIndex = 0,
) -> AofEncoded:
    """Encodes the longest prefix of `payloads` whose AOF2 records fit in `capacity` bytes.

    The number of encoded payloads is the length of `offsets` in the result. All payloads are
    checked first: an empty payload raises `InputError`, and a payload whose length exceeds 32 bits
    raises `TooLarge`. `crc64` is the crc64-nvme of the segment's records so far; the result has the
    value including the new records.
    """
    views = _payload_views(payloads)
    for index, view in enumerate(views):
        if not len(view):
            arguments.refuse_empty(f"payload {index}")
    count = len(views)
    timestamp_of = _getter(arguments.numbers(timestamps, "timestamps", code="Q", count=count))
    ext_id_of = _getter(arguments.numbers(ext_ids, "ext_ids", code="Q", count=count))
    room = arguments.limit(capacity, "capacity")
    running = arguments.integer(crc64, "crc64")
    data = bytearray()
    offsets: list[int] = []
    for index, view in enumerate(views):
        if len(data) + _aof_record_bytes(len(view)) > room:
            break
        offsets.append(len(data))
        payload = bytes(view)
        folded = fold64(crc64nvme(payload))
        header = AofRecordHeader(len(payload), folded, timestamp_of(index), ext_id_of(index))
        data += AOF_RECORD.pack(header)
        data += payload
        data += bytes(-len(data) % AOF_ALIGNMENT)
    return AofEncoded(bytes(data), _column("Q", offsets), crc64nvme(data, running))


class AofBatch(bytes):
    """Encoded AOF2 records, with the same attributes as the compiled batch."""

    offsets: memoryview
    crc64: int
    size: int


def aof_batch(
    payloads: Iterable[ReadableBuffer],
    *,
    timestamps: Numbers,
    ext_ids: Numbers,
    capacity: SupportsIndex,
) -> AofBatch:
    """Encodes like `aof_encode`, and returns one bytes-like object for `write_and_sync`.

    The compiled version encodes the records only when they are written. `crc64` of the result
    covers only these records; `crc64_combine` combines it with the value for the bytes before.
    """
    encoded = aof_encode(payloads, timestamps=timestamps, ext_ids=ext_ids, capacity=capacity)
    batch = AofBatch(encoded.data)
    batch.offsets, batch.crc64, batch.size = encoded.offsets, encoded.crc64, len(encoded.data)
    return batch


def aof_scan(
    buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex, *, count_max: SupportsIndex
) -> AofScan:
    """Scans the records from `start` up to `end`, and verifies the checksum of every payload.

    It stops before the first invalid record, or after `count_max` records. `start` must be the
    start of a record; records are aligned relative to it. Padding, timestamps and ext_ids are not
    verified here: only the checksum in the segment's footer covers them.
    """
    view = byte_view(buffer, "buffer")
    offset, last = arguments.bounds(len(view), start, end)
    count_limit = arguments.limit(count_max, "count_max")
    offsets: list[int] = []
    headers: list[AofRecordHeader] = []
    while (stop := _aof_stop(view, offset, last)) is None and len(headers) < count_limit:
        headers.append(AOF_RECORD.unpack(view, offset))
        offsets.append(offset)
        offset += _aof_record_bytes(headers[-1].length)
    return AofScan(
        _column("Q", offsets),
        _column("I", [header.length for header in headers]),
        _column("Q", [header.timestamp for header in headers]),
        _column("Q", [header.ext_id for header in headers]),
        offset,
        Stop.COUNT if stop is None or len(headers) == count_limit else stop,
    )


def aof_find(buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex) -> int:
    """Returns the offset of the first complete record with a valid checksum in `buffer[start:end]`,
    or -1.

    It tries `start` and every later offset at a distance of a multiple of `AOF_ALIGNMENT` bytes.
    The bytes may be anything. The run time is proportional to the number of bytes, even if they
    look like long records. A record that is inside a payload at such an offset is found like any
    other.
    """
    view = byte_view(buffer, "buffer")
    first, last = arguments.bounds(len(view), start, end)
    marks = _CrcMarks(view[first:last])
    for offset in range(first, last - AOF_RECORD.size + 1, AOF_ALIGNMENT):
        header = AOF_RECORD.unpack(view, offset)
        if header.length == 0 or _aof_record_bytes(header.length) > last - offset:
            continue
        crc = marks.crc64(offset - first + AOF_RECORD.size, header.length)
        if fold64(crc) == header.checksum:
            return offset
    return -1


def keratin_encode(
    payloads: Iterable[ReadableBuffer],
    headers: Sequence[ReadableBuffer | None] | None,
    *,
    offsets: Numbers,
    timestamps_ms: Numbers,
    flags: Numbers,
    capacity: SupportsIndex,
) -> KeratinEncoded:
    """Encodes the longest prefix of `payloads` whose Keratin records fit in `capacity` bytes.

    `headers` is `None`, or has a headers block or `None` for each payload. If `offsets` is a single
    number, it is the offset of the first record, and the others follow consecutively. A payload may
    be empty.
    """
    views = _payload_views(payloads)
    count = len(views)
    blocks = _header_views(headers, count)
    base = arguments.numbers(offsets, "offsets", code="Q", count=count)
    if isinstance(base, int):
        arguments.check_last_offset(base, count)
    offset_of = base.__add__ if isinstance(base, int) else base.__getitem__
    timestamp_of = _getter(arguments.numbers(timestamps_ms, "timestamps_ms", code="Q", count=count))
    flags_of = _getter(arguments.numbers(flags, "flags", code="H", count=count))
    room = arguments.limit(capacity, "capacity")
    data = bytearray()
    positions: list[int] = []
    for index, (view, block) in enumerate(zip(views, blocks, strict=True)):
        if len(data) + _keratin_record_bytes(len(block), len(view)) > room:
            break
        positions.append(len(data))
        header = KeratinRecordHeader(
            magic=KERATIN_MAGIC,
            version=KERATIN_VERSION,
            flags=flags_of(index),
            reserved=0,
            header_length=len(block),
            payload_length=len(view),
            timestamp_ms=timestamp_of(index),
            offset=offset_of(index),
        )
        record = KERATIN_RECORD.pack(header) + block + view
        crc = crc32c(record[_CHECKED_FROM:])
        data += record + KERATIN_TRAILER.pack(KeratinRecordTrailer(crc))
    return KeratinEncoded(bytes(data), _column("Q", positions))


class KeratinBatch(bytes):
    """Encoded Keratin records, with the same attributes as the compiled batch."""

    positions: memoryview
    size: int


def keratin_batch(
    payloads: Iterable[ReadableBuffer],
    headers: Sequence[ReadableBuffer | None] | None,
    *,
    offsets: Numbers,
    timestamps_ms: Numbers,
    flags: Numbers,
    capacity: SupportsIndex,
) -> KeratinBatch:
    """Encodes like `keratin_encode`, and returns one bytes-like object for `write_and_sync`.

    The compiled version encodes the records only when they are written.
    """
    encoded = keratin_encode(
        payloads,
        headers,
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        flags=flags,
        capacity=capacity,
    )
    batch = KeratinBatch(encoded.data)
    batch.positions, batch.size = encoded.positions, len(encoded.data)
    return batch


def keratin_scan(
    buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex, *, count_max: SupportsIndex
) -> KeratinScan:
    """Scans the records from `start` up to `end`, and verifies the checksum of every record.

    It stops before the first invalid record, or after `count_max` records. `start` must be the
    start of a record.
    """
    view = byte_view(buffer, "buffer")
    position, last = arguments.bounds(len(view), start, end)
    count_limit = arguments.limit(count_max, "count_max")
    positions: list[int] = []
    headers: list[KeratinRecordHeader] = []
    while (stop := _keratin_stop(view, position, last)) is None and len(headers) < count_limit:
        headers.append(KERATIN_RECORD.unpack(view, position))
        positions.append(position)
        position += _keratin_record_bytes(headers[-1].header_length, headers[-1].payload_length)
    return KeratinScan(
        _column("Q", positions),
        _column("Q", [header.offset for header in headers]),
        _column("Q", [header.timestamp_ms for header in headers]),
        _column("H", [header.flags for header in headers]),
        _column("I", [header.header_length for header in headers]),
        _column("I", [header.payload_length for header in headers]),
        position,
        Stop.COUNT if stop is None or len(headers) == count_limit else stop,
    )


def write_and_sync(
    fd: SupportsIndex, offset: SupportsIndex, chunks: Iterable[ReadableBuffer], *, sync: bool
) -> WriteOutcome:
    """Writes the chunks one after another at `offset`. If that succeeds and `sync` is set, calls
    `fdatasync`.

    The rules of `lakebed.base.files.writing` apply: disk errors are returned in the outcome, not
    raised.
    """
    number = arguments.integer(fd, "fd", maximum=_FD_MAX)
    place = arguments.integer(offset, "offset", maximum=FILE_OFFSET_MAX)
    sync_once = partial(os.fdatasync, number) if sync else None
    return write_all(_writer(number), place, chunks, sync_once=sync_once)


def bytes_lengths(values: Iterable[object]) -> tuple[int, int] | None:
    """Returns the sum and the maximum of the lengths of the values, or None if the type of one of
    them is not exactly `bytes`.
    """
    taken = arguments.items(values, "values")
    lengths = [len(value) for value in taken if type(value) is bytes]
    return (sum(lengths), max(lengths, default=0)) if len(lengths) == len(taken) else None


def zero_fill(fd: SupportsIndex, offset: SupportsIndex, length: SupportsIndex) -> WriteOutcome:
    """Writes `length` zero bytes at `offset`, without a sync. Disk errors are returned in the
    outcome, not raised.
    """
    number = arguments.integer(fd, "fd", maximum=_FD_MAX)
    place = arguments.integer(offset, "offset", maximum=FILE_OFFSET_MAX)
    return zero_all(
        _writer(number), place, arguments.integer(length, "length", maximum=FILE_OFFSET_MAX)
    )


def _writer(fd: int) -> WriteOnce:
    return lambda offset, view: os.pwrite(fd, view, offset)


def _payload_views(payloads: Iterable[ReadableBuffer]) -> list[memoryview]:
    views = byte_views(payloads, "payload")
    for index, view in enumerate(views):
        if len(view) > arguments.U32_MAX:
            arguments.refuse_large(f"payload {index}", len(view))
    return views


def _header_views(headers: Sequence[ReadableBuffer | None] | None, count: int) -> list[memoryview]:
    if headers is None:
        return [memoryview(b"")] * count
    blocks = arguments.items(headers, "headers")
    if len(blocks) != count:
        arguments.refuse_count("headers", len(blocks), count)
    views = byte_views((b"" if block is None else block for block in blocks), "header")  # type: ignore[misc]
    for index, view in enumerate(views):
        if len(view) > arguments.U32_MAX:
            arguments.refuse_large(f"header {index}", len(view))
    return views


def _getter(numbers: int | memoryview) -> Callable[[int], int]:
    return (lambda _: numbers) if isinstance(numbers, int) else numbers.__getitem__


def _column(code: str, values: list[int]) -> Column:
    return memoryview(array(code, values)).toreadonly()


def _aof_record_bytes(payload_bytes: int) -> int:
    size = AOF_RECORD.size + payload_bytes
    return size + -size % AOF_ALIGNMENT


class _CrcMarks:
    """Computes the CRC of any part of a buffer without reading the whole part again.

    It keeps the CRCs of the bytes from the start of the buffer up to each multiple of
    `DISTANCE_BYTES`. The CRC of a long part is computed from the CRCs up to its start and its end.
    """

    DISTANCE_BYTES = 1024

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._crcs = [0]

    def crc64(self, offset: int, length: int) -> int:
        if length <= self.DISTANCE_BYTES:
            return crc64nvme(self._view[offset : offset + length])
        before = shift_crc(self._until(offset), length, CRC64NVME_POLYNOMIAL)
        return self._until(offset + length) ^ before

    def _until(self, offset: int) -> int:
        index, rest = divmod(offset, self.DISTANCE_BYTES)
        while len(self._crcs) <= index:
            mark = (len(self._crcs) - 1) * self.DISTANCE_BYTES
            between = self._view[mark : mark + self.DISTANCE_BYTES]
            self._crcs.append(crc64nvme(between, self._crcs[-1]))
        return crc64nvme(self._view[offset - rest : offset], self._crcs[index])


def _keratin_record_bytes(headers_bytes: int, payload_bytes: int) -> int:
    return KERATIN_RECORD.size + headers_bytes + payload_bytes + KERATIN_TRAILER.size


def _aof_stop(view: memoryview, offset: int, end: int) -> Stop | None:
    """Returns why there is no valid record at `offset`, or `None` if there is one."""
    left = end - offset
    if left < AOF_RECORD.size:
        return Stop.CUT if any(view[offset:end]) else Stop.END
    header = AOF_RECORD.unpack(view, offset)
    if header.length == 0:
        is_zero = view[offset : offset + AOF_RECORD.size] == _AOF_END
        return Stop.END if is_zero else Stop.BAD_HEADER
    if _aof_record_bytes(header.length) > left:
        return Stop.CUT
    first = offset + AOF_RECORD.size
    crc = crc64nvme(view[first : first + header.length])
    return None if fold64(crc) == header.checksum else Stop.BAD_CHECKSUM


def _keratin_stop(view: memoryview, position: int, end: int) -> Stop | None:
    """Returns why there is no valid record at `position`, or `None` if there is one."""
    left = end - position
    if not any(view[position : min(end, position + _MAGIC_BYTES)]):
        return Stop.END
    if left < _MAGIC_BYTES:
        return Stop.CUT
    magic = int.from_bytes(view[position : position + _MAGIC_BYTES], "big")
    if magic != KERATIN_MAGIC:
        return Stop.BAD_HEADER
    if left < KERATIN_RECORD.size:
        return Stop.CUT
    header = KERATIN_RECORD.unpack(view, position)
    if header.version != KERATIN_VERSION:
        return Stop.BAD_HEADER
    size = _keratin_record_bytes(header.header_length, header.payload_length)
    if size > left:
        return Stop.CUT
    trailer_at = position + size - KERATIN_TRAILER.size
    crc = crc32c(view[position + _CHECKED_FROM : trailer_at])
    good = KERATIN_TRAILER.unpack(view, trailer_at).crc32c == crc
    return None if good else Stop.BAD_CHECKSUM
