"""Appends messages to a remote store. A message that is sent twice is stored only once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakebed.api import topics as wire
from lakebed.base.errors import Busy, Closed, InputError, LakebedError
from lakebed.base.layout import Buffer
from lakebed.client.append_result import AppendResult
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.producer_pool import ProducerPool
from lakebed.keratin.config import Ack
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.headers import Header, Producer
from lakebed.keratin.segment import Numbers
from lakebed.keratin.writer_requests import Appended

ROOM_S = 5.0  # how long the server waits for room in the queue, if the caller sets no time-out

_MS_PER_S = 1000
_AT_THE_COMMIT = (OutOfOrderSequence, ProducerFenced)


class Batch(NamedTuple):
    """Messages for one partition, with the arguments of `Partition.append_batch`."""

    payloads: Sequence[Buffer | None]
    keys: Sequence[Buffer | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    timestamps_ms: Numbers | None = None
    producer: Producer | None = None
    not_before_ms: int = 0
    ack: Ack | None = None
    timeout: float | None = None


class MessageAppender:
    """Appends the messages of one client. Thread-safe."""

    def __init__(self, caller: Caller, producers: ProducerPool) -> None:
        self._caller = caller
        self._producers = producers
        self._turns: dict[str, int] = {}  # by topic; a lost update only changes the order

    def next_partition(self, topic: str, count: int) -> int:
        """Returns the number of the partition for messages without a key: each partition in turn.

        `count` is the number of partitions. Objects for the same topic share the turn.
        """
        turn = self._turns[topic] = (self._turns.get(topic, 0) + 1) % count
        return turn

    def append(self, topic: str, partition: int, batch: Batch) -> AppendResult:
        """Appends a batch and waits until it is acknowledged.

        As in the embedded API, invalid arguments, a full queue and a closed store raise an error.
        All other errors, such as a failed write or a lost connection, are in the result.
        """
        try:
            outcome = self._append(topic, partition, batch)
        except LakebedError as error:
            is_raised = isinstance(error, InputError | Busy | Closed)
            if is_raised and not isinstance(error, _AT_THE_COMMIT):
                raise
            return AppendResult(error, partition=partition)
        return AppendResult(outcome, partition=partition)

    def _append(self, topic: str, partition: int, batch: Batch) -> Appended:
        if batch.producer is not None:
            return self._send(topic, partition, batch, batch.producer)
        try:
            return self._append_as_own(topic, partition, batch)
        except OutOfOrderSequence:
            # The server lost the state of this id in a power cut, with messages that were written
            # but not synced. These messages are lost too, so they may be sent with another id.
            return self._append_as_own(topic, partition, batch)

    def _append_as_own(self, topic: str, partition: int, batch: Batch) -> Appended:
        own = self._producers.take()
        appended = self._send(topic, partition, batch, own.at(topic, partition))
        own.advance(topic, partition, appended.message_count)
        self._producers.give_back(own)  # only after success: see `ProducerPool`
        return appended

    def _send(self, topic: str, partition: int, batch: Batch, producer: Producer) -> Appended:
        document = _document(batch, partition, producer)
        produced = self._caller.call(
            wire.PRODUCE,
            {"topic": topic},
            body=document,
            is_repeatable=True,
            wait_s=ROOM_S if batch.timeout is None else batch.timeout,
            busy_s=batch.timeout,
        )
        if len(produced.appended) != 1 or produced.appended[0].count != len(document.values):
            raise BadAnswer("produce: the response does not match the messages that were sent")
        appended = produced.appended[0]
        return Appended(appended.base_offset, appended.count)


def _document(batch: Batch, partition: int, producer: Producer) -> wire.Produce:
    values = _column("payloads", batch.payloads)
    if batch.ack is not None and not isinstance(batch.ack, Ack):
        raise InputError(f"ack {str(batch.ack)[:40]}: must be a member of `Ack`")
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
    """Converts a time-out from seconds to milliseconds; None stays None."""
    return None if timeout is None else max(0, round(timeout * _MS_PER_S))


def _column(what: str, values: Sequence[Buffer | None]) -> list[bytes | None]:
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise InputError(f"{what}: must be a sequence, not a single {type(values).__name__}")
    try:
        return [None if value is None else as_bytes(value) for value in values]
    except (TypeError, BufferError):
        raise InputError(f"{what}: each must be bytes or None") from None


def as_bytes(value: Buffer) -> bytes:
    return value if type(value) is bytes else bytes(memoryview(value))


def _headers(headers: Sequence[Sequence[Header]]) -> list[list[Header]]:
    try:
        return [
            [(name, None if value is None else as_bytes(value)) for name, value in pairs]
            for pairs in headers
        ]
    except (TypeError, ValueError, BufferError):
        raise InputError(
            "headers: each must be a pair of a name and a value (bytes or None)"
        ) from None


def _numbers(numbers: Numbers | None, count: int) -> list[int] | None:
    if numbers is None:
        return None
    return [numbers] * count if isinstance(numbers, int) else list(numbers)


def _wire_producer(producer: Producer) -> wire.WireProducer:
    try:
        producer_id, epoch, sequence = producer
    except (TypeError, ValueError):
        raise InputError("producer: must be an id, an epoch and a sequence") from None
    return wire.WireProducer(id=producer_id, epoch=epoch, sequence=sequence)
