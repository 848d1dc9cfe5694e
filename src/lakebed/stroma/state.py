"""The state of a group's messages, and how events change it.

Every message from `base` to `end` has a status, stored in runs. All messages before `base` are
settled, and those from `end` on were not examined yet. Live calls and recovery both change the
state with `apply`, so a recovered state equals the original. Two changes need no event, because
they can be derived: a lease or a delay ends (`expire`), and plain messages become available
(`lease_transitions.admit`). A lease whose write failed ends without an event too (`give_back`);
after a restart, such a lease may last until its deadline.

Invariants:
- a settled message stays settled until a reset or a seek;
- a message is leased under at most one epoch, and `in_flight` counts the leased messages;
- `ready`, `exhausted` and `unseen` are heaps of ranges. Each message that can be leased is in a
  range of `ready`, or of `exhausted` if it has been leased at least `delivery_count_max` times.
  Each fresh message that is not being examined is in a range of `unseen`, which is not used with
  `per_key_order`. The ranges may cover other messages too.

This module uses no clock, disk or lock: the caller passes times and allows one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush

from lakebed.stroma import epochs
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.events import Acks, Event, Leases, Reset, Returns, Unknown
from lakebed.stroma.format import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    DeadLetter,
    Delay,
    FoldMark,
    LeaseRange,
    MarkInflight,
    Nack,
    ReserveEpochs,
    Seek,
)
from lakebed.stroma.key_order import QUEUE_MAX, KeyOrder
from lakebed.stroma.message_status import AVAILABLE, FRESH, SETTLED, MessageStatus, StatusKind
from lakebed.stroma.ranges import merged
from lakebed.stroma.runs import Run, Runs
from lakebed.stroma.timers import Timers

Ranges = Sequence[tuple[int, int]]
_TIMERS_MIN = 10_000


class GroupState:
    """The status of every message of a group in one partition. Not thread-safe."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.runs: Runs[MessageStatus] = Runs()
        self.in_flight = 0
        self.settled_ahead = 0  # settled messages after `base`
        self.epoch = 0  # the last epoch used
        self.epoch_reserved = 0  # the last epoch that may be used without another reservation
        self.keys = None
        if config.per_key_order:
            queue_max = max(1, min(QUEUE_MAX, config.key_window_max // 4))
            self.keys = KeyOrder(queue_max=queue_max)
        self.timers = Timers()  # of leases and delays, by the group's clock
        self.schedules = Timers()  # by the wall clock
        self._timers_max = _TIMERS_MIN  # with more timers than this, outdated ones are dropped
        self.ready: list[tuple[int, int]] = []
        self.exhausted: list[tuple[int, int]] = []
        self.unseen: list[tuple[int, int]] = []

    @property
    def base(self) -> int:
        """The offset before which every message is settled."""
        return self.runs.base

    @property
    def end(self) -> int:
        """The offset from which on messages have not been examined yet."""
        return self.runs.end

    @property
    def unsettled_count(self) -> int:
        """The number of messages before `end` that are not settled."""
        return self.end - self.base - self.settled_ahead

    def unsettled(self) -> list[tuple[int, int]]:
        """Returns the ranges of offsets before `end` whose messages are not settled."""
        return merged([(start, end) for start, end, _ in self._unsettled(self.base, self.end)])

    def apply(self, event: Event, now_ms: int) -> None:
        """Applies an event.

        A lease ends no later than `now_ms` plus the duration for which it was made. So does a delay
        if the event has its duration.
        """
        match event:
            case Acks(ranges):
                self.settle(ranges)
            case Ack(offset) | DeadLetter(offset):
                self.settle([(offset, offset + 1)])
            case BumpAckedUntil(acked_until):
                self._settle_before(acked_until)
            case Leases(ranges):
                for entry in ranges:
                    self._lease(entry, now_ms)
            case MarkInflight():
                self._mark(event, now_ms)
            case Returns(ranges):
                for start, end, not_before_ms, epoch, delay_s in ranges:
                    if delay_s:
                        not_before_ms = min(not_before_ms, now_ms + 1000 * delay_s)
                    self._return(start, end, epoch=epoch, not_before_ms=not_before_ms)
            case Nack(offset, epoch):
                self._return(offset, offset + 1, epoch=epoch, not_before_ms=0)
            case ClearInflight(offset):
                self._return(offset, offset + 1, epoch=None, not_before_ms=0)
            case Delay(offset, not_before_ms):
                self._delay(offset, not_before_ms)
            case Seek(offset):
                self._start_over(offset)
            case Reset():
                self._start_over(0)
            case ReserveEpochs(epoch):
                self.epoch_reserved = epochs.later(epoch, self.epoch_reserved)
            case FoldMark() | Unknown():
                pass

    def settle(self, ranges: Ranges) -> None:
        """Settles the messages of the ranges, so that they are not delivered again.

        The ranges may be in any order. Messages that are already settled are ignored.
        """
        ranges = merged(ranges)
        if not ranges:
            return
        self.reach(ranges[-1][1])
        freed: list[int] = []
        if self.keys is not None:
            for start, end, _ in [run for run in self.runs.within(ranges) if run[2] is not SETTLED]:
                freed += self.keys.settle(start, end)
        for old, count in self.runs.cover(ranges, SETTLED):
            self.settled_ahead += count
            if old.kind is StatusKind.LEASED:
                self.in_flight -= count
        self._offer(freed)
        self._advance()

    def expire(self, now_ms: int, *, wall_ms: int | None = None) -> bool:
        """Ends the leases, delays and schedules that are due; returns whether there were any.

        `now_ms` is the time of the group's clock, and `wall_ms` that of the wall clock. Without
        `wall_ms`, both clocks show `now_ms`.
        """
        wall_ms = now_ms if wall_ms is None else wall_ms
        ended: list[Run[MessageStatus]] = []
        position = 0  # two entries may cover the same messages
        due = self.timers.take_due(now_ms) + self.schedules.take_due(wall_ms)
        for start, end in sorted(due):
            ended += [
                run
                for run in self.runs.between(max(start, position), end)
                if run[2].kind in (StatusKind.LEASED, StatusKind.WAITING)
                and run[2].time_ms <= (wall_ms if run[2].is_scheduled else now_ms)
            ]
            position = max(position, end)
        self._make_available(ended)
        return bool(ended)

    def reach(self, end: int) -> None:
        """Extends the state to `end` with fresh messages, which must be examined later."""
        if end > self.runs.end:
            heappush(self.unseen, (self.runs.end, end))
            self.runs.append(end, FRESH)

    def extend(self, end: int) -> None:
        """Extends the state to `end` with fresh messages that are being examined now."""
        if end > self.runs.end:
            self.runs.append(end, FRESH)

    def paint_available(self, changes: Iterable[Run[MessageStatus]]) -> None:
        """Makes the fresh messages of these runs available."""
        self._paint(list(changes), AVAILABLE)

    def give_back(self, ranges: Ranges, *, epoch: int) -> None:
        """Ends a lease that was not returned to a caller.

        The messages become available, and the lease does not count as a delivery.
        """
        for start, end in ranges:
            for run in self._unsettled(start, end):
                if run[2].kind is StatusKind.LEASED and run[2].epoch == epoch:
                    old = run[2]._replace(deliveries=run[2].deliveries - 1)
                    self._make_available([(run[0], run[1], old)])

    def frozen(self) -> GroupState:
        """Returns a copy of those parts of the state that a snapshot needs: runs and epochs."""
        copy = GroupState(self.config)
        copy.runs = self.runs.copy()
        copy.epoch, copy.epoch_reserved = self.epoch, self.epoch_reserved
        return copy

    def cut(self, end: int) -> None:
        """Forgets all messages from `end` on, because the log does not have them."""
        self._count(list(self.runs.between(end, self.runs.end)), FRESH)
        if self.keys is not None:
            self.keys.cut(end)
        self.runs.cut(end)
        self.unseen = [(first, min(last, end)) for first, last in self.unseen if first < end]

    def is_exhausted(self, count: int) -> bool:
        """Returns whether a message that was leased `count` times is due for the dead letters.

        It must not be leased again, except to copy it to the dead-letter topic.
        """
        return 0 < self.config.delivery_count_max <= count

    # Changes of single ranges.

    def _lease(self, entry: LeaseRange, now_ms: int) -> None:
        self.reach(entry.end)
        deadline_ms = min(entry.deadline_ts_ms, now_ms + entry.lease_ms)
        status = MessageStatus(StatusKind.LEASED, entry.delivery_count, deadline_ms, entry.epoch)
        changes = self._unsettled(entry.start, entry.end)
        self._paint(changes, status)
        self._arm(self.timers, changes, deadline_ms)
        self.epoch = epochs.later(entry.epoch, self.epoch)

    def _mark(self, event: MarkInflight, now_ms: int) -> None:
        self.reach(event.offset + 1)
        for run in self._unsettled(event.offset, event.offset + 1):
            is_extended = run[2].kind is StatusKind.LEASED and run[2].epoch == event.epoch
            lease_ms = self.config.lease_ms
            entry = LeaseRange(run[0], run[1], event.deadline_ts_ms, event.epoch,
                               run[2].deliveries + (not is_extended), lease_ms, 0)  # fmt: skip
            self._lease(entry, now_ms)

    def _return(self, start: int, end: int, *, epoch: int | None, not_before_ms: int) -> None:
        for run in self._unsettled(start, end):
            if run[2].kind is StatusKind.LEASED and epoch in (None, run[2].epoch):
                if not_before_ms:
                    self._make_waiting(run, not_before_ms)
                else:
                    self._make_available([run])

    def _delay(self, offset: int, not_before_ms: int) -> None:
        self.reach(offset + 1)
        for run in self._unsettled(offset, offset + 1):
            self._make_waiting(run, not_before_ms)

    def _make_waiting(self, run: Run[MessageStatus], not_before_ms: int) -> None:
        status = MessageStatus(StatusKind.WAITING, run[2].deliveries, not_before_ms)
        self._paint([run], status)
        self._arm(self._timers_of(status), [run], not_before_ms)

    def _make_available(self, changes: list[Run[MessageStatus]]) -> None:
        self._count(changes, AVAILABLE)
        self.runs.paint(
            [
                (start, end, MessageStatus(StatusKind.AVAILABLE, old.deliveries))
                for start, end, old in changes
            ]
        )
        for start, end, old in changes:
            heappush(
                self.exhausted if self.is_exhausted(old.deliveries) else self.ready, (start, end)
            )
        self._note_keys(changes, AVAILABLE)

    def _settle_before(self, offset: int) -> None:
        if offset > self.runs.base:
            if offset > self.runs.end:
                self.settle([(self.runs.base, self.runs.end)] if self.runs.end > self.base else [])
                self.runs.drop_before(offset)
            else:
                self.settle([(self.runs.base, offset)])

    def _start_over(self, offset: int) -> None:
        self.runs = Runs(offset)
        self.in_flight = self.settled_ahead = 0
        self.timers.clear()
        self.schedules.clear()
        self.ready, self.exhausted, self.unseen = [], [], []
        if self.keys is not None:
            self.keys.clear()

    def _unsettled(self, start: int, end: int) -> list[Run[MessageStatus]]:
        return [run for run in self.runs.between(start, end) if run[2] is not SETTLED]

    def _paint(self, changes: list[Run[MessageStatus]], status: MessageStatus) -> None:
        self._count(changes, status)
        self.runs.paint([(start, end, status) for start, end, _ in changes])
        self._note_keys(changes, status)

    def _note_keys(self, changes: list[Run[MessageStatus]], status: MessageStatus) -> None:
        """Records which keys have a leased message, after messages were leased or released.

        Does nothing if the group does not deliver in order of keys.
        """
        if self.keys is None:
            return
        for start, end, old in changes:
            if status.kind is StatusKind.LEASED:
                self.keys.hold(start, end)
            elif old.kind is StatusKind.LEASED:
                self._offer(self.keys.release(start, end))

    def _offer(self, offsets: list[int]) -> None:
        """Adds to the heaps the messages that have become the next ones of their keys."""
        for offset in offsets:
            for start, end, status in self.runs.between(offset, offset + 1):
                is_exhausted = self.is_exhausted(status.deliveries)
                heappush(self.exhausted if is_exhausted else self.ready, (start, end))

    def _count(self, changes: list[Run[MessageStatus]], status: MessageStatus) -> None:
        count = 0
        for start, end, old in changes:
            count += end - start
            if old.kind is StatusKind.LEASED:
                self.in_flight -= end - start
            elif old is SETTLED:
                self.settled_ahead -= end - start
        if status.kind is StatusKind.LEASED:
            self.in_flight += count
        elif status is SETTLED:
            self.settled_ahead += count

    def _advance(self) -> None:
        """Moves `base` forward over the settled messages at the beginning."""
        while (run := self.runs.first()) is not None and run[2] is SETTLED:
            self.settled_ahead -= run[1] - run[0]
            self.runs.drop_before(run[1])

    def _timers_of(self, status: MessageStatus) -> Timers:
        return self.schedules if status.is_scheduled else self.timers

    def _arm(self, timers: Timers, changes: list[Run[MessageStatus]], time_ms: int) -> None:
        if changes:
            timers.add(time_ms, changes[0][0], changes[-1][1])
        if len(self.timers) + len(self.schedules) > self._timers_max:
            self.timers.clear()
            self.schedules.clear()
            for start, end, status in self.runs:
                if status.kind in (StatusKind.LEASED, StatusKind.WAITING):
                    self._timers_of(status).add(status.time_ms, start, end)
            self._timers_max = max(_TIMERS_MIN, 2 * (len(self.timers) + len(self.schedules)))
