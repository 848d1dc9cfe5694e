"""Record batches (version 2) as Kafka's clients send them: many messages in one payload.

    header = check(payload)                        # validates a batch before it is accepted
    payload = rewrite_first_offset(payload, 4711)  # the only change made to it
    for message in decode(payload):
        message.key, message.value, message.headers

    payload = build([b"one", b"two"], timestamps_ms=1_700_000_000_000, compression=Compression.LZ4)

A batch is a header and a section of records, which may be compressed. Its checksum does not cover
the first offset, the length and the leader epoch, so the log can assign the offset without
computing the checksum again. `check` verifies the header and the checksum and never decodes the
records; `decode` also verifies every length in them. Both accept exactly one whole batch. A client
can send malformed records with a right checksum: only `decode` detects those.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from enum import IntFlag
from typing import NamedTuple

from lakebed.base.errors import Corrupt, InputError, TooLarge, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer
from lakebed.keratin.compression import INFLATED_BYTES_MAX, Compression, compress, inflate
from lakebed.keratin.decoded_batch import DecodedBatch, header_section
from lakebed.keratin.format import OFFSET_MAX, RecordFlags
from lakebed.keratin.headers import Header, Producer
from lakebed.kernels import crc32c, record_batch_decode, record_batch_encode
from lakebed.kernels.arguments import I32_MAX, I64_MAX
from lakebed.kernels.format import (
    BATCH_RECORD_BYTES_MIN,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    RecordBatchHeader,
)
from lakebed.kernels.results import BatchRecords, BatchStop, Column

EPOCH_MAX = (1 << 15) - 1
RECORDS_BYTES_MAX = I32_MAX - RECORD_BATCH.size

_COMPRESSION_BITS = 0b111
_MAGIC_AT = RECORD_BATCH.offset_of("magic")
_COUNTED_FROM = RECORD_BATCH.offset_of("leader_epoch")  # the field `length` counts from here
_CHECKED_FROM = RECORD_BATCH.offset_of("attributes")
_NONE = -1  # the value of an unset field

_PROBLEMS = {
    BatchStop.CUT: "the records of a batch are cut short",
    BatchStop.BAD_NUMBER: "a variable-length number in a batch is too long",
    BatchStop.BAD_LENGTH: "a length in a batch is wrong",
    BatchStop.BAD_OFFSET: "the offsets in a batch do not rise",
    BatchStop.BAD_TIMESTAMP: "a timestamp in a batch is out of range",
    BatchStop.LEFT_OVER: "there are bytes after the last record of a batch",
}


class BatchAttributes(IntFlag):
    """The attribute bits other than the compression code. Unknown bits are preserved."""

    LOG_APPEND_TIME = 8  # every message has the batch's largest timestamp
    TRANSACTIONAL = 16
    CONTROL = 32  # its messages are transaction markers, hidden from readers
    DELETE_HORIZON = 64  # the first timestamp is when its tombstones may be removed


class _Place(NamedTuple):
    """The file and position of a batch, for error messages."""

    path: PathLike | None
    start: int

    def moved(self, error: Torn | Corrupt | UnknownVersion) -> Torn | Corrupt | UnknownVersion:
        return type(error)(
            error.problem,
            path=self.path,
            offset=self.start + (error.offset or 0),
            expected=error.expected,
            found=error.found,
        )


def check(
    batch: Buffer, *, has_gaps: bool = False, path: PathLike | None = None, start: int = 0
) -> RecordBatchHeader:
    """Verifies that `batch` is exactly one whole batch with a right checksum; returns its header.

    A batch from a client has a message at each of its offsets. With `has_gaps`, messages may be
    missing at some or all offsets, as after compaction. Raises `Torn` if the batch is cut short,
    `UnknownVersion` if its version or compression is not supported, and `Corrupt` if it is wrong in
    another way. The errors name the file, `path`, and the position of the batch in it, `start`.
    """
    view = memoryview(batch)
    try:
        if len(view) > _MAGIC_AT and view[_MAGIC_AT] != RECORD_BATCH_MAGIC:
            raise _other_magic(view)
        header = RECORD_BATCH.unpack(view)
        _check_length(header, len(view))
        _check_checksum(header, view)
        _check_counts(header, len(view), has_gaps=has_gaps)
    except (Torn, Corrupt, UnknownVersion) as error:
        raise _Place(path, start).moved(error) from None
    return header


def decode(
    batch: Buffer,
    *,
    has_gaps: bool = False,
    inflated_bytes_max: int = INFLATED_BYTES_MAX,
    path: PathLike | None = None,
    start: int = 0,
) -> DecodedBatch:
    """Checks and decodes a batch.

    Raises the same errors as `check`, `TooLarge` if the records inflate to more than
    `inflated_bytes_max`, and `CodecMissing` if the codec of their compression is not installed.
    """
    header = check(batch, has_gaps=has_gaps, path=path, start=start)
    section = memoryview(batch)[RECORD_BATCH.size :]
    try:
        buffer = inflate(section, compression_of(header), bytes_max=inflated_bytes_max)
        columns = _decode_records(header, buffer)
    except Corrupt as error:
        raise _Place(path, start + RECORD_BATCH.size).moved(error) from None
    is_control = header.attributes & BatchAttributes.CONTROL
    return DecodedBatch(
        header=header,
        buffer=buffer,
        columns=columns,
        record_flags=RecordFlags.CONTROL if is_control else RecordFlags(0),
    )


def rewrite_first_offset(batch: Buffer, offset: int) -> bytes:
    """Returns a copy of the batch with another first offset; nothing else changes."""
    header = RECORD_BATCH.unpack(batch)._replace(first_offset=_within("offset", offset, OFFSET_MAX))
    return b"".join((RECORD_BATCH.pack(header), memoryview(batch)[RECORD_BATCH.size :]))


def build(
    values: Iterable[Buffer | None],
    *,
    timestamps_ms: int | Sequence[int],
    keys: Sequence[Buffer | None] | None = None,
    headers: Sequence[Sequence[Header]] | None = None,
    first_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer: Producer | None = None,
    attributes: BatchAttributes = BatchAttributes(0),  # noqa: B008
    records_bytes_max: int = RECORDS_BYTES_MAX,
) -> bytes:
    """Encodes one batch of one or more messages; raises `TooLarge` if they do not fit.

    `timestamps_ms` is one timestamp for all messages, or one per message. `producer` holds the
    sequence of the first message. `records_bytes_max` limits the size of the records before
    compression.
    """
    message_values = tuple(values)
    if not message_values:
        raise InputError("a record batch needs at least one message")
    stamps = [timestamps_ms] if isinstance(timestamps_ms, int) else list(timestamps_ms)
    limit = min(records_bytes_max, RECORDS_BYTES_MAX)
    encoded = record_batch_encode(
        message_values,
        keys,
        None if headers is None else [header_section(header_list) for header_list in headers],
        timestamps_ms=timestamps_ms,
        first_timestamp_ms=stamps[0] if stamps else 0,
        capacity=limit,
    )
    if encoded.message_count < len(message_values):
        raise TooLarge("the size of a record batch, in bytes,", size=None, limit=limit)
    return pack(
        encoded.data,
        message_count=len(message_values),
        first_timestamp_ms=stamps[0],
        max_timestamp_ms=max(stamps),
        first_offset=first_offset,
        compression=compression,
        producer=producer,
        attributes=attributes,
    )


def pack(
    records: Buffer,
    *,
    message_count: int,
    first_timestamp_ms: int,
    max_timestamp_ms: int,
    first_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer: Producer | None = None,
    attributes: BatchAttributes = BatchAttributes(0),  # noqa: B008
) -> bytes:
    """Builds one batch from records that `lakebed.kernels.record_batch_encode` has encoded."""
    producer_fields = (_NONE, _NONE, _NONE) if producer is None else _producer_fields(producer)
    header = RecordBatchHeader(
        _within("first_offset", first_offset, OFFSET_MAX),
        0,
        _NONE,
        RECORD_BATCH_MAGIC,
        0,
        int(attributes) | compression,
        message_count - 1,
        first_timestamp_ms,
        max_timestamp_ms,
        *producer_fields,
        message_count,
    )
    return _assemble(header, compress(records, compression))


def with_producer(batch: Buffer, producer: Producer) -> bytes:
    """Returns a copy of the batch with another producer.

    `producer` holds the sequence of the first message.
    """
    producer_id, epoch, sequence = _producer_fields(producer)
    header = RECORD_BATCH.unpack(batch)._replace(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    return _assemble(header, memoryview(batch)[RECORD_BATCH.size :])


def size_of(head: Buffer, *, path: PathLike | None = None, start: int = 0) -> int:
    """Returns the size of a batch in bytes, according to its header; ignores the checksum."""
    view = memoryview(head)
    try:
        if len(view) > _MAGIC_AT and view[_MAGIC_AT] != RECORD_BATCH_MAGIC:
            raise _other_magic(view)
        size = _COUNTED_FROM + RECORD_BATCH.unpack(view).length
        if size < RECORD_BATCH.size:
            raise Corrupt("a record batch is shorter than a batch header", found=size)
    except (Torn, Corrupt, UnknownVersion) as error:
        raise _Place(path, start).moved(error) from None
    return size


def message_count_of(batch: Buffer) -> int:
    """Returns how many offsets a batch takes according to its header, including gaps."""
    return RECORD_BATCH.unpack(batch).last_offset_delta + 1


def compression_of(header: RecordBatchHeader) -> Compression:
    """Returns the compression of a batch whose header has been checked."""
    return Compression(header.attributes & _COMPRESSION_BITS)


def producer_of(header: RecordBatchHeader) -> Producer | None:
    """Returns the producer, with the sequence of the first message.

    Returns None if the batch has no producer.
    """
    producer = Producer(header.producer_id, header.producer_epoch, header.base_sequence)
    return None if min(producer) < 0 else producer


def _other_magic(view: memoryview) -> Corrupt | UnknownVersion:
    """Returns the error for a wrong magic number.

    It is `Corrupt` if only the magic number is damaged, or if the length is not positive, and
    `UnknownVersion` otherwise. Other versions have their checksum elsewhere. So if the checksum
    where version 2 has it is right, only the magic number is damaged.
    """
    magic = view[_MAGIC_AT]
    facts = {"offset": _MAGIC_AT, "expected": RECORD_BATCH_MAGIC, "found": magic}
    if len(view) >= RECORD_BATCH.size:
        header = RECORD_BATCH.unpack(view)
        if header.crc32c == crc32c(view[_CHECKED_FROM:]) or header.length <= 0:
            return Corrupt("the magic of a record batch is damaged", **facts)  # type: ignore[arg-type]
    return UnknownVersion("unsupported record batch version", **facts)  # type: ignore[arg-type]


def _check_length(header: RecordBatchHeader, size: int) -> None:
    expected = _COUNTED_FROM + header.length
    if expected < RECORD_BATCH.size:
        raise Corrupt("a record batch is shorter than a batch header", found=expected)
    if expected > size:
        raise Torn("a record batch is cut short", expected=f"{expected} bytes", found=size)
    if expected < size:
        raise Corrupt("there are bytes after the end of a record batch", offset=expected)


def _check_checksum(header: RecordBatchHeader, view: memoryview) -> None:
    crc = crc32c(view[_CHECKED_FROM:])
    if crc != header.crc32c:
        raise Corrupt(
            "the checksum of a record batch is wrong",
            expected=f"{header.crc32c:#010x}",
            found=f"{crc:#010x}",
        )


def _check_counts(header: RecordBatchHeader, size: int, *, has_gaps: bool) -> None:
    count = header.message_count
    offset_count = header.last_offset_delta + 1
    is_possible = 0 <= count <= offset_count if has_gaps else count == offset_count
    if not is_possible or offset_count < 1:
        raise Corrupt(
            "the message count of a record batch does not match its offsets",
            found=f"{count} messages at {offset_count} offsets",
        )
    code = header.attributes & _COMPRESSION_BITS
    if code > max(Compression):
        raise UnknownVersion("unsupported compression of a record batch", found=code)
    records_bytes = size - RECORD_BATCH.size
    if code == Compression.NONE and count * BATCH_RECORD_BYTES_MIN > records_bytes:
        raise Corrupt(
            "a record batch is too short for its number of messages",
            expected=f"{count} messages",
            found=f"{records_bytes} bytes",
        )


def _decode_records(header: RecordBatchHeader, buffer: memoryview) -> BatchRecords:
    if not 0 <= header.first_offset <= OFFSET_MAX - header.last_offset_delta:
        raise Corrupt(
            "the first offset of a record batch is out of range", found=header.first_offset
        )
    columns = record_batch_decode(
        buffer,
        0,
        len(buffer),
        count=header.message_count,
        first_offset=header.first_offset,
        first_timestamp_ms=header.first_timestamp_ms,
    )
    count = len(columns.offsets)
    stop = columns.stop
    if stop is BatchStop.WHOLE and count and columns.offsets[-1] > _last_offset(header):
        stop = BatchStop.BAD_OFFSET
    if stop is not BatchStop.WHOLE:
        position = f"message {count} of {header.message_count}, byte {columns.end} of the records"
        raise Corrupt(_PROBLEMS[stop], found=position)
    if header.attributes & BatchAttributes.LOG_APPEND_TIME:
        return columns._replace(timestamps_ms=_repeated(header.max_timestamp_ms, count))
    return columns


def _last_offset(header: RecordBatchHeader) -> int:
    return header.first_offset + header.last_offset_delta


def _repeated(timestamp_ms: int, count: int) -> Column:
    return memoryview(array("q", [timestamp_ms]) * count).toreadonly()


def _assemble(header: RecordBatchHeader, section: Buffer) -> bytes:
    """Joins the header and the records, and fills in the length and the checksum."""
    size = RECORD_BATCH.size + len(section)
    if size > I32_MAX:
        raise TooLarge("the size of a record batch, in bytes,", size=size, limit=I32_MAX)
    header = header._replace(length=size - _COUNTED_FROM)
    crc = crc32c(section, crc32c(RECORD_BATCH.pack(header)[_CHECKED_FROM:]))
    return b"".join((RECORD_BATCH.pack(header._replace(crc32c=crc)), section))


def _producer_fields(producer: Producer) -> tuple[int, int, int]:
    return (
        _within("producer_id", producer.producer_id, I64_MAX),
        _within("producer_epoch", producer.epoch, EPOCH_MAX),
        _within("sequence", producer.sequence, I32_MAX),
    )


def _within(what: str, value: int, maximum: int) -> int:
    if not 0 <= value <= maximum:
        raise InputError(f"{what} {value}: must be 0 to {maximum}")
    return value
