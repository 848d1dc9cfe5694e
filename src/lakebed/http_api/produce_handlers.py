"""The produce handler: accepts a document with columns, JSON lines, or the bytes of one message.

The whole body is read and checked before the first message is appended. An append is queued in its
partition and awaited, so no thread waits for the disk. Messages for several partitions are divided
into one append per partition. If some of these appends fail, those that succeed are kept, and
`PartlyAppended` reports which. If several fail, an error with an unknown outcome (a failed sync)
takes precedence over an error that changed nothing (a full queue). With a producer, all messages go
to one partition, so that a failed request can be sent again unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from lakebed.api.operation import Raw
from lakebed.api.problems import Refused
from lakebed.api.topics import (
    MESSAGES_MAX,
    Appended,
    Produce,
    Produced,
    ProduceQuery,
    WireProducer,
)
from lakebed.base.clock import NS_PER_MS
from lakebed.base.commit import Ticket
from lakebed.base.errors import Busy, InputError, LakebedError
from lakebed.http_api.call import Call
from lakebed.http_api.lookup import topic_of
from lakebed.http_api.message_lines import read_lines
from lakebed.http_api.service import Service
from lakebed.keratin.append_future import graver
from lakebed.keratin.config import Ack
from lakebed.keratin.errors import AppendedPart, PartlyAppended
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.partition import Partition
from lakebed.keratin.partitioner import divided
from lakebed.keratin.writer_requests import Append
from lakebed.keratin.writer_requests import Appended as Stored
from lakebed.store.topics import StoreTopic

_ROOM_S: Final = 0.002  # between two attempts while the queue is full
_HEADER_PREFIX: Final = b"lakebed-header-"


class _Prepared(NamedTuple):
    """An append to one partition that was checked, but not queued yet."""

    partition: Partition
    append: Append


async def produce(service: Service, call: Call) -> Produced:
    topic = await topic_of(service, call)
    now_ms = service.store.runner.clock.wall_ns() // NS_PER_MS
    document, prepared = await call.read_as(
        lambda data: _read_and_prepare(call, data, topic, now_ms=now_ms),
        may_wait=not topic.is_whole,
    )
    timeout_ms = document.timeout_ms or 0
    if len(prepared) == 1:
        single = prepared[0]
        ticket = _submit(single) or await _submit_later(single, timeout_ms)
        return Produced([_appended(single, await service.done(ticket))])
    return await _append_all(service, prepared, timeout_ms)


async def _append_all(service: Service, prepared: Sequence[_Prepared], timeout_ms: int) -> Produced:
    """Appends to several partitions, and waits for every append that was queued, even if others
    fail.

    If an append cannot be queued, those after it are not tried. Raises the gravest error if no
    append succeeded, and `PartlyAppended` if only some did.
    """
    appended: list[Appended] = []
    tickets: list[Ticket[Stored]] = []
    failure: LakebedError | None = None
    try:
        for part in prepared:
            tickets.append(_submit(part) or await _submit_later(part, timeout_ms))
    except LakebedError as error:
        failure = error.with_traceback(None)  # its frames keep the messages alive
    for part, ticket in zip(prepared, tickets, strict=False):  # only those that were queued
        try:
            appended.append(_appended(part, await service.done(ticket)))
        except LakebedError as error:
            failure = graver(failure, error.with_traceback(None))
    if failure is None:
        return Produced(appended)
    if not appended:
        raise failure
    parts = [AppendedPart(part.partition, part.base_offset, part.count) for part in appended]
    raise PartlyAppended(failure, parts) from failure


def _submit(prepared: _Prepared) -> Ticket[Stored] | None:
    """Queues the append. Returns None if the queue is full."""
    try:
        return prepared.partition.submit(prepared.append, timeout=0, is_awaited=True)
    except Busy:
        return None


async def _submit_later(prepared: _Prepared, timeout_ms: int) -> Ticket[Stored]:
    """Queues the append when the queue has space. Raises `Busy` if it has none within
    `timeout_ms`."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + timeout_ms / 1000
    while clock() < until_s:
        await asyncio.sleep(_ROOM_S)
        ticket = _submit(prepared)
        if ticket is not None:
            return ticket
    raise Busy(f"{prepared.partition.name}: the queue of writes is full; retry later")


def _appended(prepared: _Prepared, stored: Stored) -> Appended:
    return Appended(prepared.partition.number, stored.base_offset, stored.message_count)


def _read_and_prepare(
    call: Call, data: bytes, topic: StoreTopic, *, now_ms: int
) -> tuple[Produce, list[_Prepared]]:
    """Decodes a request and prepares its appends. May block, because it opens partitions."""
    document = _read_request(call, data, topic, now_ms=now_ms)
    return document, _prepare(topic, document)


# Decoding of each kind of body.


def _read_request(call: Call, data: bytes, topic: StoreTopic, *, now_ms: int) -> Produce:
    match call.raw:
        case Raw.LINES:
            return _from_lines(call.query, data, topic, now_ms=now_ms)
        case Raw.BYTES:
            return _from_bytes(call, data)
        case _:
            if call.request.raw_query:
                raise Refused(
                    "query parameters cannot be combined with a JSON or MessagePack body; set its "
                    "fields instead"
                )
            return call.decoded(data, Produce)


def _from_lines(query: ProduceQuery, data: bytes, topic: StoreTopic, *, now_ms: int) -> Produce:
    columns = read_lines(
        data, count_max=MESSAGES_MAX, message_bytes_max=topic.config.message_bytes_max
    )
    if query.key is not None:
        raise Refused(
            "the query parameter `key` is only for a body that is the value of one message; give "
            "each line of JSON a field `key` or `key_base64` instead"
        )
    default_ms = query.timestamp_ms
    if default_ms is None and any(stamp is not None for stamp in columns.timestamps_ms):
        default_ms = now_ms
    stamps = [default_ms if stamp is None else stamp for stamp in columns.timestamps_ms]
    return Produce(
        values=columns.values,
        keys=columns.keys if any(key is not None for key in columns.keys) else None,
        headers=columns.headers if any(columns.headers) else None,
        timestamps_ms=None if default_ms is None else [stamp or 0 for stamp in stamps],
        partition=query.partition,
        producer=_producer(query),
        not_before_ms=query.not_before_ms,
        ack=query.ack,
    )


def _from_bytes(call: Call, data: bytes) -> Produce:
    query: ProduceQuery = call.query
    headers = _message_headers(call)
    return Produce(
        values=[data],
        keys=None if query.key is None else [query.key.encode()],
        headers=[headers] if headers else None,
        timestamps_ms=None if query.timestamp_ms is None else [query.timestamp_ms],
        partition=query.partition,
        producer=_producer(query),
        not_before_ms=query.not_before_ms,
        ack=query.ack,
    )


def _message_headers(call: Call) -> list[Header]:
    """Returns the message's headers: one for each request header `Lakebed-Header-<name>`."""
    start = len(_HEADER_PREFIX)
    return [
        (name[start:].decode("latin-1"), value)
        for name, value in call.request.fields
        if len(name) > start and name[:start].lower() == _HEADER_PREFIX
    ]


def _producer(query: ProduceQuery) -> WireProducer | None:
    if query.producer_id is None:
        return None
    fields = {
        "id": query.producer_id,
        "epoch": query.producer_epoch,
        "sequence": query.producer_sequence,
    }
    try:
        return msgspec.convert(fields, WireProducer)
    except msgspec.ValidationError as error:
        raise Refused(
            "the query parameters `producer_id`, `producer_epoch` and `producer_sequence` are not "
            f"valid: {error}"
        ) from None


# Preparing appends.


def _prepare(topic: StoreTopic, document: Produce) -> list[_Prepared]:
    """Prepares all appends before any is queued, so that an error in one of them changes
    nothing."""
    count = len(document.values)
    for name, column in (
        ("keys", document.keys),
        ("headers", document.headers),
        ("timestamps_ms", document.timestamps_ms),
    ):
        if column is not None and len(column) != count:
            raise InputError(f"{name}: {len(column)} values were passed for {count} messages")
    producer = None
    if document.producer is not None:
        producer = Producer(
            document.producer.id, document.producer.epoch, document.producer.sequence
        )
    ack = None if document.ack is None else Ack.parse(document.ack)
    return [
        _Prepared(
            partition,
            partition.prepare(
                part.values,
                keys=part.keys,
                headers=part.headers,
                timestamps_ms=part.timestamps_ms,
                producer=producer,
                not_before_ms=document.not_before_ms,
                ack=ack,
            ),
        )
        for partition, part in _parts(topic, document)
    ]


class _Part(NamedTuple):
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Sequence[Header]] | None
    timestamps_ms: Sequence[int] | None


def _parts(topic: StoreTopic, document: Produce) -> list[tuple[Partition, _Part]]:
    """Divides the messages by partition."""
    whole = _Part(document.values, document.keys, document.headers, document.timestamps_ms)
    number, partition_count = document.partition, topic.partition_count
    if number is None and partition_count == 1:
        number = 0
    if number is None and document.producer is not None:
        raise InputError(
            "an append with a producer needs a partition, because the topic has several partitions"
        )
    if number is None and document.keys is None:
        number = topic.next_partition()
    if number is not None:
        return [(topic.partition(number), whole)]
    parts = divided(document.keys or (), partition_count, topic.next_partition)
    if not parts:
        raise InputError("an append needs at least one message")
    return [(topic.partition(chosen), _select(whole, indexes)) for chosen, indexes in parts]


def _select(whole: _Part, indexes: list[int]) -> _Part:
    columns = (column and [column[index] for index in indexes] for column in whole)
    return _Part(*columns)  # type: ignore[arg-type]
