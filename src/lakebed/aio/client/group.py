# Made by `python -m tools.asynced` of `src/lakebed/client/group.py`: edit that.
"""A consumer group of a store that another process has open: as `lakebed.store.group.Group`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from lakebed.aio.client.caller import Caller
from lakebed.aio.client.connection_pool import Interruption
from lakebed.api import groups as wire
from lakebed.api.topics import FETCH_BYTES_MAX
from lakebed.base.errors import InputError
from lakebed.client.long_wait import LongWait
from lakebed.store.dead_letters import LETTERS_MAX, DeadLetter, DeadLetters
from lakebed.store.leased_message import Held, LeasedMessage, PeekedMessage, held_of
from lakebed.stroma.description import GroupPartition
from lakebed.stroma.group import MESSAGES_MAX, HeldRange

WAIT_S_MAX = 366 * 24 * 3600
RANGES_AT_ONCE = 100_000  # of one request: some megabytes


class AsyncGroup:
    """For one event loop."""

    def __init__(self, caller: Caller, topic: str, name: str) -> None:
        self._caller = caller
        self.name = name
        self._names = {"topic": topic, "group": name}

    async def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Up to that many messages, held for `lease_ms`. None, if there are none.

        No more than `max_bytes`, which are 32 MiB at most, but one message in any case. With
        `wait_s` it waits that long for the first one. Cancelled, it gives back what comes of it.
        """
        interruption = Interruption()
        leasing = self._lease(
            interruption,
            max_messages=max_messages,
            max_bytes=max_bytes,
            lease_ms=lease_ms,
            wait_s=wait_s,
        )
        return await self._caller.undo_on_cancel.run(leasing, interruption, self.give_back)

    async def _lease(
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
        waiting = LongWait(self._caller.runner.clock, wait_s)
        wanted = _at_once(max_messages)
        while True:
            wait_ms = waiting.next_ms()
            body = wire.LeaseRequest(
                max_messages=wanted,
                max_bytes=_bytes_at_once(max_bytes),
                lease_ms=lease_ms,
                wait_ms=wait_ms,
            )
            found = await self._caller.call(
                wire.LEASE,
                self._names,
                body=body,
                wait_s=wait_ms / 1000,
                interruption=interruption,
            )
            leased = [one for lease in found.leases for one in _messages_of(lease)]
            if leased or not wait_ms:
                return leased

    async def ack(self, message: LeasedMessage) -> None:
        """Settled: never delivered again. `StaleLease` if the lease has ended."""
        await self.ack_all([message])

    async def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """As `ack`, for many. `StaleLease` if one of them is not held any more; then those leased
        with it are not settled either."""
        await self.ack_held(held_of(messages))

    async def ack_held(self, held: Sequence[Held]) -> None:
        """As `ack`, by offsets. Each lease is settled or refused as a whole, one after another."""
        for some in _in_requests(held):
            await self._caller.call(wire.ACK, self._names, body=wire.Ack(held=some))

    async def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Give it back, to be delivered again: at once, or after the delay."""
        await self.nack_all([message], delay_ms=delay_ms)

    async def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        await self.nack_held(held_of(messages), delay_ms=delay_ms)

    async def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """As `nack`, by offsets; or, if it is no delivery, as `give_back`."""
        for some in _in_requests(held):
            body = wire.Nack(held=some, delay_ms=delay_ms, is_delivery=is_delivery)
            await self._caller.call(wire.NACK, self._names, body=body)

    async def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """As `nack_all`, of messages that nobody looked at: it does not count as a delivery."""
        await self.nack_held(held_of(messages), is_delivery=False)

    async def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Hold it for `lease_ms` from now; the same message with its new deadline."""
        (deadline_ms,) = await self.extend_held(held_of([message]), lease_ms=lease_ms)
        return message._replace(deadline_ms=deadline_ms)

    async def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """As `extend`, by offsets; the new deadline of each lease."""
        body = wire.Extend(held=list(held), lease_ms=lease_ms)
        return (await self._caller.call(wire.EXTEND, self._names, body=body)).deadlines_ms

    async def peek(
        self, *, max_messages: int = 10, max_bytes: int | None = None
    ) -> list[PeekedMessage]:
        """What a lease of that many would be given now, without leasing it."""
        query = wire.PeekQuery(
            max_messages=_at_once(max_messages), max_bytes=_bytes_at_once(max_bytes)
        )
        found = await self._caller.call(wire.PEEK, self._names, query=query)
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

    async def lag(self) -> dict[int, int]:
        """How many messages are not settled, by partition."""
        return (await self._caller.call(wire.LAG, self._names)).partitions

    async def describe(self) -> dict[int, GroupPartition]:
        """By partition."""
        return (await self._caller.call(wire.DESCRIBE_GROUP, self._names)).partitions

    async def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """What is leased now, until when and how often it was delivered, by partition and offset.

        Of one partition, or of all; in each from that offset on.
        """
        query = wire.LeasesQuery(max_leases=max_leases, partition=partition, offset=offset)
        return (await self._caller.call(wire.LIST_LEASES, self._names, query=query)).leases

    async def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Take leases back from their holders: of one message, of a partition, or of all.

        Returns how many messages they had; these can be leased again at once. A former holder that
        acks, gives back or extends gets `StaleLease`.
        """
        body = wire.Release(partition=partition, offset=offset)
        return (await self._caller.call(wire.RELEASE, self._names, body=body)).messages

    async def reset(self, *, partition: int | None = None) -> None:
        """Start over from the beginning of the log."""
        await self._caller.call(wire.RESET, self._names, body=wire.Reset(partition=partition))

    async def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Settle every message before a place, and deliver every one from there on again.

        The place is an offset of one partition; or in each partition the first message at or after
        a moment; or the end.
        """
        body = wire.SeekTo(
            partition=partition, offset=offset, timestamp_ms=timestamp_ms, to_end=to_end
        )
        await self._caller.call(wire.SEEK, self._names, body=body)

    async def dead_letters(self) -> list[DeadLetter]:
        """Those of this group that were not sent back."""
        return await self.first_dead_letters(None)

    async def first_dead_letters(self, max_messages: int | None) -> list[DeadLetter]:
        """The oldest of them; all, if there is no limit."""
        letters: list[DeadLetter] = []
        partition: int | None = 0
        offset: int | None = 0
        while partition is not None and offset is not None:
            left = LETTERS_MAX if max_messages is None else max_messages - len(letters)
            if not left:
                break
            page = await self.dead_letter_page(
                max_messages=min(left, LETTERS_MAX), partition=partition, offset=offset
            )
            letters += page.letters
            partition, offset = page.next_partition, page.next_offset
        return letters

    async def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """The same in pages: from an offset of a partition of the dead-letter topic on."""
        query = wire.DeadLettersQuery(max_messages=max_messages, partition=partition, offset=offset)
        return await self._caller.call(wire.DEAD_LETTERS, self._names, query=query)

    async def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Send dead letters back to the partitions they came from; how many."""
        total = asked = count = 0
        while count == asked and total < max_messages:
            asked = min(max_messages - total, wire.REDRIVEN_MAX)
            body = wire.Redrive(max_messages=asked)
            count = (await self._caller.call(wire.REDRIVE, self._names, body=body)).messages
            total += count
        return total


def _at_once(max_messages: int) -> int:
    """Of so many, or fewer, what one call may be given."""
    is_allowed = max_messages <= MESSAGES_MAX
    return min(max_messages, wire.LEASED_MAX) if is_allowed else max_messages


def _bytes_at_once(max_bytes: int | None) -> int:
    return FETCH_BYTES_MAX if max_bytes is None else min(max_bytes, FETCH_BYTES_MAX)


def _in_requests(held: Iterable[Held]) -> Iterator[list[Held]]:
    """The same in as many requests as it takes: the body of one is bounded."""
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
