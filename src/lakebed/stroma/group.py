"""A consumer group of one partition, open: leases messages, takes their acks, and keeps both.

A change is decided, queued and applied in one critical section, and its caller waits until it is
recorded as the group's ack level says; only then is a lease handed out, or an ack answered. So
memory is ahead of the disk, and never the other way round.

After a write or a sync that failed, every call that waited for it fails. What they changed stays in
memory, except for leases, which are given back. The next call first writes all of it as a new
snapshot with a new delta, and fails too if that cannot be done.

What may be lost: a change whose call did not return. With `after_write`, in a power cut, also those
of the last `sync_ms`: their messages are delivered again, under another epoch.
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

TIME_MS_MAX = 366 * 24 * 3600 * 1000  # of a lease, or a delay
MESSAGES_MAX = 10_000_000  # of a lease
UNRECORDED_MAX = 16_384  # events that follow from the log, before they are recorded by themselves
_RETRY_NS = NS_PER_S
_STEP_MS = 1000  # a step of the wall clock is noticed after so long

Ranges = Iterable[tuple[int, int]]
Span = tuple[int, int]
Used = TypeVar("Used")


class _LeaseRequest(NamedTuple):
    """For a lease."""

    wanted: int
    lease_ms: int
    is_exhausted: bool = False
    within: Sequence[Span] | None = None


class _PendingLease(NamedTuple):
    """A lease that is on its way to the disk, or none."""

    grant: Grant = Grant()
    ticket: Ticket[None] | None = None
    due_ms: int | None = None


class _ReadFacts(NamedTuple):
    """What the log says of some messages."""

    span: Span
    facts: Sequence[Fact]


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldRange:
    """Messages `[start, end)` of a partition that a consumer holds under one lease."""

    partition: int
    start: int
    end: int
    deadline_ms: int  # since 1970
    delivery_count: int  # with this time
    epoch: int


class PartitionGroup:
    """Thread-safe. Whoever opens it drives `step`."""

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
        """`wake` makes the runner call `step` soon. See `opening.open_group`."""
        self.name = paths.name
        self.incarnation = recovered.incarnation  # another one, if the group is made again
        self.counters = journal.counters
        self._recovered = recovered
        self._journal = journal
        self._source = source
        self._runner = runner
        self._clock = clock
        self._wake = wake
        self._config = recovered.state.config
        # The mutex guards everything below, and the order of the journal. Never held during I/O.
        self._mutex = runner.mutex()
        self._state = recovered.state
        self._unrecorded: list[GroupEvent] = []  # applied; they follow from the log
        self._changed: Event | None = None  # for those who wait for something to lease
        self._listeners = Listeners(" ".join(map(str, paths.name)), runner)
        self._knows_leases = (
            not self._config.per_key_order
        )  # see `lease_transitions.unknown_leases`
        self._unsynced_since_ns: int | None = None
        self._folding: Event | None = None  # set when the fold that is under way has ended
        self._is_fold_queued = False  # on its way to another thread, or there
        self._fold_at_ns = 0  # not before, since one failed
        self._is_woken = False
        self._is_closed = False
        self._stop_listening = source.listen(self._notify)

    # What consumers call.

    def lease(
        self,
        max_messages: int,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
        within: Ranges | None = None,
    ) -> Grant:
        """Lease up to that many messages, the lowest first; of none, if there are none.

        With `per_key_order` the first message of each key comes first. Only if these are too few it
        has more of the same keys: they are to be handled in order.

        With `wait_s` it waits that long until there are: new ones, or ones whose delay or lease
        ended, that were given back, or whose key's turn it is. Of those that come first it takes
        the ones `within` some ranges, if it is told any.
        """
        spans = None if within is None else ranges_.checked(within)
        return self._lease(
            _LeaseRequest(max_messages, self._lease_ms(lease_ms), within=spans), wait_s
        )

    def available(self, max_messages: int) -> list[LeasedRange]:
        """What a lease of that many would be given now; with the deliveries they had yet.

        The first of these ranges are to be preferred, if not all are taken: the messages that
        follow others of their key are last.
        """
        asked = _LeaseRequest(_checked_messages(max_messages), self._config.lease_ms)
        return self._choose(asked, partial(self._put_back, asked))

    def ack(self, ranges: Ranges, *, epoch: int) -> None:
        """Settle messages leased under that epoch: they are never delivered again.

        `StaleLease` if one of them is not leased under it; then none is settled. To settle what is
        settled already is no mistake.
        """
        self._settle(ranges, partial(settlement_transitions.ack, epoch=epoch))

    def nack(self, ranges: Ranges, *, epoch: int, delay_ms: int = 0) -> None:
        """Give messages back, to be leased again at once or after the delay."""
        _check_count("delay_ms", delay_ms, minimum=0, maximum=TIME_MS_MAX)
        now_ms = self._clock.now_ms()
        self._settle(
            ranges,
            partial(settlement_transitions.nack, epoch=epoch, delay_ms=delay_ms, now_ms=now_ms),
        )

    def undo_lease(self, ranges: Ranges, *, epoch: int) -> None:
        """Give back messages that were never handed to anybody: it does not count as a delivery."""
        self._settle(
            ranges, partial(settlement_transitions.undo, epoch=epoch, now_ms=self._clock.now_ms())
        )

    def extend(self, ranges: Ranges, *, epoch: int, lease_ms: int | None = None) -> int:
        """Hold messages for `lease_ms` from now; the new deadline."""
        lease_ms = self._lease_ms(lease_ms)
        now_ms = self._clock.now_ms()
        self._settle(
            ranges,
            partial(settlement_transitions.extend, epoch=epoch, lease_ms=lease_ms, now_ms=now_ms),
        )
        return self._clock.wall_ms() + lease_ms

    def lease_dead_letters(self, max_messages: int, *, lease_ms: int | None = None) -> Grant:
        """Lease messages that were delivered `delivery_count_max` times, and not settled.

        Whoever takes them appends them to the dead-letter topic, and then calls `dead_lettered`.
        """
        return self._lease(
            _LeaseRequest(max_messages, self._lease_ms(lease_ms), is_exhausted=True), 0.0
        )

    def dead_lettered(self, ranges: Ranges, *, epoch: int) -> None:
        """Settle messages that are durable in the dead-letter topic."""
        self._settle(ranges, partial(settlement_transitions.dead_letter, epoch=epoch))

    def leases(self, *, max_leases: int, offset: int = 0) -> list[HeldRange]:
        """What is leased now, from that offset on; walks the runs up to the last one returned."""
        with self._mutex:
            self._check_open()
            now_ms = self._expire()
            state, wall_ms = self._state.frozen(), self._clock.wall_ms()
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
        """Take the leases of `[start, end)` back from their holders; how many messages they had.

        The messages can be leased again at once. A former holder is refused from then on.
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
        """Start over: nothing is settled, nobody holds a lease."""
        self._start_over(Reset())

    def seek(self, offset: int) -> None:
        """Everything before is settled, everything from there on is as if never leased."""
        _check_count("offset", offset, minimum=0, maximum=self._source.high_watermark())
        self._start_over(Seek(offset))

    def lag(self) -> int:
        """How many messages are not settled.

        Of those that were compacted away since the group looked at them, some may count if the
        group settled others out of order.
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

    def describe(self) -> GroupPartition:
        """The group as it is now; its cost is that of all runs."""
        lag = self.lag()
        high_watermark = self._source.high_watermark()
        with self._mutex:
            self._expire()
            state = self._state.frozen()  # the messages are counted while others go on
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
        waiting, exhausted = count_messages(state)
        return replace(described, waiting=waiting, exhausted=exhausted)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call when there may be more to lease, until the function returned is called.

        From any thread, without a lock held. Time alone changes things too: see `due_ns`.
        """
        return self._listeners.add(callback)

    @property
    def failure(self) -> LakebedError | None:
        """Why nothing can be written now; new files are tried by whoever writes next, and by
        `step`."""
        return self._journal.failure

    def due_ns(self) -> int | None:
        """ns until a delay or a lease ends; None if there are none."""
        with self._mutex:
            due_ms = self._due_ms()
        return None if due_ms is None else due_ms * NS_PER_MS

    # What its owner calls.

    def step(self) -> int | None:
        """Fold the delta and sync what was only written, as they are due; ns to the next time."""
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
        """Fold the delta into a snapshot now; other calls go on meanwhile."""
        while (mine := self._begin_folding()) is None:
            if self._journal.failure is None:
                return  # another call did it
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
            mine.set()

    def _fold_if_due(self) -> int | None:
        """Have the delta folded while the step goes on; ns until it is tried again, or None."""
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
        except LakebedError as error:
            retry_ns = _RETRY_NS
            if not self._is_closed:
                event(_log, "group_fold_failed", level=logging.ERROR, group=self.name, error=error)
        finally:
            with self._mutex:
                self._is_fold_queued = False
                self._fold_at_ns = self._runner.clock.monotonic_ns() + retry_ns
                if self._journal.is_fold_due:
                    self._wake_step()

    def _begin_folding(self) -> Event | None:
        """To be set when the fold has ended; None if another was under way, and has ended."""
        with self._mutex:
            self._check_open()
            other = self._folding
            if other is None:
                self._folding = mine = self._runner.event()
                return mine
        other.wait()
        return None

    def close(self) -> None:
        """Make everything durable and let go of the files. Idempotent."""
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

    def _lease(self, asked: _LeaseRequest, wait_s: float) -> Grant:
        _checked_messages(asked.wanted)
        clock = self._runner.clock
        until_ns = clock.monotonic_ns() + round(wait_s * NS_PER_S)
        changed = None  # taken before looking, so that no change is missed
        while True:
            self._ensure_writable()
            grant, due_ms = self._try_lease(asked)
            left_ns = until_ns - clock.monotonic_ns()
            if grant.leased or left_ns <= 0:
                return grant
            if changed is not None:
                due_ns = left_ns if due_ms is None else due_ms * NS_PER_MS
                changed.wait(min(left_ns, due_ns) / NS_PER_S)
            changed = self._next_change()

    def _try_lease(self, asked: _LeaseRequest) -> tuple[Grant, int | None]:
        """A lease; of none, with the ms until one of the group's own times comes."""
        granted = self._choose(asked, partial(self._grant, asked))
        if granted.ticket is not None:
            try:
                granted.ticket.wait()
            except BaseException:
                self._give_back(granted.grant)
                raise
        return granted.grant, granted.due_ms

    def _choose(self, asked: _LeaseRequest, use: Callable[[ChosenRanges, int], Used]) -> Used:
        """Use what can be leased at that time, under the mutex: lease it, or put it back.

        Messages that cannot be read are left for later; `DiskError` if there are no others.
        """
        if not self._knows_leases:
            self._learn_leases()
        start, high_watermark = self._source.start_offset(), self._source.high_watermark()
        seen: _ReadFacts | None = None
        unreadable: DiskError | None = None
        for turn in count():
            with self._mutex:
                now_ms = self._freshen(start)
                if seen is not None:
                    wall_ms = self._clock.wall_ms()
                    self._note(
                        lease_transitions.admit(self._state, seen.span, seen.facts, now_ms=wall_ms)
                    )
                chosen = lease_transitions.choose(
                    self._state, asked.wanted, is_exhausted=asked.is_exhausted
                )
                span = self._unseen_span(asked.wanted, chosen, turn, high_watermark)
                if span is None or (unreadable is not None and chosen.ranges):
                    return use(chosen, now_ms)
                lease_transitions.put_back(self._state, chosen)
                ticket = self._record_if_many(now_ms)
            if ticket is not None:
                ticket.wait()
            if unreadable is not None:
                raise unreadable
            try:
                seen = self._read_facts(span)
            except DiskError as error:
                seen, unreadable = None, error
        raise AssertionError("the turns never end by themselves")

    def _read_facts(self, span: Span) -> _ReadFacts:
        """At the messages of a span, or at fewer of them if the others cannot be read."""
        start, end = span
        while True:
            try:
                return _ReadFacts((start, end), self._source.facts(start, end))
            except DiskError:
                if end - start == 1:
                    raise
                end = start + (end - start) // 2

    def _learn_leases(self) -> None:
        """Of which keys messages were leased before the group was opened."""
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
        """End what is over, settle what retention removed; the time. Under the mutex."""
        self._check_open()
        now_ms = self._expire()
        self._drop_removed(start)
        return now_ms

    def _expire(self) -> int:
        """End what is over; the time. Under the mutex."""
        now_ms = self._clock.now_ms()
        self._state.expire(now_ms, wall_ms=self._clock.wall_ms())
        return now_ms

    def _due_ms(self) -> int | None:
        """ms until a lease, a delay or a schedule ends; None if there are none. Under the mutex."""
        lease_ms, schedule_ms = self._state.timers.next_ms(), self._state.schedules.next_ms()
        dues_ms = [] if lease_ms is None else [lease_ms - self._clock.now_ms()]
        if schedule_ms is not None:
            dues_ms.append(min(schedule_ms - self._clock.wall_ms(), _STEP_MS))
        return max(0, min(dues_ms)) if dues_ms else None

    def _unseen_span(
        self, wanted: int, chosen: ChosenRanges, turn: int, high_watermark: int
    ) -> Span | None:
        """More and more at a time, if there is little to deliver. Under the mutex."""
        room = self._config.in_flight_max - self._state.in_flight
        missing = min(wanted, room) - chosen.message_count
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
        self, asked: _LeaseRequest, chosen: ChosenRanges, _now_ms: int
    ) -> list[LeasedRange]:
        lease_transitions.put_back(self._state, chosen)
        return [*chosen.ranges, *lease_transitions.following(self._state, chosen, asked.wanted)]

    def _grant(self, asked: _LeaseRequest, chosen: ChosenRanges, now_ms: int) -> _PendingLease:
        """Under the mutex."""
        if asked.within is not None:
            chosen = lease_transitions.narrowed(self._state, chosen, asked.within)
        more = lease_transitions.following(self._state, chosen, asked.wanted, within=asked.within)
        chosen = lease_transitions.extended(chosen, more)
        if not chosen.ranges:
            return _PendingLease(due_ms=self._due_ms())
        try:
            grant, events = lease_transitions.lease(
                self._state, chosen, lease_ms=asked.lease_ms, now_ms=now_ms
            )
            told = grant._replace(deadline_ms=self._clock.wall_ms() + asked.lease_ms)
            return _PendingLease(told, self._record(events, now_ms))
        except BaseException:
            lease_transitions.put_back(self._state, chosen)
            raise

    def _give_back(self, grant: Grant) -> None:
        """A lease that nobody was handed. On disk it may stand until its deadline."""
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
            # Also if there is nothing to record: what it relies on may not be durable yet.
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
        """Queue events and apply them. Under the mutex; changes nothing if it raises."""
        must_sync = any(isinstance(happened, ReserveEpochs) for happened in events)
        encoded = encode([*self._unrecorded, *events], ahead_ms=self._clock.ahead_ms())
        ticket = self._journal.append(encoded, must_sync=must_sync)
        self._unrecorded.clear()
        for happened in events:
            self._state.apply(happened, now_ms)
        if not self._config.syncs_each and self._unsynced_since_ns is None:
            self._unsynced_since_ns = self._runner.clock.monotonic_ns()
            self._wake_step()
        elif self._journal.is_fold_due:
            self._wake_step()
        return ticket

    def _note(self, events: list[GroupEvent]) -> None:
        """Apply what follows from the log; it is recorded with the next change."""
        for happened in events:
            self._state.apply(happened, self._clock.now_ms())
        self._unrecorded += events

    def _record_if_many(self, now_ms: int) -> Ticket[None] | None:
        """Record what follows from the log before it grows large. Under the mutex."""
        if len(self._unrecorded) < UNRECORDED_MAX or self._journal.failure is not None:
            return None
        return self._record([], now_ms)

    def _drop_removed(self, start: int) -> None:
        """Messages that retention removed are settled. Under the mutex."""
        if start > self._state.base:
            self._note([BumpAckedUntil(start)])

    def _fold_in_steps(self) -> None:
        """Only the copy of the state is made under the mutex, and only the delta is replaced
        between two commits: see `journal`."""
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
        """All at once. Under the mutex."""
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
        """After a failure: go on with new files, or raise."""
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

    # Telling.

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
        _check_count("lease_ms", lease_ms, minimum=1, maximum=TIME_MS_MAX)
        return lease_ms


def _checked_messages(count: int) -> int:
    _check_count("max_messages", count, minimum=1, maximum=MESSAGES_MAX)
    return count


def _check_count(what: str, value: object, *, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or not minimum <= value <= maximum:
        raise InputError(f"{what} = {str(value)[:30]}: allowed are {minimum} to {maximum}")


def _sooner(one: int | None, other: int | None) -> int | None:
    return min((delay for delay in (one, other) if delay is not None), default=None)
