"""Validates the arguments of a caller, and builds `Append` requests from them.

A queued request never changes: lists are copied, and so are payloads that are not `bytes`.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import cast

from lakebed.base.errors import DataError, InputError, TooLarge
from lakebed.base.layout import Buffer
from lakebed.keratin.compression import require_codec
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.format import OFFSET_MAX, RECORD_OVERHEAD, RecordFlags, record_bytes
from lakebed.keratin.headers import (
    HEADERS_COUNT_MAX,
    SEQUENCE_COUNT,
    STORED_HEADERS_COUNT_MAX,
    Header,
    Producer,
    encode_headers,
    encode_plain_blocks,
)
from lakebed.keratin.message import NOT_BEFORE_HEADER
from lakebed.keratin.record_batch import EPOCH_MAX, check, compression_of, producer_of
from lakebed.keratin.segment import Numbers
from lakebed.keratin.writer_requests import Append
from lakebed.kernels import bytes_lengths
from lakebed.kernels.format import RecordBatchHeader

TIMESTAMP_MS_MAX = OFFSET_MAX


def build_append(
    payloads: Iterable[Buffer | None],
    *,
    config: TopicConfig | None,
    ack: Ack,
    timestamps_ms: Numbers,
    keys: Iterable[Buffer | None] | None = None,
    headers: Iterable[Sequence[Header]] | None = None,
    producer: Producer | None = None,
    not_before_ms: int = 0,
) -> Append:
    """Builds an append with one record per payload. A payload of None deletes the message's key.

    If `config` is None, only the limits of the file format apply. That is for copying messages that
    another topic has already accepted. Raises `InputError` if an argument is invalid.
    """
    message_payloads = _to_tuple("payloads", payloads)
    count = len(message_payloads)
    if not count:
        raise InputError("an append needs at least one message")
    message_keys = None if keys is None else _to_tuple("keys", keys, count)
    message_headers = None if headers is None else _to_tuple("headers", headers, count)
    checked_producer = None if producer is None else _checked(producer)
    values = _values(message_payloads)
    blocks, flags, schedule = None, None, _schedule(not_before_ms)
    if message_headers is None and not schedule:
        if message_keys is not None or checked_producer is not None:
            blocks = encode_plain_blocks(_copied_keys(message_keys), checked_producer, count=count)
    else:
        header_lists = [_named(index, message_headers, schedule) for index in range(count)]
        count_max = STORED_HEADERS_COUNT_MAX if config is None else HEADERS_COUNT_MAX
        blocks = [
            _block(
                index, message_keys, header_lists[index], _nth(checked_producer, index), count_max
            )
            for index in range(count)
        ]
        flags = [_scheduled_flag(header_list) for header_list in header_lists]
    if values is not message_payloads:
        tombstones = [
            _tombstone_flag(index, message_payloads, message_keys) for index in range(count)
        ]
        flags = list(map(operator.or_, flags, tombstones)) if flags else tombstones
    return Append(
        payloads=values,
        headers=blocks,
        timestamps_ms=_stamps(timestamps_ms, count),
        flags=flags if flags and any(flags) else 0,
        ack=_ack(ack),
        size=_size(values, blocks, config),
        message_count=count,
        producer=checked_producer,
    )


def build_batch_append(batch: Buffer, *, config: TopicConfig, ack: Ack) -> Append:
    """Builds an append of one Kafka record batch, which is stored as a whole or not at all.

    Raises `InputError` if the header or the checksum of the batch is not valid, `TooLarge` if the
    batch is too large, and `CodecMissing` if its codec is not installed. The messages in the batch
    are not decoded.
    """
    try:
        data = _copied(batch)
        header = check(data)
    except TypeError:
        raise InputError(f"a record batch must be bytes, not {type(batch).__name__}") from None
    except DataError as error:
        raise InputError(f"not a valid record batch: {error}") from error
    _check_limit("a record batch", record_bytes(0, len(data)), config.request_bytes_max)
    require_codec(compression_of(header))  # so that the batch can be read back
    return _batch_append(data, header, _ack(ack))


def build_staged_append(batch: bytes) -> Append:
    """Builds an append of one record batch from a commit file.

    The batch was validated before it was added to the file. The append is acknowledged as soon as
    it is written; the caller syncs once, after the last batch.
    """
    return _batch_append(batch, check(batch), Ack.AFTER_WRITE)


def _batch_append(data: bytes, header: RecordBatchHeader, ack: Ack) -> Append:
    return Append(
        payloads=(data,),
        timestamps_ms=max(header.max_timestamp_ms, 0),
        flags=int(RecordFlags.BATCH),
        ack=ack,
        size=record_bytes(0, len(data)),
        message_count=header.message_count,
        producer=producer_of(header),
    )


def _to_tuple(what: str, values: Iterable[object], count: int | None = None) -> tuple[object, ...]:
    """Copies the values, because the caller's list may change before the append is written.

    Raises `InputError` if `values` is not iterable, is a `str`, `bytes`, `bytearray` or
    `memoryview`, or does not have `count` values, if `count` is given.
    """
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise InputError(f"{what}: must be a sequence, not a single {type(values).__name__}")
    try:
        copied = tuple(values)
    except TypeError:
        raise InputError(f"{what}: must be a sequence, not {type(values).__name__}") from None
    if count is not None and len(copied) != count:
        raise InputError(f"{what}: {len(copied)} values were passed for {count} messages")
    return copied


def _values(payloads: tuple[object, ...]) -> Sequence[bytes]:
    """Returns the payloads as `bytes`, with an empty value in place of None.

    Returns the same tuple if all payloads are `bytes` already.
    """
    if bytes_lengths(payloads) is not None:
        return cast("Sequence[bytes]", payloads)
    try:
        return tuple(b"" if payload is None else _copied(payload) for payload in payloads)
    except (TypeError, BufferError):
        raise InputError("payloads: each must be bytes, or None to delete its key") from None


def _copied(buffer: object) -> bytes:
    return buffer if type(buffer) is bytes else bytes(memoryview(buffer))  # type: ignore[arg-type]


def _tombstone_flag(
    index: int, payloads: tuple[object, ...], keys: tuple[object, ...] | None
) -> int:
    if payloads[index] is not None:
        return 0
    if keys is None or keys[index] is None:
        raise InputError(
            f"message {index}: a payload of None deletes a key, so the message must have a key"
        )
    return int(RecordFlags.TOMBSTONE)


def _schedule(not_before_ms: int) -> tuple[Header, ...]:
    if type(not_before_ms) is not int or not 0 <= not_before_ms <= TIMESTAMP_MS_MAX:
        raise InputError(
            f"not_before_ms {str(not_before_ms)[:40]}: must be 0 or a time in ms since 1970"
        )
    return ((NOT_BEFORE_HEADER, b"%d" % not_before_ms),) if not_before_ms else ()


def _scheduled_flag(headers: Sequence[Header]) -> int:
    """Returns the flag `SCHEDULED` if there is a `NOT_BEFORE_HEADER`, otherwise 0.

    That header comes from the argument `not_before_ms`, or from the headers that the caller passed.
    Its value is not checked.
    """
    is_scheduled = any(name == NOT_BEFORE_HEADER for name, _ in headers)
    return int(RecordFlags.SCHEDULED) if is_scheduled else 0


def _nth(producer: Producer | None, index: int) -> Producer | None:
    """Returns `producer` with its sequence advanced to that of the message at `index`."""
    if producer is None:
        return None
    return producer._replace(sequence=(producer.sequence + index) % SEQUENCE_COUNT)


def _named(
    index: int, headers: tuple[object, ...] | None, schedule: tuple[Header, ...]
) -> Sequence[Header]:
    if headers is None:
        return schedule
    try:
        pairs = [(name, value) for name, value in cast("Sequence[Header]", headers[index])]
        copied = [(name, None if value is None else _copied(value)) for name, value in pairs]
    except (TypeError, ValueError, BufferError):
        raise InputError(
            f"message {index}: each header must be a pair of a name and a value (bytes or None)"
        ) from None
    if not all(isinstance(name, str) for name, _ in copied):
        raise InputError(f"message {index}: each header name must be a string")
    return [*copied, *schedule]


def _copied_keys(keys: tuple[object, ...] | None) -> Iterable[bytes | None]:
    if keys is None:
        return repeat(None)
    return [_copied_key(index, key) for index, key in enumerate(keys)]


def _copied_key(index: int, key: object) -> bytes | None:
    try:
        return None if key is None else _copied(key)
    except (TypeError, BufferError):
        raise InputError(f"message {index}: the key must be bytes or None") from None


def _block(
    index: int,
    keys: tuple[object, ...] | None,
    headers: Sequence[Header],
    producer: Producer | None,
    count_max: int,
) -> bytes:
    key = None if keys is None else _copied_key(index, keys[index])
    return encode_headers(key, producer, headers, count_max=count_max)


def _checked(producer: Producer) -> Producer:
    try:
        producer_id, epoch, sequence = map(operator.index, producer)
    except (TypeError, ValueError):
        raise InputError(
            "producer: must be three integers: an id, an epoch and a sequence"
        ) from None
    if not (0 <= producer_id <= OFFSET_MAX and 0 <= epoch <= EPOCH_MAX):
        raise InputError(
            f"producer {producer_id}, epoch {epoch}: the id must be 0 to {OFFSET_MAX}, "
            f"the epoch 0 to {EPOCH_MAX}"
        )
    if not 0 <= sequence < SEQUENCE_COUNT:
        raise InputError(f"sequence {sequence}: must be 0 to {SEQUENCE_COUNT - 1}")
    return Producer(producer_id, epoch, sequence)


def _stamps(timestamps_ms: Numbers, count: int) -> Numbers:
    """Validates the timestamps: a single one for all messages, or a sequence with one per message.

    Returns the single timestamp, or a copy of the sequence.
    """
    try:
        if isinstance(timestamps_ms, int):
            latest, stamps = int(timestamps_ms), array("Q", [timestamps_ms])
        else:
            stamps = array("Q", _to_tuple("timestamps_ms", timestamps_ms, count))  # type: ignore[arg-type]
            latest = max(stamps)
    except (TypeError, OverflowError):
        raise InputError(
            f"timestamps_ms: must be integers from 0 to {TIMESTAMP_MS_MAX}, in ms since 1970"
        ) from None
    if latest > TIMESTAMP_MS_MAX:
        raise InputError(f"timestamps_ms: {latest} is more than the maximum {TIMESTAMP_MS_MAX}")
    return latest if isinstance(timestamps_ms, int) else stamps


def _ack(ack: Ack) -> Ack:
    if not isinstance(ack, Ack):
        raise InputError(f"ack {str(ack)[:40]}: must be a member of `Ack`")
    return ack.require_possible()


def _size(
    values: Sequence[bytes], blocks: Sequence[bytes] | None, config: TopicConfig | None
) -> int:
    total, longest = bytes_lengths(values) or (0, 0)
    blocks_total, longest_block = bytes_lengths(blocks or ()) or (0, 0)
    size = total + blocks_total + len(values) * RECORD_OVERHEAD
    if config is None:
        return size
    if blocks is not None and longest + longest_block > config.message_bytes_max:
        # The longest payload and the longest block may belong to different messages.
        longest = max(map(operator.add, map(len, values), map(len, blocks)))
    _check_limit("a message", longest, config.message_bytes_max)
    _check_limit("an append", size, config.request_bytes_max)
    return size


def _check_limit(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"the size of {what}, in bytes,", size=size, limit=limit)
