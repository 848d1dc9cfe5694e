"""An open consumer group of one partition: leases messages, takes acks, and records both durably.

A change is decided, queued and applied in one critical section. The call that made the change then
waits until the change is recorded as the group's ack level requires, and only then returns. So
memory may be ahead of the disk, but the disk is never ahead of memory.

After a failed write or sync, every call that waited for it fails. The changes of these calls stay
in memory, except for leases, which are given back. The next call that changes the state first
writes the whole state as a new snapshot with a new delta log, and fails too if that fails.

What may be lost: changes whose calls did not return. With `after_write`, a power cut may also lose
the changes of the last `sync_ms`: those messages are delivered again, under another epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from typing import NamedTuple, TypeVar

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.commit import Ticket
from lakebed.base.errors import Closed, DiskError, InputError, LakebedError
from lakebed.base.events import event
from lakebed.base.listeners import Listeners
from lakebed.base.runner import Event, Runner
from lakebed.base.runner.failure_backoff import FailureBackoff
from lakebed.stroma import lease_transitions, settlement_transitions
from lakebed.stroma import ranges as ranges_
from lakebed.stroma.clock import GroupClock
from lakebed.stroma.description import GroupPartition, count_messages
from lakebed.stroma.events import Event as GroupEvent
from lakebed.stroma.events import Reset, Returns, encode
from lakebed.stroma.format import BumpAckedUntil, ReserveEpochs, ReturnRange, Seek
from lakebed.stroma.journal import Journal
from lakebed.stroma.lease_transitions import ChosenRanges, Grant, LeasedRange
from lakebed.stroma.message_status import StatusKind
from lakebed.stroma.paths import GroupPaths
from lakebed.stroma.recovery import RecoveredGroup
from lakebed.stroma.snapshot import encode_snapshot
from lakebed.stroma.snapshot_conversion import snapshot_of
from lakebed.stroma.source import Fact, Source
from lakebed.stroma.state import GroupState

_log = logging.getLogger(__name__)

TIME_MS_MAX = 366 * 24 * 3600 * 1000  # of a lease or a delay
MESSAGES_MAX = 10_000_000  # of a lease
UNRECORDED_MAX = 16_384  # events derived from the log that may wait for the next change
_RETRY_NS = NS_PER_S
_STEP_MS = 1000  # how soon a change of the wall clock is noticed

Ranges = Iterable[tuple[int, int]]
Span = tuple[int, int]
Used = TypeVar("Used")


class _LeaseRequest(NamedTuple):
    """The parameters of a request to lease messages."""

    message_count_max: int
    lease_ms: int
    is_exhausted: bool = False
    within: Sequence[Span] | None = None


class _PendingLease(NamedTuple):
    """The result of one attempt to lease messages.

    If messages were leased, `ticket` completes when the lease is recorded. If not, `grant` is
    empty, `ticket` is None, and `due_ms` is the time in ms until the next lease, delay or schedule
    ends, or None if there is none.
    """

    grant: Grant = Grant()
    ticket: Ticket[None] | None = None
    due_ms: int | None = None


class _ReadFacts(NamedTuple):
    """A range of messages, and what was read about them from the log: see `source.Fact`."""

    span: Span
    facts: Sequence[Fact]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldRange:
    """Messages `[start, end)` of a partition that a consumer holds under one lease."""

    partition: int
    start: int
    end: int
    deadline_ms: int  # since 1970
    delivery_count: int  # including this delivery
    epoch: int


class PartitionGroup:
    """An open consumer group of one partition. Thread-safe.

    The owner must call `step` when it is due.
    """

    def __init__(
        self,
        paths: GroupPaths,
        recovered: RecoveredGroup,
        journal: Journal,
        *,
        source: Source,
        runner: Runner,
        clock: GroupClock,
        wake: Callable[[], None],
    ) -> None:
        """Use `group_opener.open_group` instead of calling this directly.

        `wake` schedules a call of `step`.
        """
        self.name = paths.name
        self.incarnation = recovered.incarnation  # changes if the group or its delta log is lost
        self.counters = journal.counters
        self._recovered = recovered
        self._journal = journal
        self._source = source
        self._runner = runner
        self._clock = clock
        self._wake = wake
        self._config = recovered.state.config
        # The mutex guards everything below and the order of the journal. It is not held during I/O.
        self._mutex = runner.mutex()
        self._state = recovered.state
        self._unrecorded: list[GroupEvent] = []  # applied, not recorded yet; derived from the log
        self._changed: Event | None = None  # set when there may be more to lease
        self._owes_notice = False  # leases or delays have ended, and no waiter was woken
        self._listeners = Listeners(" ".join(map(str, paths.name)), runner)
        self._knows_leases = (
            not self._config.per_key_order
        )  # see `lease_transitions.unknown_leases`
        self._unsynced_since_ns: int | None = None
        self._folding: Event | None = None  # set when the running fold has ended
        self._is_fold_queued = False  # whether another thread runs a fold, or is about to
        self._fold_at_ns = 0  # the earliest time of the next fold, after one failed
        self._fold_backoff = FailureBackoff(task="stroma fold", of=self.name)
        self._is_woken = False
        self._is_closed = False
        self._stop_listening = source.listen(self._notify)

    # Called by consumers.

    def lease(
        self,
        max_messages: int,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
        within: Ranges | None = None,
    ) -> Grant:
        """Leases up to `max_messages` messages, those with the lowest offsets first.

        The lease lasts `lease_ms`, by default the `lease_ms` of the group's settings. The grant is
        empty if no message is available, or if `in_flight_max` messages are leased. With `wait_s`,
        the call waits up to that many seconds until a message becomes available: because it is new,
        was given back, reached the end of its delay or lease, or is the next one of its key.

        With `per_key_order`, the first message of each key is leased first. If these are too few,
        the next messages of the same keys are added; the holder must handle them in order.

        With `within`, messages are chosen in the same way, but only those in these ranges are
        leased.
        """
        spans = None if within is None else ranges_.checked(within)
        return self._lease(
            _LeaseRequest(max_messages, self._lease_ms(lease_ms), within=spans), wait_s
        )

    def available(self, max_messages: int) -> list[LeasedRange]:
        """Returns the messages that a lease of `max_messages` would get now.

        The delivery counts do not include that lease. A caller that leases only some of the
        messages should take the first ranges: messages that must follow others of their key are
        last.
        """
        request = _LeaseRequest(_checked_messages(max_messages), self._config.lease_ms)
        try:
            return self._choose(request, partial(self._put_back, request))
        finally:
            self._announce_expired()

    def ack(self, ranges: Ranges, *, epoch: int) -> None:
        """Settles messages that are leased under `epoch`: they are not delivered again.

        Raises `StaleLease`, and settles nothing, if a message is neither leased under `epoch` nor
        already settled.
        """
        self._settle(ranges, partial(settlement_transitions.ack, epoch=epoch))

    def nack(self, ranges: Ranges, *, epoch: int, delay_ms: int = 0) -> None:
        """Gives messages back; they can be leased again immediately, or after `delay_ms`.

        Raises `StaleLease`, and changes nothing, if a message is not leased under `epoch`.
        """
        check_delay_ms(delay_ms)
        now_ms = self._clock.now_ms()
        self._settle(
            ranges,
            partial(settlement_transitions.nack, epoch=epoch, delay_ms=delay_ms, now_ms=now_ms),
        )

    def undo_lease(self, ranges: Ranges, *, epoch: int) -> None:
        """Gives back messages that were not delivered. The lease does not count as a delivery.

        Raises `StaleLease`, and changes nothing, if a message is not leased under `epoch`.
        """
        self._settle(
            ranges, partial(settlement_transitions.undo, epoch=epoch, now_ms=self._clock.now_ms())
        )

    def extend(self, ranges: Ranges, *, epoch: int, lease_ms: int | None = None) -> int:
        """Moves the deadline of leased messages to `lease_ms` from now, by default as in `lease`.

        Returns the new deadline in ms since 1970. Raises `StaleLease`, and changes nothing, if a
        message is not leased under `epoch`.
        """
        lease_ms = self._lease_ms(lease_ms)
        now_ms, deadline_ms = self._clock.now_ms(), self._clock.wall_ms() + lease_ms
        self._settle(
            ranges,
            partial(settlement_transitions.extend, epoch=epoch, lease_ms=lease_ms, now_ms=now_ms),
        )
        return deadline_ms

    def lease_dead_letters(self, max_messages: int, *, lease_ms: int | None = None) -> Grant:
        """Leases available messages that were leased at least `delivery_count_max` times before.

        The caller appends them to the dead-letter topic, and then calls `dead_lettered`.
        """
        return self._lease(
            _LeaseRequest(max_messages, self._lease_ms(lease_ms), is_exhausted=True), 0.0
        )

    def dead_lettered(self, ranges: Ranges, *, epoch: int) -> None:
        """Settles messages that have been copied durably to the dead-letter topic.

        Raises `StaleLease` like `ack`.
        """
        self._settle(ranges, partial(settlement_transitions.dead_letter, epoch=epoch))

    def leases(self, *, max_leases: int, offset: int = 0) -> list[HeldRange]:
        """Returns the leased messages from `offset` on as up to `max_leases` ranges, in order."""
        with self._mutex:
            self._check_open()
            now_ms = self._expire()
            state, wall_ms = self._state.frozen(), self._clock.wall_ms()
        self._announce_expired()
        held = (
            run for run in state.runs.between(offset, state.end) if run[2].kind is StatusKind.LEASED
        )
        return [
            HeldRange(
                partition=self.name.partition,
                start=start,
                end=end,
                deadline_ms=wall_ms + status.time_ms - now_ms,
                delivery_count=status.deliveries,
                epoch=status.epoch,
            )
            for start, end, status in islice(held, max_leases)
        ]

    def release(self, *, start: int = 0, end: int | None = None) -> int:
        """Ends the leases of messages `[start, end)`; returns how many messages were leased.

        By default, ends all leases. The messages can be leased again immediately. Later calls by
        the former holders are refused.
        """
        released: list[ReturnRange] = []

        def decide(state: GroupState, ranges: Sequence[Span]) -> list[GroupEvent]:
            for first, last, status in state.runs.within(ranges):
                if status.kind is StatusKind.LEASED:
                    released.append(ReturnRange(first, last, 0, status.epoch, 0))
            return [Returns(released)] if released else []

        high_watermark = self._source.high_watermark()
        stop = high_watermark if end is None else min(end, high_watermark)
        if start < stop:
            self._settle([(start, stop)], decide)
        return sum(lease.end - lease.start for lease in released)

    def reset(self) -> None:
        """Starts over at the beginning: no message is settled any more, and all leases end."""
        self._start_over(Reset())

    def seek(self, offset: int) -> None:
        """Settles all messages before `offset`, and treats all others as never leased.

        Raises `InputError` if `offset` is negative or after the high watermark.
        """
        _check_count("offset", offset, minimum=0, maximum=self._source.high_watermark())
        self._start_over(Seek(offset))

    def lag(self) -> int:
        """Returns the number of messages that are not settled: see `message_status`.

        If messages were settled out of order, the number may include messages that were compacted
        away after the group examined them.
        """
        start, high_watermark = self._source.start_offset(), self._source.high_watermark()
        with self._mutex:
            self._check_open()
            self._drop_removed(start)
            base, end = self._state.base, self._state.end
            unsettled = self._state.unsettled_count
        high_watermark = max(end, high_watermark)
        count = self._source.message_count
        return min(unsettled + count(end, high_watermark), count(base, high_watermark))

    def unsettled(self) -> list[Span]:
        """Returns the ranges of offsets before the high watermark that are not settled."""
        start, high_watermark = self._source.start_offset(), self._source.high_watermark()
        with self._mutex:
            self._check_open()
            self._drop_removed(start)
            state = self._state.frozen()  # so that other calls do not wait for the next line
        return ranges_.merged([*state.unsettled(), (state.end, max(state.end, high_watermark))])

    def describe(self) -> GroupPartition:
        """Returns a description of the group as it is now.

        This takes time in proportion to the number of runs of messages with the same status.
        """
        lag = self.lag()
        high_watermark = self._source.high_watermark()
        with self._mutex:
            self._expire()
            state = self._state.frozen()  # so that counting does not block other calls
            described = GroupPartition(
                acked_until=self._state.base,
                looked_until=self._state.end,
                high_watermark=high_watermark,
                lag=lag,
                in_flight=self._state.in_flight,
                waiting=0,
                exhausted=0,
                settled_ahead=self._state.settled_ahead,
                epoch=self._state.epoch,
                generation=self._journal.generation,
                snapshot_bytes=self._journal.snapshot_bytes,
                delta_bytes=self._journal.delta_bytes,
                delta_events=self._journal.event_count,
                unknown_events=self._recovered.unknown_count,
                flagged_events=self._recovered.flagged_count,
                problems=tuple(self._recovered.problems),
            )
        self._announce_expired()
        waiting, exhausted = count_messages(state)
        return replace(described, waiting=waiting, exhausted=exhausted)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when more messages may be available.

        Returns a function that unsubscribes. The callback may run in any thread, and no lock is
        held during the call. Messages also become available when time passes, without a callback:
        see `due_ns`.
        """
        return self._listeners.add(callback)

    @property
    def failure(self) -> LakebedError | None:
        """The error of the last write, if changes can no longer be written; otherwise None.

        The next change, or `step`, tries to write new files.
        """
        return self._journal.failure

    @property
    def fold_failure(self) -> Exception | None:
        """The error of the last fold in the background, while a fold is due; otherwise None.

        The delta log grows until a fold succeeds. `step` starts the next one.
        """
        with self._mutex:
            return self._fold_backoff.error if self._journal.is_fold_due else None

    def due_ns(self) -> int | None:
        """Returns the ns until the next lease, delay or schedule may have ended.

        Messages may become available then. Returns None if no message is leased or waiting.
        """
        with self._mutex:
            due_ms = self._due_ms()
        return None if due_ms is None else due_ms * NS_PER_MS

    # Called by the owner.

    def step(self) -> int | None:
        """Shortens the delta log (see `compact`) and syncs written changes, each when it is due.

        After a failed write, first writes new files. Raises no `LakebedError`: it is logged, and
        is in `failure` while changes cannot be written. A delta log is shortened by another thread,
        whose last error is in `fold_failure`. Returns the ns until the next step is due, or None if
        none is due.
        """
        with self._mutex:
            self._is_woken = False
            if self._is_closed:
                return None
        try:
            if self._journal.failure is not None:
                self.compact()
            fold_ns = self._fold_if_due()
            return _sooner(fold_ns, _sooner(self._sync_if_due(), self._journal.step()))
        except LakebedError as error:
            event(_log, "group_upkeep_failed", level=logging.ERROR, group=self.name, error=error)
            return _RETRY_NS

    def compact(self) -> None:
        """Writes the state as a new snapshot, and removes the events in it from the delta log.

        Other calls continue while this runs, except after a failed write: calls that change the
        group then wait. If another call is compacting already, waits for that call instead.
        """
        while (fold_ended := self._begin_folding()) is None:
            if self._journal.failure is None:
                return  # another call has folded it
        try:
            if self._journal.failure is None:
                self._fold_in_steps()
            else:
                with self._mutex:
                    ticket = self._fold()
                ticket.wait()
        finally:
            with self._mutex:
                self._journal.end_fold()
                self._folding = None
            fold_ended.set()

    def _fold_if_due(self) -> int | None:
        """Starts to fold the delta log into a snapshot, in another thread, if that is due.

        Returns None, except if a fold is due but must wait because an earlier one failed: then
        returns the ns to wait.
        """
        with self._mutex:
            if self._is_fold_queued or not self._journal.is_fold_due:
                return None
            left_ns = self._fold_at_ns - self._runner.clock.monotonic_ns()
            if left_ns > 0:
                return left_ns
            self._is_fold_queued = True
        try:
            self._runner.compute(self._fold_apart)
        except Closed:
            with self._mutex:
                self._is_fold_queued = False
        return None

    def _fold_apart(self) -> None:
        retry_ns = 0
        try:
            self.compact()
        except Exception as error:  # noqa: BLE001 - no caller waits for this thread
            if not self._is_closed:
                retry_ns = max(self._fold_backoff.failed(error), _RETRY_NS)
        else:
            self._fold_backoff.succeeded()
        finally:
            with self._mutex:
                self._is_fold_queued = False
                self._fold_at_ns = self._runner.clock.monotonic_ns() + retry_ns
                if self._journal.is_fold_due:
                    self._wake_step()

    def _begin_folding(self) -> Event | None:
        """Lets the caller fold the delta log; returns the event to set when that has ended.

        If another thread is folding the delta log, waits until that has ended and returns None.
        """
        with self._mutex:
            self._check_open()
            running = self._folding
            if running is None:
                self._folding = fold_ended = self._runner.event()
                return fold_ended
        running.wait()
        return None

    def close(self) -> None:
        """Makes all changes durable and closes the files. Idempotent.

        If the changes cannot be made durable, closes the files and raises the error.
        """
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            folding = self._folding
        self._stop_listening()
        self._notify()
        if folding is not None:
            folding.wait()
        try:
            with self._mutex:
                is_broken = self._journal.failure is not None
                ticket = self._fold() if is_broken else self._journal.append([], must_sync=True)
            ticket.wait()
        finally:
            self._journal.close()

    def __enter__(self) -> PartitionGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Leasing.

    def _lease(self, request: _LeaseRequest, wait_s: float) -> Grant:
        _checked_messages(request.message_count_max)
        clock = self._runner.clock
        until_ns = clock.monotonic_ns() + round(wait_s * NS_PER_S)
        changed = None  # created before the next attempt, so that no change is missed
        while True:
            self._ensure_writable()
            grant, due_ms = self._try_lease(request)
            left_ns = until_ns - clock.monotonic_ns()
            if grant.leased or left_ns <= 0:
                return grant
            if changed is not None:
                due_ns = left_ns if due_ms is None else due_ms * NS_PER_MS
                changed.wait(min(left_ns, due_ns) / NS_PER_S)
            changed = self._next_change()

    def _try_lease(self, request: _LeaseRequest) -> tuple[Grant, int | None]:
        """Tries once to lease messages, and waits until the lease is recorded.

        If no message is available, returns an empty grant, and the ms until the next lease, delay
        or schedule ends, or None if there is none.
        """
        granted = self._choose(request, partial(self._grant, request))
        if granted.ticket is not None:
            try:
                granted.ticket.wait()
            except BaseException:
                self._give_back(granted.grant)
                raise
        self._announce_expired()
        return granted.grant, granted.due_ms

    def _choose(self, request: _LeaseRequest, use: Callable[[ChosenRanges, int], Used]) -> Used:
        """Calls `use`, under the mutex, with the messages that can be leased now.

        Returns the result of `use`, which must lease the messages or put them back. Messages that
        were not examined yet are read from the log as needed. Those that cannot be read are left
        for later; raises `DiskError` if no other message can be leased.
        """
        if not self._knows_leases:
            self._learn_leases()
        start, high_watermark = self._source.start_offset(), self._source.high_watermark()
        read_facts: _ReadFacts | None = None
        unreadable: DiskError | None = None
        for turn in count():
            with self._mutex:
                now_ms = self._freshen(start)
                if read_facts is not None:
                    wall_ms = self._clock.wall_ms()
                    self._note(
                        lease_transitions.admit(
                            self._state, read_facts.span, read_facts.facts, now_ms=wall_ms
                        )
                    )
                chosen = lease_transitions.choose(
                    self._state, request.message_count_max, is_exhausted=request.is_exhausted
                )
                span = self._unseen_span(request.message_count_max, chosen, turn, high_watermark)
                if span is None or (unreadable is not None and chosen.ranges):
                    return use(chosen, now_ms)
                lease_transitions.put_back(self._state, chosen)
                ticket = self._record_if_many(now_ms)
            if ticket is not None:
                ticket.wait()
            if unreadable is not None:
                raise unreadable
            try:
                read_facts = self._read_facts(span)
            except DiskError as error:
                read_facts, unreadable = None, error
        raise AssertionError("unreachable: the loop only ends by returning or raising")

    def _read_facts(self, span: Span) -> _ReadFacts:
        """Reads from the log the facts about the messages of a span: see `source.Fact`.

        If some messages cannot be read, reads only a first part of the span. Raises `DiskError` if
        the first message cannot be read.
        """
        start, end = span
        while True:
            try:
                return _ReadFacts((start, end), self._source.facts(start, end))
            except DiskError:
                if end - start == 1:
                    raise
                end = start + (end - start) // 2

    def _learn_leases(self) -> None:
        """Reads the keys of the messages that were leased before the group was opened."""
        with self._mutex:
            self._check_open()
            self._expire()
            spans = lease_transitions.unknown_leases(self._state)
        for span in spans:
            facts = self._source.facts(*span)
            with self._mutex:
                lease_transitions.admit_leases(self._state, span, facts)
        with self._mutex:
            self._knows_leases = True

    def _freshen(self, start: int) -> int:
        """Ends expired leases and delays, and settles all messages before `start`.

        Retention has removed the messages before `start`, the first offset of the log.

        Returns the current time of the group's clock. The caller holds the mutex.
        """
        self._check_open()
        now_ms = self._expire()
        self._drop_removed(start)
        return now_ms

    def _expire(self) -> int:
        """Ends expired leases, delays and schedules.

        Returns the current time of the group's clock. The caller holds the mutex.
        """
        now_ms = self._clock.now_ms()
        if self._state.expire(now_ms, wall_ms=self._clock.wall_ms()):
            self._owes_notice = True
        return now_ms

    def _announce_expired(self) -> None:
        """Wakes waiting consumers if leases or delays have ended that they set a timer for.

        Otherwise they would miss the messages: an ended lease or delay is no longer in `due_ns`.
        """
        if self._owes_notice:
            self._owes_notice = False
            self._notify()

    def _due_ms(self) -> int | None:
        """Returns the ms until the next lease, delay or schedule ends, or None if there is none.

        For a schedule, returns at most `_STEP_MS`, because the wall clock may be changed. The
        caller holds the mutex.
        """
        lease_ms, schedule_ms = self._state.timers.next_ms(), self._state.schedules.next_ms()
        dues_ms = [] if lease_ms is None else [lease_ms - self._clock.now_ms()]
        if schedule_ms is not None:
            dues_ms.append(min(schedule_ms - self._clock.wall_ms(), _STEP_MS))
        return max(0, min(dues_ms)) if dues_ms else None

    def _unseen_span(
        self, count_max: int, chosen: ChosenRanges, turn: int, high_watermark: int
    ) -> Span | None:
        """Returns the messages to examine next, or None if no more need to be examined.

        `turn` is how many spans the same request has examined before. The span doubles with each
        of them, in case only few of its messages can be delivered. The caller holds the mutex.
        """
        room = self._config.in_flight_max - self._state.in_flight
        missing = min(count_max, room) - chosen.message_count
        if chosen.is_exhausted:
            if missing <= 0 or not lease_transitions.has_unknown_dead(self._state):
                return None
        elif missing <= 0:
            if not lease_transitions.has_parked(self._state):
                return None
            missing = 1
        return lease_transitions.unseen_span(
            self._state, missing << min(turn, 16), high_watermark=high_watermark
        )

    def _put_back(
        self, request: _LeaseRequest, chosen: ChosenRanges, _now_ms: int
    ) -> list[LeasedRange]:
        lease_transitions.put_back(self._state, chosen)
        return [
            *chosen.ranges,
            *lease_transitions.following(self._state, chosen, request.message_count_max),
        ]

    def _grant(self, request: _LeaseRequest, chosen: ChosenRanges, now_ms: int) -> _PendingLease:
        """Leases the chosen messages. The caller holds the mutex."""
        if request.within is not None:
            chosen = lease_transitions.narrowed(self._state, chosen, request.within)
        more = lease_transitions.following(
            self._state, chosen, request.message_count_max, within=request.within
        )
        chosen = lease_transitions.extended(chosen, more)
        if not chosen.ranges:
            return _PendingLease(due_ms=self._due_ms())
        try:
            grant, events = lease_transitions.lease(
                self._state, chosen, lease_ms=request.lease_ms, now_ms=now_ms
            )
            reported = grant._replace(deadline_ms=self._clock.wall_ms() + request.lease_ms)
            return _PendingLease(reported, self._record(events, now_ms))
        except BaseException:
            lease_transitions.put_back(self._state, chosen)
            raise

    def _give_back(self, grant: Grant) -> None:
        """Ends a lease that was not returned to a caller.

        On disk, the lease may remain until its deadline.
        """
        with self._mutex:
            self._state.give_back(grant.ranges, epoch=grant.epoch)
        self._notify()

    # Changing and recording.

    def _settle(self, ranges: Ranges, decide: Callable[..., list[GroupEvent]]) -> None:
        checked = ranges_.checked(ranges)
        self._ensure_writable()
        with self._mutex:
            self._check_open()
            now_ms = self._expire()
            # Wait even if there is nothing to record: earlier changes may not be durable yet.
            ticket = self._record(decide(self._state, checked), now_ms)
        ticket.wait()
        self._notify()

    def _start_over(self, change: Reset | Seek) -> None:
        self._ensure_writable()
        with self._mutex:
            self._check_open()
            self._unrecorded.clear()
            ticket = self._record([change], self._clock.now_ms())
        ticket.wait()
        self._notify()

    def _record(self, events: list[GroupEvent], now_ms: int) -> Ticket[None]:
        """Queues events to be written, and applies them to the state.

        Changes nothing if it raises. The caller holds the mutex.
        """
        must_sync = any(isinstance(change, ReserveEpochs) for change in events)
        encoded = encode([*self._unrecorded, *events], ahead_ms=self._clock.ahead_ms())
        ticket = self._journal.append(encoded, must_sync=must_sync)
        self._unrecorded.clear()
        for change in events:
            self._state.apply(change, now_ms)
        if not self._config.syncs_each and self._unsynced_since_ns is None:
            self._unsynced_since_ns = self._runner.clock.monotonic_ns()
            self._wake_step()
        elif self._journal.is_fold_due:
            self._wake_step()
        return ticket

    def _note(self, events: list[GroupEvent]) -> None:
        """Applies events that were derived from the log.

        They are written together with the next change. The caller holds the mutex.
        """
        for change in events:
            self._state.apply(change, self._clock.now_ms())
        self._unrecorded += events

    def _record_if_many(self, now_ms: int) -> Ticket[None] | None:
        """If many events derived from the partition's log are not recorded yet, queues their write.

        Returns None if nothing was queued. The caller holds the mutex.
        """
        if len(self._unrecorded) < UNRECORDED_MAX or self._journal.failure is not None:
            return None
        return self._record([], now_ms)

    def _drop_removed(self, start: int) -> None:
        """Settles all messages before `start`, which retention removed.

        The caller holds the mutex.
        """
        if start > self._state.base:
            self._note([BumpAckedUntil(start)])

    def _fold_in_steps(self) -> None:
        """Folds the delta log into a snapshot while other calls continue: see `journal`.

        Other calls wait only while the state is copied under the mutex, and while the delta log is
        replaced between two commits.
        """
        with self._mutex:
            created_ts_ms, ahead_ms = self._clock.wall_ms(), self._clock.ahead_ms()
            state = self._state.frozen()
            unrecorded = encode(self._unrecorded, ahead_ms=ahead_ms)
            generation, ticket = self._journal.begin_fold(unrecorded)
            self._unrecorded.clear()
        ticket.wait()
        snapshot = snapshot_of(
            state,
            generation=generation,
            created_ts_ms=created_ts_ms,
            incarnation=self.incarnation,
            ahead_ms=ahead_ms,
        )
        self._journal.save_snapshot(encode_snapshot(snapshot, self.name))
        with self._mutex:
            ticket = self._journal.finish_fold(generation=generation, created_ts_ms=created_ts_ms)
        ticket.wait()

    def _fold(self) -> Ticket[None]:
        """Queues the whole state to be written as a new snapshot with an empty delta log.

        The caller holds the mutex.
        """
        generation, created_ts_ms = self._journal.generation + 1, self._clock.wall_ms()
        snapshot = snapshot_of(
            self._state,
            generation=generation,
            created_ts_ms=created_ts_ms,
            incarnation=self.incarnation,
            ahead_ms=self._clock.ahead_ms(),
        )
        data = encode_snapshot(snapshot, self.name)
        self._unrecorded.clear()
        return self._journal.fold(data, generation=generation, created_ts_ms=created_ts_ms)

    def _ensure_writable(self) -> None:
        """Writes new files if an earlier write failed; raises if that fails too."""
        if self._journal.failure is not None:
            self.compact()

    def _sync_if_due(self) -> int | None:
        with self._mutex:
            since_ns = self._unsynced_since_ns
            if since_ns is None:
                return None
            due_ns = since_ns + self._config.sync_ms * NS_PER_MS
            left_ns = due_ns - self._runner.clock.monotonic_ns()
            if left_ns > 0:
                return left_ns
            self._unsynced_since_ns = None
            ticket = self._journal.append([], must_sync=True)
        ticket.wait()
        return None

    # Waking and checking.

    def _next_change(self) -> Event:
        with self._mutex:
            self._changed = self._changed or self._runner.event()
            return self._changed

    def _notify(self) -> None:
        with self._mutex:
            changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
        self._listeners.call()

    def _wake_step(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self.name}: the group is closed")

    def _lease_ms(self, lease_ms: int | None) -> int:
        if lease_ms is None:
            return self._config.lease_ms
        check_lease_ms(lease_ms)
        return lease_ms


def check_lease_ms(lease_ms: int) -> None:
    _check_count("lease_ms", lease_ms, minimum=1, maximum=TIME_MS_MAX)


def check_delay_ms(delay_ms: int) -> None:
    _check_count("delay_ms", delay_ms, minimum=0, maximum=TIME_MS_MAX)


def _checked_messages(count: int) -> int:
    _check_count("max_messages", count, minimum=1, maximum=MESSAGES_MAX)
    return count


def _check_count(what: str, value: object, *, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or not minimum <= value <= maximum:
        raise InputError(f"{what} {str(value)[:30]}: must be {minimum} to {maximum}")


def _sooner(first: int | None, second: int | None) -> int | None:
    return min((delay for delay in (first, second) if delay is not None), default=None)
