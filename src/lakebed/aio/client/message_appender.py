# Made by `python -m tools.asynced` of `src/lakebed/client/message_appender.py`: edit that.
"""Appends of messages over the wire, each stored once, however often it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.aio.client.caller import Caller
from lakebed.api import topics as wire
from lakebed.base.errors import Busy, Closed, InputError, LakebedError
from lakebed.base.layout import Buffer
from lakebed.client.append_result import AppendResult
from lakebed.client.errors import BadAnswer
from lakebed.client.producer_pool import ProducerPool
from lakebed.keratin.config import Ack
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.segment import Numbers
from lakebed.keratin.writer_requests import Appended

ROOM_S = 5.0  # that the server waits for room, for who waits as long as it takes

_MS_PER_S = 1000
_AT_THE_COMMIT = (OutOfOrderSequence, ProducerFenced)


class Batch(NamedTuple):
    """Messages for one partition, as the embedded API takes them."""

    payloads: Sequence[Buffer | None]
    keys: Sequence[Buffer | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    timestamps_ms: Numbers | None = None
    producer: Producer | None = None
    not_before_ms: int = 0
    ack: Ack | None = None
    timeout: float | None = None


class MessageAppender:
    """Of one client. For one event loop."""

    def __init__(self, caller: Caller, producers: ProducerPool) -> None:
        self._caller = caller
        self._producers = producers
        self._turns: dict[str, int] = {}  # by topic; a lost count only changes the turn

    def next_partition(self, topic: str, count: int) -> int:
        """Where messages without a key go: each in turn, also for who opens the topic anew."""
        turn = self._turns[topic] = (self._turns.get(topic, 0) + 1) % count
        return turn

    async def append(self, topic: str, partition: int, batch: Batch) -> AppendResult:
        """What is wrong with the call is raised; what goes wrong behind it is in the result, as
        it would be embedded."""
        try:
            outcome = await self._append(topic, partition, batch)
        except LakebedError as error:
            is_of_the_call = isinstance(error, InputError | Busy | Closed)
            if is_of_the_call and not isinstance(error, _AT_THE_COMMIT):
                raise
            return AppendResult(error, partition=partition)
        return AppendResult(outcome, partition=partition)

    async def _append(self, topic: str, partition: int, batch: Batch) -> Appended:
        if batch.producer is not None:
            return await self._send(topic, partition, batch, batch.producer)
        try:
            return await self._append_as_own(topic, partition, batch)
        except OutOfOrderSequence:
            # The server does not know what it knew of this id: a power cut took what was only
            # written. These messages are not there either, so they may be sent by another.
            return await self._append_as_own(topic, partition, batch)

    async def _append_as_own(self, topic: str, partition: int, batch: Batch) -> Appended:
        own = self._producers.take()
        appended = await self._send(topic, partition, batch, own.at(topic, partition))
        own.advance(topic, partition, appended.message_count)
        self._producers.give_back(own)  # only now: see there
        return appended

    async def _send(self, topic: str, partition: int, batch: Batch, producer: Producer) -> Appended:
        document = _document(batch, partition, producer)
        produced = await self._caller.call(
            wire.PRODUCE,
            {"topic": topic},
            body=document,
            is_repeatable=True,
            wait_s=ROOM_S if batch.timeout is None else batch.timeout,
            busy_s=batch.timeout,
        )
        if len(produced.appended) != 1 or produced.appended[0].count != len(document.values):
            raise BadAnswer("produce: the answer tells of other messages than were sent")
        told = produced.appended[0]
        return Appended(told.base_offset, told.count)


def _document(batch: Batch, partition: int, producer: Producer) -> wire.Produce:
    values = _column("payloads", batch.payloads)
    if batch.ack is not None and not isinstance(batch.ack, Ack):
        raise InputError(f"ack {str(batch.ack)[:40]}: not one of `Ack`")
    stamps = batch.timestamps_ms
    return wire.Produce(
        values=values,
        keys=None if batch.keys is None else _column("keys", batch.keys),
        headers=None if batch.headers is None else _headers(batch.headers),
        timestamps_ms=_numbers(stamps, len(values)),
        partition=partition,
        producer=_wire_producer(producer),
        not_before_ms=batch.not_before_ms,
        ack=None if batch.ack is None else batch.ack.value,
        timeout_ms=milliseconds(ROOM_S if batch.timeout is None else batch.timeout),
    )


def milliseconds(timeout: float | None) -> int | None:
    """Of seconds, as the embedded API has them."""
    return None if timeout is None else max(0, round(timeout * _MS_PER_S))


def _column(what: str, values: Sequence[Buffer | None]) -> list[bytes | None]:
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise InputError(f"{what}: a sequence is wanted, not one of them")
    try:
        return [None if one is None else as_bytes(one) for one in values]
    except (TypeError, BufferError):
        raise InputError(f"{what}: every one must be bytes, or None") from None


def as_bytes(value: Buffer) -> bytes:
    return value if type(value) is bytes else bytes(memoryview(value))


def _headers(headers: Sequence[Sequence[Header]]) -> list[list[Header]]:
    try:
        return [
            [(name, None if value is None else as_bytes(value)) for name, value in one]
            for one in headers
        ]
    except (TypeError, ValueError, BufferError):
        raise InputError("headers: each is a name, and bytes or None") from None


def _numbers(numbers: Numbers | None, count: int) -> list[int] | None:
    if numbers is None:
        return None
    return [numbers] * count if isinstance(numbers, int) else list(numbers)


def _wire_producer(producer: Producer) -> wire.WireProducer:
    try:
        producer_id, epoch, sequence = producer
    except (TypeError, ValueError):
        raise InputError("producer: not an id, an epoch and a sequence") from None
    return wire.WireProducer(id=producer_id, epoch=epoch, sequence=sequence)
