"""A consumer group of a store that another process has open: as `lakebed.store.group.Group`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from lakebed.api import groups as wire
from lakebed.api.dead_letter import DeadLetter, Origin
from lakebed.api.leased_message import LeasedMessage, by_lease
from lakebed.api.peeked_message import PeekedMessage
from lakebed.api.topics import FETCH_BYTES_MAX
from lakebed.base.errors import InputError
from lakebed.client.caller import Caller
from lakebed.client.connections import Interruption
from lakebed.client.waiting import Waiting
from lakebed.keratin.message import Message
from lakebed.stroma.description import Description
from lakebed.stroma.group import MESSAGES_MAX

WAIT_S_MAX = 366 * 24 * 3600
RANGES_AT_ONCE = 100_000  # of one request: some megabytes


class RemoteGroup:
    """Thread-safe."""

    def __init__(self, caller: Caller, topic: str, name: str) -> None:
        self._caller = caller
        self.name = name
        self._names = {"topic": topic, "group": name}

    def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Up to that many messages, held for `lease_ms`. None, if there are none.

        No more than `max_bytes`, which are 32 MiB at most, but one message in any case. With
        `wait_s` it waits that long for the first one.
        """
        return self._lease(
            Interruption(),
            max_messages=max_messages,
            max_bytes=max_bytes,
            lease_ms=lease_ms,
            wait_s=wait_s,
        )

    def _lease(
        self,
        interruption: Interruption,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """As `lease`, until it is interrupted: `Closed` then, or what came just before that."""
        if not 0 <= wait_s <= WAIT_S_MAX:
            raise InputError(f"wait_s = {wait_s}: allowed are 0 to {WAIT_S_MAX}")
        waiting = Waiting(self._caller.runner.clock, wait_s)
        wanted = _at_once(max_messages)
        while True:
            wait_ms = waiting.next_ms()
            body = wire.LeaseRequest(
                max_messages=wanted,
                max_bytes=_bytes_at_once(max_bytes),
                lease_ms=lease_ms,
                wait_ms=wait_ms,
            )
            found = self._caller.call(
                wire.LEASE,
                self._names,
                body=body,
                wait_s=wait_ms / 1000,
                interruption=interruption,
            )
            leased = [one for lease in found.leases for one in _messages_of(lease)]
            if leased or not wait_ms:
                return leased

    def ack(self, message: LeasedMessage) -> None:
        """Settled: never delivered again. `StaleLease` if the lease has ended."""
        self.ack_all([message])

    def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """As `ack`, for many. `StaleLease` if one of them is not held any more; then those leased
        with it are not settled either."""
        for held in _in_requests(held_of(messages)):
            self._caller.call(wire.ACK, self._names, body=wire.Ack(held=held))

    def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Give it back, to be delivered again: at once, or after the delay."""
        self.nack_all([message], delay_ms=delay_ms)

    def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        for held in _in_requests(held_of(messages)):
            body = wire.Nack(held=held, delay_ms=delay_ms)
            self._caller.call(wire.NACK, self._names, body=body)

    def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """As `nack_all`, of messages that nobody looked at: it does not count as a delivery."""
        for held in _in_requests(held_of(messages)):
            body = wire.Nack(held=held, is_delivery=False)
            self._caller.call(wire.NACK, self._names, body=body)

    def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Hold it for `lease_ms` from now; the same message with its new deadline."""
        body = wire.Extend(held=held_of([message]), lease_ms=lease_ms)
        extended = self._caller.call(wire.EXTEND, self._names, body=body)
        return message._replace(deadline_ms=extended.deadlines_ms[0])

    def peek(self, *, max_messages: int = 10, max_bytes: int | None = None) -> list[PeekedMessage]:
        """What a lease of that many would be given now, without leasing it."""
        query = wire.PeekQuery(
            max_messages=_at_once(max_messages), max_bytes=_bytes_at_once(max_bytes)
        )
        found = self._caller.call(wire.PEEK, self._names, query=query)
        columns = zip(
            found.partitions,
            found.offsets,
            found.timestamps_ms,
            found.keys,
            found.values,
            map(tuple, found.headers),
            strict=True,
        )
        return [PeekedMessage(*row) for row in columns]

    def lag(self) -> dict[int, int]:
        """How many messages are not settled, by partition."""
        return self._caller.call(wire.LAG, self._names).partitions

    def describe(self) -> dict[int, Description]:
        """By partition."""
        found = self._caller.call(wire.DESCRIBE_GROUP, self._names)
        return {one.partition: _description_of(one) for one in found.partitions}

    def reset(self, *, partition: int | None = None) -> None:
        """Start over from the beginning of the log."""
        self._caller.call(wire.RESET, self._names, body=wire.Reset(partition=partition))

    def seek(self, offset: int, *, partition: int) -> None:
        """Everything before is settled, everything from there on is delivered again."""
        self._seek(wire.SeekTo(partition=partition, offset=offset))

    def seek_to_time(self, timestamp_ms: int) -> None:
        """As `seek`, in each partition to the first message at or behind that moment."""
        self._seek(wire.SeekTo(timestamp_ms=timestamp_ms))

    def seek_to_end(self) -> None:
        """Settle everything there is."""
        self._seek(wire.SeekTo(to_end=True))

    def dead_letters(self) -> list[DeadLetter]:
        """Those of this group that were not sent back."""
        found: list[DeadLetter] = []
        query = wire.DeadLettersQuery()
        while True:
            page = self._caller.call(wire.DEAD_LETTERS, self._names, query=query)
            found += map(_dead_letter_of, page.letters)
            if page.next_partition is None or page.next_offset is None:
                return found
            query = wire.DeadLettersQuery(partition=page.next_partition, offset=page.next_offset)

    def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Send dead letters back to the partitions they came from; how many."""
        total = asked = count = 0
        while count == asked and total < max_messages:
            asked = min(max_messages - total, wire.REDRIVEN_MAX)
            body = wire.Redrive(max_messages=asked)
            count = self._caller.call(wire.REDRIVE, self._names, body=body).messages
            total += count
        return total

    def _seek(self, to: wire.SeekTo) -> None:
        self._caller.call(wire.SEEK, self._names, body=to)


def _at_once(max_messages: int) -> int:
    """Of so many, or fewer, what one call may be given."""
    is_allowed = max_messages <= MESSAGES_MAX
    return min(max_messages, wire.LEASED_MAX) if is_allowed else max_messages


def _bytes_at_once(max_bytes: int | None) -> int:
    return FETCH_BYTES_MAX if max_bytes is None else min(max_bytes, FETCH_BYTES_MAX)


def _in_requests(held: Iterable[wire.Held]) -> Iterator[list[wire.Held]]:
    """The same in as many requests as it takes: the body of one is bounded."""
    request: list[wire.Held] = []
    count = 0
    for lease in held:
        for first in range(0, len(lease.ranges), RANGES_AT_ONCE):
            part = replace(lease, ranges=lease.ranges[first : first + RANGES_AT_ONCE])
            if request and count + len(part.ranges) > RANGES_AT_ONCE:
                yield request
                request, count = [], 0
            request.append(part)
            count += len(part.ranges)
    if request:
        yield request


def held_of(messages: Iterable[LeasedMessage]) -> list[wire.Held]:
    """By partition and lease."""
    return [
        wire.Held(partition=partition, epoch=epoch, incarnation=incarnation, ranges=ranges)
        for partition, epoch, incarnation, ranges in by_lease(messages)
    ]


def _messages_of(lease: wire.Lease) -> Iterator[LeasedMessage]:
    partition, held = lease.partition, (lease.epoch, lease.deadline_ms, lease.incarnation)
    for offset, timestamp_ms, key, value, headers, count in zip(
        lease.offsets,
        lease.timestamps_ms,
        lease.keys,
        lease.values,
        lease.headers,
        lease.delivery_counts,
        strict=True,
    ):
        yield LeasedMessage(
            partition, offset, timestamp_ms, key, value, tuple(headers), count, *held
        )


def _description_of(state: wire.GroupPartition) -> Description:
    values = {name: getattr(state, name) for name in Description._fields}
    return Description(**{**values, "problems": tuple(state.problems)})


def _dead_letter_of(letter: wire.WireDeadLetter) -> DeadLetter:
    origin = Origin(
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        group=letter.group,
        delivery_count=letter.delivery_count,
        topic_id=letter.topic_id,
    )
    message = Message(
        letter.letter_offset,
        letter.timestamp_ms,
        letter.key,
        letter.value,
        tuple(letter.headers),
        letter.flags,
    )
    return DeadLetter(origin, message)
