"""A consumer group of a topic: leases messages from all its partitions, and records their acks.

    group = topic.group("billing")
    for message in group.lease(max_messages=100, lease_ms=30_000):
        group.ack(message)
    group.peek(max_messages=10)                # the next messages, without leasing them

Any number of consumers share a group; each message is held by one consumer at a time. A message
that is not acked before its deadline is delivered again, to any consumer. If the group's
`delivery_count_max` is not 0, a message that was delivered that many times without an ack becomes a
dead letter.

A lease takes messages from the partitions that are already open. It waits for other partitions to
open only while the open ones have no messages to lease, or until `OPENING_NS` after the group was
opened.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import DiskError, InputError, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.base.listeners import Listeners
from lakebed.base.runner import Runner
from lakebed.base.runner.open_registry import OpenRegistry
from lakebed.base.units import MIB
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.damage import OnSkipped, raise_unreadable
from lakebed.keratin.partition import Partition
from lakebed.keratin.topic import Topic
from lakebed.store.allowance import Allowance
from lakebed.store.dead_letters import (
    DROPPED_HEADERS,
    LETTER_BYTES_MAX,
    LETTERS_MAX,
    DeadLetter,
    DeadLetters,
    Origin,
    kept_value,
    origin_of,
    own_headers,
)
from lakebed.store.group_source import damage_reporter
from lakebed.store.lease_reader import (
    ReadLease,
    batches_between,
    read_leased,
    read_peeked,
)
from lakebed.store.leased_message import Held, LeasedMessage, PeekedMessage, held_of
from lakebed.stroma.description import GroupPartition
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.group import HeldRange, PartitionGroup, check_delay_ms, check_lease_ms
from lakebed.stroma.lease_transitions import Grant

_log = logging.getLogger(__name__)

WAIT_S_MAX = 366 * 24 * 3600
OPENING_NS = 5 * NS_PER_S  # for so long after its opening, a group's leases wait for partitions
_DEAD_LETTERS_AT_ONCE = 1000
# The lease of messages that are copied to the dead-letter topic or back. It is long enough for a
# slow disk: if it expired before they are settled, the messages would be copied twice.
_DEAD_LETTERS_LEASE_MS = 60_000
_DEAD_LETTERS_BYTES_AT_ONCE = 32 * MIB


class _Part(NamedTuple):
    """The group's state in one partition, and the partition."""

    group: PartitionGroup
    partition: Partition
    incarnation: str
    on_skipped: OnSkipped


class Group:
    """A consumer group. Thread-safe."""

    def __init__(
        self,
        name: str,
        topic: Topic,
        open_part: Callable[[Partition], PartitionGroup],
        *,
        runner: Runner,
        delivery_count_max: int,
        restored_ms: int,
        dead_letters: Callable[[], Topic],
        redrive_group: Callable[[], Group],
    ) -> None:
        """`dead_letters` opens the dead-letter topic, and creates it if needed.

        `redrive_group` opens the group that `redrive` uses to read that topic, and raises
        `NotFound` if the topic does not exist. `restored_ms` is when the store was restored from a
        backup, in ms since 1970; 0 if it never was.
        """
        self.name = name
        self.topic = topic
        self._open_part = open_part
        self._parts = OpenRegistry(self._part, name=f"group {name} of {topic.name}", runner=runner)
        self._listeners = Listeners(f"group {name} of {topic.name}", runner)
        self._runner = runner
        self._delivery_count_max = delivery_count_max
        # Ends every incarnation, so that leases from before a restore are refused.
        self._suffix = f"-{restored_ms:x}" if restored_ms else ""
        self._dead_letters = dead_letters
        self._redrive_group = redrive_group
        self._turn = 0  # the partition that the latest lease started with
        self._patient_until_ns = runner.clock.monotonic_ns() + OPENING_NS

    @property
    def partition_count(self) -> int:
        return self.topic.partition_count

    @property
    def parts(self) -> list[PartitionGroup]:
        """The group's state in each partition, in order of partitions. Opens all partitions."""
        return [part.group for part in self._parts.get_all(range(self.partition_count))]

    def opened_parts(self) -> list[PartitionGroup]:
        return [part.group for part in self._parts.opened().values()]

    def open_in_background(self) -> None:
        """Start to open all partitions, without waiting.

        A partition that cannot be opened is tried again when it is needed.
        """
        self._parts.start_all(range(self.partition_count))

    def close(self) -> list[PartitionGroup]:
        """Stop opening partitions, and return the group's state in each open partition.

        The caller must close the returned objects.
        """
        return [part.group for part in self._parts.close()]

    def _part(self, number: int) -> _Part:
        partition = self.topic.partition(number)
        group = self._open_part(partition)
        group.on_change(self._listeners.call)
        return _Part(
            group,
            partition,
            incarnation=f"{self.topic.identity.topic_id}-{group.incarnation:016x}{self._suffix}",
            on_skipped=damage_reporter(partition, group.counters),
        )

    def lease(
        self,
        *,
        max_messages: int = 100,
        max_bytes: int | None = None,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> list[LeasedMessage]:
        """Lease up to `max_messages` messages for `lease_ms` milliseconds, and return them.

        By default `lease_ms` is the group's setting. Returns an empty list if no message is
        available; with `wait_s` the call waits up to that many seconds for a first message.
        `max_bytes` limits the total size of keys, values and headers as encoded in the log, before
        compression; the first message is returned even if it is larger. If a partition fails, the
        messages of other partitions are returned and the failure is logged; it is raised only if no
        partition has messages.
        """
        if not 0 <= wait_s <= WAIT_S_MAX:
            raise InputError(f"wait_s = {wait_s}: must be from 0 to {WAIT_S_MAX}")
        clock = self._runner.clock
        until_ns = clock.monotonic_ns() + round(wait_s * NS_PER_S)
        while True:
            changed = self._runner.event()
            stop = self.on_change(changed.set) if wait_s > 0 else None
            try:
                allowance = Allowance(max_messages=max_messages, max_bytes=max_bytes)
                leased = self._lease_once(allowance, lease_ms)
                left_ns = until_ns - clock.monotonic_ns()
                if leased or left_ns <= 0:
                    return leased
                due_ns = self.due_ns()
                changed.wait((left_ns if due_ns is None else min(left_ns, due_ns)) / NS_PER_S)
            finally:
                if stop is not None:
                    stop()

    def peek(self, *, max_messages: int = 10, max_bytes: int | None = None) -> list[PeekedMessage]:
        """Return the messages that a lease with these limits would get now, without leasing.

        If a partition fails, the messages of other partitions are returned; the failure is raised
        only if there are no messages.
        """
        messages: list[PeekedMessage] = []
        failure: LakebedError | None = None
        allowance = Allowance(max_messages=max_messages, max_bytes=max_bytes)
        for number in self._in_turn(self._turn + 1, messages):
            before, size = len(messages), 0
            try:
                part = self._parts.get(number)
                ranges = part.group.available(allowance.message_count)
                if allowance.counts_bytes:
                    ranges, size = allowance.fitting(part.partition, ranges)
                for message in read_peeked(part.partition, sorted(ranges)):
                    messages.append(message)
            except LakebedError as error:  # other messages could be leased all the same
                failure = failure or error
            if len(messages) > before:
                allowance.take(len(messages) - before, size)
            if allowance.is_spent:
                break
        if failure is not None and not messages:
            raise failure
        return messages

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever more messages may be available to lease.

        Returns a function that removes the callback. `callback` may be called from any thread, with
        no lock held. The end of a delay or a lease, which makes messages available, does not by
        itself call `callback`; the next call on the group that notices the end does. `due_ns`
        returns when that may be.
        """
        return self._listeners.add(callback)

    def due_ns(self) -> int | None:
        """Return the nanoseconds until the next delay, lease or schedule may end.

        Returns None if there is none. Partitions that are not open are left out. While a message is
        scheduled for a later time, the result is at most one second, because the wall clock may be
        changed.
        """
        dues_ns = (part.due_ns() for part in self.opened_parts())
        return min((due_ns for due_ns in dues_ns if due_ns is not None), default=None)

    def ack(self, message: LeasedMessage) -> None:
        """Settle the message: it is never delivered again, unless the group is reset or moved back.

        Raises `StaleLease` if the lease has ended and the message is not settled yet.
        """
        self.ack_all([message])

    def ack_all(self, messages: Iterable[LeasedMessage]) -> None:
        """Settle many messages: they are never delivered again.

        Messages of a partition that were leased together are settled in one step, all or none.
        Raises `StaleLease` if the lease of a message has ended, unless the message is settled; then
        neither this message nor those of its partition that were leased together with it are
        settled, but others may be.
        """
        self.ack_held(held_of(messages))

    def ack_held(self, held: Sequence[Held]) -> None:
        """Settle leased messages, given by partition and offsets: they are never delivered again.

        The leases are settled one after another. Raises `StaleLease` at the first lease that has
        ended, unless all its messages are settled: messages of earlier leases are settled then,
        those of this lease and later ones are not.
        """
        for lease, part in self._held_parts(held):
            part.ack(lease.ranges, epoch=lease.epoch)

    def nack(self, message: LeasedMessage, *, delay_ms: int = 0) -> None:
        """Give the message back, to be delivered again: immediately, or after `delay_ms`.

        If it was delivered `delivery_count_max` times and that is not 0, it becomes a dead letter
        instead. Raises `StaleLease` if the lease has ended.
        """
        self.nack_all([message], delay_ms=delay_ms)

    def nack_all(self, messages: Iterable[LeasedMessage], *, delay_ms: int = 0) -> None:
        self.nack_held(held_of(messages), delay_ms=delay_ms)

    def nack_held(
        self, held: Sequence[Held], *, delay_ms: int = 0, is_delivery: bool = True
    ) -> None:
        """Give back leased messages, given by partition and offsets, to be delivered again.

        With `is_delivery=False` this delivery does not count, and `delay_ms` is ignored.
        """
        check_delay_ms(delay_ms)
        for lease, part in self._held_parts(held):
            if is_delivery:
                part.nack(lease.ranges, epoch=lease.epoch, delay_ms=delay_ms)
            else:
                part.undo_lease(lease.ranges, epoch=lease.epoch)

    def give_back(self, messages: Iterable[LeasedMessage]) -> None:
        """Give back messages that were not processed; this delivery of them does not count."""
        self.nack_held(held_of(messages), is_delivery=False)

    def extend(self, message: LeasedMessage, *, lease_ms: int | None = None) -> LeasedMessage:
        """Make the lease end `lease_ms` from now; return the message with its new deadline.

        By default `lease_ms` is the group's setting. Raises `StaleLease` if the lease has ended.
        """
        (deadline_ms,) = self.extend_held(held_of([message]), lease_ms=lease_ms)
        return message._replace(deadline_ms=deadline_ms)

    def extend_held(self, held: Sequence[Held], *, lease_ms: int | None = None) -> list[int]:
        """Make leases, given by partition and offsets, end `lease_ms` from now.

        Returns the new deadline of each lease, in ms since 1970. By default `lease_ms` is the
        group's setting. Raises `StaleLease` at the first lease that has ended; earlier ones are
        extended then.
        """
        if lease_ms is not None:
            check_lease_ms(lease_ms)
        return [
            part.extend(lease.ranges, epoch=lease.epoch, lease_ms=lease_ms)
            for lease, part in self._held_parts(held)
        ]

    def lag(self) -> dict[int, int]:
        """Return how many messages are neither acked nor dead-lettered yet, by partition."""
        return {number: part.lag() for number, part in enumerate(self.parts)}

    def describe(self) -> dict[int, GroupPartition]:
        """Return the state of the group in each partition, by partition number."""
        return {number: part.describe() for number, part in enumerate(self.parts)}

    def leases(
        self, *, max_leases: int = 1000, partition: int | None = None, offset: int = 0
    ) -> list[HeldRange]:
        """Return the messages that are leased now, as at most `max_leases` ranges of offsets.

        Each range has its deadline and its delivery count. The ranges are ordered by partition and
        offset. By default those of all partitions are returned. Messages before `offset` in their
        partition are left out.
        """
        held: list[HeldRange] = []
        for part in self._chosen(partition):
            held += part.leases(max_leases=max_leases - len(held), offset=offset)
        return held

    def release(self, *, partition: int | None = None, offset: int | None = None) -> int:
        """Revoke the lease of one message, or all leases of a partition or of the group.

        The message is the one at `offset` of `partition`. Returns how many messages were leased;
        they can be leased again immediately. A former holder that acks, gives back or extends them
        gets `StaleLease`.
        """
        if offset is None:
            return sum(part.release() for part in self._chosen(partition))
        if partition is None:
            raise InputError("release: `offset` also needs `partition`: pass both, or no `offset`")
        (part,) = self._chosen(partition)
        return part.release(start=offset, end=offset + 1)

    def reset(self, *, partition: int | None = None) -> None:
        """Deliver all messages again, from the oldest one on, even those that were acked.

        All leases end. Without `partition` this applies to all partitions.
        """
        for part in self._chosen(partition):
            part.reset()

    def seek(
        self,
        offset: int | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        to_end: bool = False,
    ) -> None:
        """Move the group to a position: only the messages before it count as acked.

        The messages from the position on are delivered, even if they were delivered before. The
        position is `offset` in one partition; or, in every partition, the first message at or after
        `timestamp_ms`, or the end if there is none; or, with `to_end`, the end of every partition.
        All leases in these partitions end. Raises `InputError` if `offset` is negative or after the
        end.
        """
        if [offset is not None, timestamp_ms is not None, to_end].count(True) != 1:
            raise InputError("seek: pass exactly one of `offset`, `timestamp_ms` and `to_end`")
        if (offset is None) != (partition is None):
            raise InputError("seek: pass `offset` and `partition` together, or neither")
        if offset is not None and partition is not None:
            self._check(partition)
            self._parts.get(partition).group.seek(offset)
            return
        for number, part in enumerate(self.parts):
            log = self.topic.partition(number)
            part.seek(
                log.high_watermark() if timestamp_ms is None else log.offset_for_time(timestamp_ms)
            )

    # Dead letters.

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters of this group that `redrive` has not sent back yet."""
        return [letter for _, letter in self._dead_letters_from(0, 0)]

    def dead_letter_page(
        self, *, max_messages: int = LETTERS_MAX, partition: int = 0, offset: int = 0
    ) -> DeadLetters:
        """Return a page of the group's dead letters that `redrive` has not sent back yet.

        The page begins at `partition` and `offset` of the dead-letter topic. It has up to
        `max_messages` letters, or fewer if they reach `LETTER_BYTES_MAX`.
        """
        letters: list[DeadLetter] = []
        left_bytes = LETTER_BYTES_MAX
        for number, letter in self._dead_letters_from(partition, offset):
            left_bytes -= len(letter.key or b"") + len(letter.value or b"")
            if letters and (left_bytes < 0 or len(letters) == max_messages):
                return DeadLetters(letters, next_partition=number, next_offset=letter.letter_offset)
            letters.append(letter)
        return DeadLetters(letters)

    def _dead_letters_from(self, partition: int, offset: int) -> Iterator[tuple[int, DeadLetter]]:
        """Yields the dead letters that `redrive` has not sent back yet, in order.

        Each comes with its partition in the dead-letter topic. Begins at `partition` and `offset`
        of that topic. Raises `DiskError` if the device cannot read some of them, because a list
        without them would look complete. Damaged letters are left out.
        """
        try:
            redrive_group = self._redrive_group()
        except NotFound:
            return
        for number, part in enumerate(redrive_group.parts):
            if number < partition:
                continue
            letters = redrive_group.topic.partition(number)
            first = offset if number == partition else 0
            batches = (
                batches_between(letters, max(start, first), end, on_skipped=raise_unreadable)
                for start, end in part.unsettled()
            )
            for message in chain.from_iterable(chain.from_iterable(batches)):
                origin = origin_of(message)
                if origin is not None and self._is_mine(origin):
                    yield number, DeadLetter.of(origin, message)

    def redrive(self, *, max_messages: int = 1_000_000) -> int:
        """Send up to `max_messages` dead letters back to their topic; return how many were sent.

        Each goes to the partition that it came from, or to another one if the topic no longer has
        that partition. They become new messages there, which all groups of the topic receive. A
        letter may be sent twice, for example if the process ends during the call, or if another
        letter cannot be sent.
        """
        try:
            redrive_group = self._redrive_group()
        except NotFound:
            return 0
        count = 0
        while count < max_messages:
            at_once = min(_DEAD_LETTERS_AT_ONCE, max_messages - count)
            letters = redrive_group.lease(
                max_messages=at_once,
                max_bytes=_DEAD_LETTERS_BYTES_AT_ONCE,
                lease_ms=_DEAD_LETTERS_LEASE_MS,
            )
            if not letters:
                break
            try:
                count += self._send_back(letters)
            except BaseException:
                with contextlib.suppress(LakebedError):
                    redrive_group.nack_all(letters)
                raise
            redrive_group.ack_all(letters)
        return count

    def _send_back(self, letters: Sequence[LeasedMessage]) -> int:
        futures = []
        for letter in letters:
            origin = origin_of(letter.message)
            if origin is None or not self._is_mine(origin):
                continue
            # The letter may be from an earlier topic of the same name, with more partitions.
            number = origin.partition % self.topic.partition_count
            partition = self.topic.partition(number)
            headers = own_headers(letter.headers)
            futures.append(partition.append_copy(letter.value, key=letter.key, headers=headers))
        for future in futures:
            future.result()
        return len(futures)

    def _dead_letter(self, number: int) -> None:
        """Moves the messages of a partition that were delivered too often to the dead letters."""
        part = self._parts.get(number)
        while (grant := self._lease_dead_letters(part)).leased:
            moved, left = Grant(), grant
            try:
                for leased in _read_grant(part, grant):
                    self._write_letters(number, leased.messages)
                    if leased.messages:
                        moved, left = _split(grant, leased.messages[-1].offset + 1)
            except BaseException:
                with contextlib.suppress(LakebedError):  # if this fails they are moved again later
                    part.group.dead_lettered(moved.ranges, epoch=grant.epoch)
                _give_back(part, left)
                raise
            part.group.dead_lettered(grant.ranges, epoch=grant.epoch)

    def _lease_dead_letters(self, part: _Part) -> Grant:
        """Leases the messages to move to the dead-letter topic."""
        return part.group.lease_dead_letters(_DEAD_LETTERS_AT_ONCE, lease_ms=_DEAD_LETTERS_LEASE_MS)

    def _write_letters(self, number: int, messages: Sequence[LeasedMessage]) -> None:
        target = self._dead_letters()
        partition = target.partition(number % target.partition_count)
        futures = [self._append_letter(partition, leased) for leased in messages]
        for future in futures:
            future.result()

    def _append_letter(self, partition: Partition, leased: LeasedMessage) -> AppendFuture:
        """Appends a message to the dead-letter topic.

        If the message's headers cannot be stored, the letter is written without them, because a
        message that cannot be moved would block its partition forever.
        """
        value, origin = kept_value(leased.message), self._origin(leased).headers()
        append = partial(partition.append_copy, value, key=leased.key)
        try:
            return append(headers=(*leased.headers, *origin))
        except InputError as error:
            event(_log, "dead_letter_headers_dropped", level=logging.ERROR, group=self.name,
                  topic=self.topic.name, partition=leased.partition, offset=leased.offset,
                  error=error)  # fmt: skip
            return append(headers=(*origin, (DROPPED_HEADERS, str(error).encode())))

    def _is_mine(self, origin: Origin) -> bool:
        topic_id = self.topic.identity.topic_id
        return origin.is_of(self.topic.name, topic_id=topic_id, group=self.name)

    def _origin(self, message: LeasedMessage) -> Origin:
        return Origin(
            topic=self.topic.name,
            partition=message.partition,
            offset=message.offset,
            group=self.name,
            # The lease that moves it to the dead letters is not a delivery.
            delivery_count=message.delivery_count - 1,
            topic_id=self.topic.identity.topic_id,
        )

    # Leasing.

    def _lease_once(self, allowance: Allowance, lease_ms: int | None) -> list[LeasedMessage]:
        """Leases messages from one partition after another, until the limits are reached.

        Partitions that are open come first. They are visited in a circle, which starts one
        partition later at each call.
        """
        self._turn = (self._turn + 1) % self.partition_count
        leased: list[LeasedMessage] = []
        failures: list[tuple[int, LakebedError]] = []
        for number in self._in_turn(self._turn, leased):
            try:
                if self._delivery_count_max:
                    self._dead_letter(number)
            except LakebedError as error:  # other messages can be leased all the same
                failures.append((number, error))
            try:
                leased += self._lease_from(number, allowance, lease_ms)
            except LakebedError as error:
                failures.append((number, error))
            if allowance.is_spent:
                break
        if failures and not leased:
            raise failures[0][1]
        for number, failure in failures:
            event(_log, "lease_failed", level=logging.WARNING, group=self.name,
                  topic=self.topic.name, partition=number, error=failure)  # fmt: skip
        return leased

    def _lease_from(
        self, number: int, allowance: Allowance, lease_ms: int | None
    ) -> list[LeasedMessage]:
        """Leases messages from one partition, and acks offsets whose messages no longer exist."""
        part = self._parts.get(number)
        while True:
            spans, size = _fitting(part, allowance)
            if spans is not None and not spans:
                return []  # a lease now could end a delay, and its message would wait for a change
            grant = part.group.lease(allowance.message_count, lease_ms=lease_ms, within=spans)
            if not grant.leased and not spans:
                return []
            messages, gone = _read(part, grant)
            if gone:
                with contextlib.suppress(StaleLease):
                    part.group.ack(gone, epoch=grant.epoch)
            if messages:
                allowance.take(len(messages), size)
                return messages

    def _in_turn(self, first: int, messages: Sequence[object]) -> Iterator[int]:
        """Yields the numbers of partitions: open ones first, then the others as they open.

        Open partitions are in order, beginning with `first`. While the caller's list `messages` is
        empty, this waits for the other partitions to open, without a limit. Once the list has
        messages, this waits only until `OPENING_NS` after the group was opened, and then ends.
        """
        left = [(first + step) % self.partition_count for step in range(self.partition_count)]
        clock = self._runner.clock
        while left:
            opened = self._parts.opened()
            number = next((number for number in left if number in opened), None)
            if number is None:
                left_ns = self._patient_until_ns - clock.monotonic_ns() if messages else None
                if left_ns is not None and left_ns <= 0:
                    return
                number = self._parts.first_open(left, timeout_ns=left_ns)
                if number is None:
                    return
            left.remove(number)
            yield number

    def _held_parts(self, held: Sequence[Held]) -> Iterator[tuple[Held, PartitionGroup]]:
        """Checks the offsets of all leases; then yields each, with the group in its partition.

        At a lease from before the topic or group was created again, the group's files were lost or
        the store was restored, raises `StaleLease`; the leases before it were yielded by then.
        """
        for lease in held:
            self._check(lease.partition)
            if not lease.ranges:
                raise InputError(f"partition {lease.partition}: the lease has no ranges of offsets")
            for start, end in lease.ranges:
                if start >= end:
                    raise InputError(
                        f"partition {lease.partition}: the range of offsets [{start}, {end}) is "
                        "empty; its end must be after its start"
                    )
        for lease in held:
            part = self._parts.get(lease.partition)
            if lease.incarnation != part.incarnation:
                why = "the topic or group was recreated after the lease, or the store was restored"
                raise StaleLease(lease.ranges, epoch=lease.epoch, why=why)
            yield lease, part.group

    def _chosen(self, partition: int | None) -> Sequence[PartitionGroup]:
        if partition is None:
            return self.parts
        self._check(partition)
        return (self._parts.get(partition).group,)

    def _check(self, partition: int) -> None:
        if not 0 <= partition < self.partition_count:
            raise InputError(
                f"{self.topic.name}: there is no partition {partition} (the topic has "
                f"{self.partition_count} partitions)"
            )


def _fitting(part: _Part, allowance: Allowance) -> tuple[Sequence[tuple[int, int]] | None, int]:
    """Returns the offset ranges that fit into the byte limit, and the size of their messages.

    Returns None instead of ranges if the byte limit does not apply. Another consumer may lease
    these messages first; the caller then calls this again.
    """
    if not allowance.counts_bytes:
        return None, 0
    ranges = part.group.available(allowance.message_count)
    fits = allowance.fitting(part.partition, ranges)
    return fits.spans, fits.size


def _read(part: _Part, grant: Grant) -> ReadLease:
    """Reads the messages of a lease.

    If the disk fails after some messages were read, returns these and gives back the unread ones.
    If the disk fails before that, or another error occurs, gives back all messages of the lease and
    raises the error.
    """
    messages: list[LeasedMessage] = []
    gone: list[tuple[int, int]] = []
    try:
        for piece in _read_grant(part, grant):
            messages += piece.messages
            gone += piece.gone
    except BaseException as error:
        if not messages or not isinstance(error, DiskError):
            _give_back(part, grant)
            raise
        _give_back(part, _split(grant, messages[-1].offset + 1)[1])
    return ReadLease(messages, gone)


def _split(grant: Grant, offset: int) -> tuple[Grant, Grant]:
    """Splits a lease after the message before `offset`, and returns both parts.

    The first part has the ranges up to that message, and the second part the ranges after it, in
    the order of the lease, which need not be the order of their offsets. A range that has messages
    on both sides of `offset` is cut in two.
    """
    index = next(i for i, span in enumerate(grant.leased) if span.start < offset <= span.end)
    span = grant.leased[index]
    left = grant.leased[index + 1 :]
    if offset < span.end:
        left = (span._replace(start=offset), *left)
    before = (*grant.leased[:index], span._replace(end=offset))
    return grant._replace(leased=before), grant._replace(leased=left)


def _read_grant(part: _Part, grant: Grant) -> Iterator[ReadLease]:
    return read_leased(
        part.partition, grant, incarnation=part.incarnation, on_skipped=part.on_skipped
    )


def _give_back(part: _Part, grant: Grant) -> None:
    """Gives back a lease whose messages were not returned to any consumer."""
    with contextlib.suppress(LakebedError):
        part.group.undo_lease(grant.ranges, epoch=grant.epoch)
