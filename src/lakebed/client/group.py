"""A consumer group of a remote store: the remote form of `lakebed.store.group.Group`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from lakebed.api import groups as wire
from lakebed.api.topics import FETCH_BYTES_MAX
from lakebed.base.errors import InputError
from lakebed.client.caller import Caller
from lakebed.client.connection_pool import Interruption
from lakebed.client.long_wait import LongWait
from lakebed.store.dead_letters import LETTERS_MAX, DeadLetter, DeadLetters
from lakebed.store.leased_message import Held, LeasedMessage, PeekedMessage, held_of
from lakebed.stroma.description import GroupPartition
from lakebed.stroma.group import MESSAGES_MAX, HeldRange

WAIT_S_MAX = 366 * 24 * 3600
RANGES_AT_ONCE = 100_000  # per request: some megabytes


class RemoteGroup:
    """A consumer group of a remote store. Thread-safe.

    Calls that acknowledge, return or extend messages raise `StaleLease` if their lease has ended.
    As an exception, a message that is already acknowledged or dead-lettered can be acknowledged
    again.
    """

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
        """Leases up to `max_messages` messages for `lease_ms` (by default, the group's setting),
        and returns them; returns an empty list if there are none.

        Their total size is at most `max_bytes`, but the first message is returned whatever its
        size. A `max_bytes` above 32 MiB, or None, counts as 32 MiB. One call leases at most 100,000
        messages. With `wait_s`, the call waits up to that many seconds for the first message.
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
        """Leases messages like `lease`. Raises `Closed` if `interruption` is set during the call.

        After `interruption.leave`, returns messages that the server has already leased.
        """
        if not 0 <= wait_s <= WAIT_S_MAX:
            raise InputError(f"wait_s = {wait_s}: must be from 0 to {WAIT_S_MAX}")
        waiting = LongWait(self._caller.runner.clock, wait_s)
        count_max = _at_once(max_messages)
        while True:
            wait_ms = waiting.next_ms()
            body = wire.LeaseRequest(
                max_messages=count_max,
                max_bytes=_bytes_at_once(max_bytes),
                lease_ms=lease_ms,
                wait_ms=wait_ms,
            )
            response = self._caller.call(
                wire.LEASE,
                self._names,
                body=body,
                wait_s=wait_ms / 1000,
                interruption=interruption,
            )
            leased = [message for lease in response.leases for message in _messages_of(lease)]
            if leased or not wait_ms:
                return leased

    def ack(self, message: LeasedMessage) -> None:
        """Acknowledges a message: it is not delivered again, unless the group is reset or moved
        back.

        Raises `StaleLease` if its lease has ended, unless the message is already acknowledged or
        dead-lettered.
        """
        self.ack_all([message])

    def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """Acknowledges many messages.

        Raises `StaleLease` if the lease of a message has ended, unless the message is already
        acknowledged or dead-lettered. Then neither this message nor the messages of its partition
        that were leased in the same call are acknowledged; others may be.
        """
        self.ack_held(held_of(messages))

    def ack_held(self, held: Sequence[Held]) -> None:
        """Acknowledges leased messages, given by partition and offsets, one lease after the other.

        Raises `StaleLease` at the first lease that has ended, unless all its messages are already
        acknowledged or dead-lettered. Messages of earlier leases are then acknowledged; messages of
        this lease and of later leases are not.
        """
        for part in _in_requests(held):
            self._caller.call(wire.ACK, self._names, body=wire.Ack(held=part))

    def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Returns a message to the group, which delivers it again: immediately, or after
        `delay_ms`. A message that was delivered as often as the group's limit allows becomes a dead
        letter instead. Raises `StaleLease` if the lease has ended."""
        self.nack_all([message], delay_ms=delay_ms)

    def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        self.nack_held(held_of(messages), delay_ms=delay_ms)

    def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """Returns leased messages, given by partition and offsets, to the group like `nack`.

        With `is_delivery=False` this delivery does not count, as in `give_back`, and `delay_ms` is
        ignored.
        """
        for part in _in_requests(held):
            body = wire.Nack(held=part, delay_ms=delay_ms, is_delivery=is_delivery)
            self._caller.call(wire.NACK, self._names, body=body)

    def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """Returns messages that were not processed to the group, which delivers them again. This
        delivery of them does not count."""
        self.nack_held(held_of(messages), is_delivery=False)

    def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Makes the lease of a message end `lease_ms` (by default, the group's setting) from now.
        Returns the message with its new deadline. Raises `StaleLease` if the lease has ended."""
        (deadline_ms,) = self.extend_held(held_of([message]), lease_ms=lease_ms)
        return message._replace(deadline_ms=deadline_ms)

    def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """Makes leases, given by partition and offsets, end `lease_ms` (by default, the group's
        setting) from now. Returns the new deadline of each lease, in ms since 1970. Raises
        `StaleLease` at the first lease that has ended; earlier ones are then extended."""
        body = wire.Extend(held=list(held), lease_ms=lease_ms)
        return self._caller.call(wire.EXTEND, self._names, body=body).deadlines_ms

    def peek(self, *, max_messages: int = 10, max_bytes: int | None = None) -> list[PeekedMessage]:
        """Returns the messages that `lease` with these limits would return now, without leasing
        them."""
        query = wire.PeekQuery(
            max_messages=_at_once(max_messages), max_bytes=_bytes_at_once(max_bytes)
        )
        peeked = self._caller.call(wire.PEEK, self._names, query=query)
        columns = zip(
            peeked.partitions,
            peeked.offsets,
            peeked.timestamps_ms,
            peeked.keys,
            peeked.values,
            map(tuple, peeked.headers),
            strict=True,
        )
        return [PeekedMessage(*row) for row in columns]

    def lag(self) -> dict[int, int]:
        """Returns the number of messages in each partition that are neither acknowledged nor
        dead-lettered."""
        return self._caller.call(wire.LAG, self._names).partitions

    def describe(self) -> dict[int, GroupPartition]:
        """Returns the state of the group in each partition, by partition number."""
        return self._caller.call(wire.DESCRIBE_GROUP, self._names).partitions

    def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """Lists the messages that are leased now, as at most `max_leases` ranges of offsets, sorted
        by partition and offset. Each range has its deadline and delivery count.

        By default, lists the ranges of all partitions. Messages before `offset` in their partition
        are left out.
        """
        query = wire.LeasesQuery(max_leases=max_leases, partition=partition, offset=offset)
        return self._caller.call(wire.LIST_LEASES, self._names, query=query).leases

    def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Ends the lease of one message, of all messages of a partition, or of the whole group.
        Returns the number of messages that were leased.

        An `offset` also needs its `partition`. The messages can be leased again immediately. A
        consumer that held them gets `StaleLease` if it acks, returns or extends them.
        """
        body = wire.Release(partition=partition, offset=offset)
        return self._caller.call(wire.RELEASE, self._names, body=body).messages

    def reset(self, *, partition: int | None = None) -> None:
        """Moves the group back to the oldest message, in one partition or (by default) in all. All
        leases there end, and all messages are delivered again, even acknowledged ones."""
        self._caller.call(wire.RESET, self._names, body=wire.Reset(partition=partition))

    def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Moves the group to a position: only the messages before the position count as
        acknowledged, and the messages from there on are delivered. All leases in the partition end.

        The position is `offset` in `partition`; or, in each partition, the first message at or
        after `timestamp_ms`; or, with `to_end`, the end of each partition. Raises `InputError`
        unless exactly one of these is given, and if `offset` is negative or after the end.
        """
        body = wire.SeekTo(
            partition=partition, offset=offset, timestamp_ms=timestamp_ms, to_end=to_end
        )
        self._caller.call(wire.SEEK, self._names, body=body)

    def dead_letters(self) -> list[DeadLetter]:
        """Lists the dead letters of this group that `redrive` has not sent back to the topic."""
        return self.first_dead_letters(None)

    def first_dead_letters(self, max_messages: int | None) -> list[DeadLetter]:
        """Lists up to `max_messages` dead letters that were not sent back to the topic, or all of
        them if `max_messages` is None: partition by partition, and in each partition oldest
        first."""
        letters: list[DeadLetter] = []
        partition: int | None = 0
        offset: int | None = 0
        while partition is not None and offset is not None:
            left = LETTERS_MAX if max_messages is None else max_messages - len(letters)
            if not left:
                break
            page = self.dead_letter_page(
                max_messages=min(left, LETTERS_MAX), partition=partition, offset=offset
            )
            letters += page.letters
            partition, offset = page.next_partition, page.next_offset
        return letters

    def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """Lists one page of the dead letters of this group that were not sent back to the topic,
        with up to `max_messages` letters. The page begins at `offset` in `partition` of the
        dead-letter topic."""
        query = wire.DeadLettersQuery(max_messages=max_messages, partition=partition, offset=offset)
        return self._caller.call(wire.DEAD_LETTERS, self._names, query=query)

    def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Sends up to `max_messages` dead letters back to the topic, each to the partition that it
        came from if that exists. Returns how many were sent."""
        total = count_max = count = 0
        while count == count_max and total < max_messages:
            count_max = min(max_messages - total, wire.REDRIVEN_MAX)
            body = wire.Redrive(max_messages=count_max)
            count = self._caller.call(wire.REDRIVE, self._names, body=body).messages
            total += count
        return total


def _at_once(max_messages: int) -> int:
    """Caps `max_messages` at the number that one call may lease or peek.

    A value above `MESSAGES_MAX` is returned unchanged, so that the server refuses it.
    """
    is_allowed = max_messages <= MESSAGES_MAX
    return min(max_messages, wire.LEASED_MAX) if is_allowed else max_messages


def _bytes_at_once(max_bytes: int | None) -> int:
    return FETCH_BYTES_MAX if max_bytes is None else min(max_bytes, FETCH_BYTES_MAX)


def _in_requests(held: Iterable[Held]) -> Iterator[list[Held]]:
    """Divides leases into lists that each fit into the body of one request. A lease with too many
    ranges of offsets is split."""
    request: list[Held] = []
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
