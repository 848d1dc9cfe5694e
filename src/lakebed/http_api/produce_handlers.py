"""Producing: a document with columns, JSON lines, or the bytes of one message.

All of a body is read and checked before the first message is appended. An append is handed to its
partition and awaited: no thread waits for the disk. What goes to several partitions is one append
for each; if one of them fails the others stand, and it is told which: `PartlyAppended`. What may or
may not have been done (a sync that failed) is told before what was not done (a full queue). With a
producer all go to one partition, so that what failed may be sent again as it is.
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

_ROOM_S: Final = 0.002  # between two looks whether there is room
_HEADER_PREFIX: Final = b"lakebed-header-"


class _Prepared(NamedTuple):
    """For one partition: checked, and not queued."""

    partition: Partition
    append: Append


async def produce(service: Service, call: Call) -> Produced:
    topic = await topic_of(service, call)
    now_ms = service.store.runner.clock.wall_ns() // NS_PER_MS
    asked, prepared = await call.read_as(
        lambda data: _read_and_prepare(call, data, topic, now_ms=now_ms),
        may_wait=not topic.is_whole,
    )
    timeout_ms = asked.timeout_ms or 0
    if len(prepared) == 1:
        only = prepared[0]
        ticket = _submit(only) or await _submit_later(only, timeout_ms)
        return Produced([_appended(only, await service.done(ticket))])
    return await _append_all(service, prepared, timeout_ms)


async def _append_all(service: Service, prepared: Sequence[_Prepared], timeout_ms: int) -> Produced:
    """To several partitions; what was queued is awaited, whatever becomes of the others.

    A failure is told as it is only if nothing was appended.
    """
    appended: list[Appended] = []
    tickets: list[Ticket[Stored]] = []
    failure: LakebedError | None = None
    try:
        for one in prepared:
            tickets.append(_submit(one) or await _submit_later(one, timeout_ms))
    except LakebedError as error:
        failure = error.with_traceback(None)  # its frames hold the messages
    for one, ticket in zip(prepared, tickets, strict=False):  # those that were queued
        try:
            appended.append(_appended(one, await service.done(ticket)))
        except LakebedError as error:
            failure = graver(failure, error.with_traceback(None))
    if failure is None:
        return Produced(appended)
    if not appended:
        raise failure
    parts = [AppendedPart(one.partition, one.base_offset, one.count) for one in appended]
    raise PartlyAppended(failure, parts) from failure


def _submit(prepared: _Prepared) -> Ticket[Stored] | None:
    """Queue it; None if there is no room."""
    try:
        return prepared.partition.submit(prepared.append, timeout=0, is_awaited=True)
    except Busy:
        return None


async def _submit_later(prepared: _Prepared, timeout_ms: int) -> Ticket[Stored]:
    """Queue it when there is room; `Busy` if there is none in time."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + timeout_ms / 1000
    while clock() < until_s:
        await asyncio.sleep(_ROOM_S)
        ticket = _submit(prepared)
        if ticket is not None:
            return ticket
    raise Busy(f"{prepared.partition.name}: the queue of writes is full")


def _appended(prepared: _Prepared, stored: Stored) -> Appended:
    return Appended(prepared.partition.number, stored.base_offset, stored.message_count)


def _read_and_prepare(
    call: Call, data: bytes, topic: StoreTopic, *, now_ms: int
) -> tuple[Produce, list[_Prepared]]:
    """Waits for a partition that is not open yet."""
    asked = _read_request(call, data, topic, now_ms=now_ms)
    return asked, _prepare(topic, asked)


# What is asked for, from each kind of body.


def _read_request(call: Call, data: bytes, topic: StoreTopic, *, now_ms: int) -> Produce:
    match call.raw:
        case Raw.LINES:
            return _from_lines(call.query, data, topic, now_ms=now_ms)
        case Raw.BYTES:
            return _from_bytes(call, data)
        case _:
            if call.request.raw_query:
                raise Refused("a query is for lines and bytes: a document says all of it itself")
            return call.decoded(data, Produce)


def _from_lines(query: ProduceQuery, data: bytes, topic: StoreTopic, *, now_ms: int) -> Produce:
    found = read_lines(
        data, count_max=MESSAGES_MAX, message_bytes_max=topic.config.message_bytes_max
    )
    if query.key is not None:
        raise Refused("key is for one message's bytes: lines have their own")
    default_ms = query.timestamp_ms
    if default_ms is None and any(one is not None for one in found.timestamps_ms):
        default_ms = now_ms
    stamps = [default_ms if one is None else one for one in found.timestamps_ms]
    return Produce(
        values=found.values,
        keys=found.keys if any(key is not None for key in found.keys) else None,
        headers=found.headers if any(found.headers) else None,
        timestamps_ms=None if default_ms is None else [one or 0 for one in stamps],
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
    """Those of the request that are the message's: `Lakebed-Header-<name>`."""
    start = len(_HEADER_PREFIX)
    return [
        (name[start:].decode("latin-1"), value)
        for name, value in call.request.fields
        if len(name) > start and name[:start].lower() == _HEADER_PREFIX
    ]


def _producer(query: ProduceQuery) -> WireProducer | None:
    if query.producer_id is None:
        return None
    said = {
        "id": query.producer_id,
        "epoch": query.producer_epoch,
        "sequence": query.producer_sequence,
    }
    try:
        return msgspec.convert(said, WireProducer)
    except msgspec.ValidationError as error:
        raise Refused(f"the producer is not as it should be: {error}") from None


# From what is asked for to appends.


def _prepare(topic: StoreTopic, asked: Produce) -> list[_Prepared]:
    """All of them, so that what is wrong with one is found before another is queued."""
    count = len(asked.values)
    for name, column in (
        ("keys", asked.keys),
        ("headers", asked.headers),
        ("timestamps_ms", asked.timestamps_ms),
    ):
        if column is not None and len(column) != count:
            raise InputError(f"{name}: there are {len(column)} of them, but {count} messages")
    producer = None
    if asked.producer is not None:
        producer = Producer(asked.producer.id, asked.producer.epoch, asked.producer.sequence)
    ack = None if asked.ack is None else Ack.parse(asked.ack)
    return [
        _Prepared(
            partition,
            partition.prepare(
                part.values,
                keys=part.keys,
                headers=part.headers,
                timestamps_ms=part.timestamps_ms,
                producer=producer,
                not_before_ms=asked.not_before_ms,
                ack=ack,
            ),
        )
        for partition, part in _parts(topic, asked)
    ]


class _Part(NamedTuple):
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Sequence[Header]] | None
    timestamps_ms: Sequence[int] | None


def _parts(topic: StoreTopic, asked: Produce) -> list[tuple[Partition, _Part]]:
    """What goes to which partition, by partition."""
    whole = _Part(asked.values, asked.keys, asked.headers, asked.timestamps_ms)
    number, partition_count = asked.partition, topic.partition_count
    if number is None and partition_count == 1:
        number = 0
    if number is None and asked.producer is not None:
        raise InputError("a producer's messages need a partition")
    if number is None and asked.keys is None:
        number = topic.next_partition()
    if number is not None:
        return [(topic.partition(number), whole)]
    parts = divided(asked.keys or (), partition_count, topic.next_partition)
    if not parts:
        raise InputError("an append without messages")
    return [(topic.partition(at), _select(whole, indexes)) for at, indexes in parts]


def _select(whole: _Part, indexes: list[int]) -> _Part:
    columns = (column and [column[index] for index in indexes] for column in whole)
    return _Part(*columns)  # type: ignore[arg-type]
