"""Which messages a lease is given: the lowest that can be had, and no more than are wanted.

Deciding takes three turns. `choose` takes what is known to be available; if that is too little and
there are messages nobody looked at, `unseen_span` names some, whoever has the log asks it what is
special about them, and `admit` takes note of the answer. Messages with nothing to deliver are
settled, those scheduled for later wait, and both is recorded, so that it need not be asked again.

A group that keeps the order of keys gives a lease the first message of each key it can have, and if
these are too few, the `following` ones of the same keys. Then no one else is given a message of
these keys, until none of them is leased any more. Of leases that were made before a restart the
keys are not known: they are asked for (`unknown_leases`) before anything else is leased.

The cost is that of the runs that were walked, not of the messages in them; only a group that keeps
the order of keys looks at each message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush, merge
from itertools import islice
from typing import NamedTuple

from lakebed.stroma import epochs
from lakebed.stroma.events import Acks, Event, Leases
from lakebed.stroma.format import Delay, LeaseRange, MarkInflight, ReserveEpochs
from lakebed.stroma.key_order import KeyOrder
from lakebed.stroma.message_status import MessageStatus, StatusKind
from lakebed.stroma.ranges import merged
from lakebed.stroma.runs import Run
from lakebed.stroma.source import Fact
from lakebed.stroma.state import GroupState

LOOK_MIN = 256  # messages that are looked at in one turn
LOOK_MAX = 65_536


class LeasedRange(NamedTuple):
    """Messages `[start, end)` of a lease."""

    start: int
    end: int
    delivery_count: int  # with this time


class Grant(NamedTuple):
    """A lease: which messages, under which epoch, until when. It may be of none."""

    leased: tuple[LeasedRange, ...] = ()
    epoch: int = 0
    deadline_ms: int = 0  # since 1970

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """As the other calls take them."""
        return [(start, end) for start, end, _ in self.leased]

    @property
    def message_count(self) -> int:
        return sum(end - start for start, end, _ in self.leased)


class ChosenRanges(NamedTuple):
    """What a lease will have; it must be leased, or put back."""

    ranges: list[LeasedRange]  # with the delivery counts they have yet
    is_exhausted: bool

    @property
    def message_count(self) -> int:
        return sum(end - start for start, end, _ in self.ranges)


def choose(state: GroupState, wanted: int, *, is_exhausted: bool = False) -> ChosenRanges:
    """Up to that many of the lowest messages that can be leased, or were leased too often."""
    heap = state.exhausted if is_exhausted else state.ready
    wanted = min(wanted, state.config.in_flight_max - state.in_flight)
    chosen: list[LeasedRange] = []
    position = state.base  # two entries may cover the same messages
    known_end = state.end if state.keys is None else state.keys.end
    unknown: list[tuple[int, int]] = []  # of their keys
    while wanted > 0 and heap:
        low, end = heappop(heap)
        if end > known_end:
            unknown.append((max(low, known_end), end))
            end = known_end
        for start, behind, status in state.runs.between(max(low, position), end):
            if status.kind is not StatusKind.AVAILABLE:
                continue
            if state.is_exhausted(status.deliveries) != is_exhausted:
                heappush(state.ready if is_exhausted else state.exhausted, (start, behind))
                continue
            for first, last in _free(state, start, behind):
                last = min(last, first + wanted)
                chosen.append(LeasedRange(first, last, status.deliveries))
                wanted -= last - first
                if not wanted:
                    heappush(heap, (last, end))  # may be empty, which does no harm
                    break
            if not wanted:
                break
        position = max(position, end)
    for entry in unknown:
        heappush(heap, entry)
    return ChosenRanges(chosen, is_exhausted)


def put_back(state: GroupState, chosen: ChosenRanges) -> None:
    """The lease did not come about."""
    heap = state.exhausted if chosen.is_exhausted else state.ready
    for start, end, _ in chosen.ranges:
        heappush(heap, (start, end))


def narrowed(
    state: GroupState, chosen: ChosenRanges, ranges: Sequence[tuple[int, int]]
) -> ChosenRanges:
    """What of it is in those ranges, which ascend; the rest is put back."""
    kept: list[LeasedRange] = []
    rest: list[LeasedRange] = []
    index = 0
    for start, end, deliveries in chosen.ranges:
        while start < end:
            while index < len(ranges) and ranges[index][1] <= start:
                index += 1
            low, high = ranges[index] if index < len(ranges) else (end, end)
            stop = min(low if start < low else high, end)
            (rest if start < low else kept).append(LeasedRange(start, stop, deliveries))
            start = stop
    put_back(state, chosen._replace(ranges=rest))
    return chosen._replace(ranges=kept)


def following(
    state: GroupState,
    chosen: ChosenRanges,
    wanted: int,
    *,
    within: Sequence[tuple[int, int]] | None = None,
) -> list[LeasedRange]:
    """What a lease of those has besides, if they are fewer than wanted: the lowest of the messages
    that come next in their keys.

    Of a key it has none after the first that cannot be leased, or is not `within` those ranges,
    which ascend.
    """
    missing = min(wanted, state.config.in_flight_max - state.in_flight) - chosen.message_count
    if state.keys is None or chosen.is_exhausted or missing <= 0:
        return []
    queues = []
    for start, end, _ in chosen.ranges:
        for offset in range(start, end):
            if queue := state.keys.following(offset, missing):
                queues.append(_leasable(state, queue, within))
    return _joined(islice(merge(*queues), missing))


def extended(chosen: ChosenRanges, more: Sequence[LeasedRange]) -> ChosenRanges:
    """With those, which are `following`."""
    return chosen._replace(ranges=_joined(merge(chosen.ranges, more))) if more else chosen


def unknown_leases(state: GroupState) -> list[tuple[int, int]]:
    """Leased messages whose keys may not be known, and some between them, in parts."""
    if state.keys is None or not state.in_flight:
        return []
    spans: list[tuple[int, int]] = []
    for start, end, status in state.runs.within(merged(list(state.timers.ranges()))):
        if status.kind is not StatusKind.LEASED:
            continue
        if spans and start - spans[-1][1] <= LOOK_MIN:
            start, _ = spans.pop()
        while end - start > LOOK_MAX:
            spans.append((start, start + LOOK_MAX))
            start += LOOK_MAX
        spans.append((start, end))
    return spans


def admit_leases(state: GroupState, span: tuple[int, int], facts: Sequence[Fact]) -> None:
    """Take note of the keys of messages that are leased."""
    assert state.keys is not None
    for fact, status in _statuses(state, facts, *span):
        if status.kind is StatusKind.LEASED and fact.key is not None:
            state.keys.add(fact.offset, fact.key, must_queue=True, is_leased=True)


def unseen_span(state: GroupState, wanted: int, *, high_watermark: int) -> tuple[int, int] | None:
    """Messages that nobody looked at, if more are wanted."""
    if wanted <= 0 or state.in_flight >= state.config.in_flight_max:
        return None
    count = min(max(wanted, LOOK_MIN), LOOK_MAX)
    if state.keys is not None:
        return _span_of_keys(state, state.keys, count, high_watermark)
    while state.unseen:
        start, end = state.unseen[0]
        fresh = (r for r in state.runs.between(start, end) if r[2].kind is StatusKind.FRESH)
        run = next(fresh, None)
        if run is not None:
            if run[0] > start:  # do not walk there again
                heappop(state.unseen)
                heappush(state.unseen, (run[0], end))
            return run[0], min(run[1], run[0] + count)
        heappop(state.unseen)
    end = min(high_watermark, state.end + count)
    return (state.end, end) if end > state.end else None


def admit(
    state: GroupState, span: tuple[int, int], facts: Sequence[Fact], *, now_ms: int
) -> list[Event]:
    """Take note of what the log says of those messages; what is to be recorded, and applied.

    `now_ms` is the wall clock's, for schedules.
    """
    start, end = span
    if state.keys is not None and not _goes_on(state, state.keys, start):
        return []  # the group started over meanwhile
    if start <= state.end:  # nobody was faster
        state.extend(end)
    parked = [] if state.keys is None else _look_at_keys(state, state.keys, span, facts)
    for low, high in _around(parked, start, end):
        state.paint_available(
            [run for run in state.runs.between(low, high) if run[2].kind is StatusKind.FRESH]
        )
    heappush(state.ready, (start, end))
    gone = [fact for fact in facts if not fact.is_deliverable]
    nothing = [(fact.offset, fact.offset + fact.message_count) for fact in gone]
    unsettled = state.runs.within(nothing)
    settled = [(low, high) for low, high, old in unsettled if old.kind is not StatusKind.SETTLED]
    events: list[Event] = []
    for fact, status in _statuses(state, facts, start, end):
        if not fact.is_deliverable:
            continue
        if fact.not_before_ms > now_ms and status == _NEVER_LEASED:
            events.append(Delay(fact.offset, fact.not_before_ms))
    if settled:
        events.insert(0, Acks(merged(settled)))
    return events


def lease(
    state: GroupState, chosen: ChosenRanges, *, lease_ms: int, now_ms: int
) -> tuple[Grant, list[Event]]:
    """The lease of what was chosen, under the next epoch; what is to be recorded, and applied."""
    epoch = epochs.next_epoch(state.epoch)
    events: list[Event] = []
    if epochs.is_later(epoch, state.epoch_reserved):
        events.append(ReserveEpochs(epochs.leap(state.epoch)))
    deadline_ms = now_ms + lease_ms
    leased = tuple(LeasedRange(start, end, count + 1) for start, end, count in chosen.ranges)
    if len(leased) == 1 and _is_plain(leased[0]) and lease_ms == state.config.lease_ms:
        events.append(MarkInflight(leased[0].start, deadline_ms, epoch))
    else:
        events.append(
            Leases(
                [LeaseRange(s, e, deadline_ms, epoch, count, lease_ms, 0) for s, e, count in leased]
            )
        )
    return Grant(leased, epoch, deadline_ms), events


_NEVER_LEASED = MessageStatus(StatusKind.AVAILABLE)


def _is_plain(leased: LeasedRange) -> bool:
    """One message: the event of one is enough."""
    return leased.end - leased.start == 1


def _leasable(
    state: GroupState, offsets: Sequence[int], within: Sequence[tuple[int, int]] | None
) -> Iterator[LeasedRange]:
    """Messages one by one, up to the first that cannot be leased now."""
    for start, end, status in state.runs.within((offset, offset + 1) for offset in offsets):
        if status.kind is not StatusKind.AVAILABLE or state.is_exhausted(status.deliveries):
            return
        if within is not None:
            index = bisect_right(within, start, key=lambda span: span[0]) - 1
            if index < 0 or within[index][1] <= start:
                return
        yield LeasedRange(start, end, status.deliveries)


def _joined(ranges: Iterable[LeasedRange]) -> list[LeasedRange]:
    """With as few ranges as can be; they ascend."""
    joined: list[LeasedRange] = []
    for one in ranges:
        if joined and joined[-1][1:] == (one.start, one.delivery_count):
            joined[-1] = joined[-1]._replace(end=one.end)
        else:
            joined.append(one)
    return joined


def _free(state: GroupState, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts whose messages wait for no other of their key."""
    if state.keys is None:
        yield start, end
        return
    first = start
    for offset in range(start, end):
        if not state.keys.is_free(offset):
            if first < offset:
                yield first, offset
            first = offset + 1
    if first < end:
        yield first, end


def has_parked(state: GroupState) -> bool:
    """Whether a key has messages, and none of them can be leased before they are looked at."""
    return state.keys is not None and state.keys.parked_start(state.base) is not None


def has_unknown_dead(state: GroupState) -> bool:
    """Whether messages that were leased too often wait for their keys to be known."""
    return state.keys is not None and bool(state.exhausted) and state.keys.end < state.end


def _span_of_keys(
    state: GroupState, keys: KeyOrder, count: int, high_watermark: int
) -> tuple[int, int] | None:
    """Messages whose keys are not known: those that were parked first, then the next ones."""
    start = keys.parked_start(state.base)
    if start is not None:
        return start, min(start + count, max(keys.end, start + 1))
    count = min(count, state.config.key_window_max - len(keys))
    start = max(keys.end, state.base)
    if start < state.end:
        unsettled = (run[0] for run in state.runs.between(start, state.end) if _is_open(run))
        start = next(unsettled, state.end)
    end = min(high_watermark, start + count)
    return (start, end) if end > start else None


def _goes_on(state: GroupState, keys: KeyOrder, start: int) -> bool:
    """Whether everything unsettled before `start` was looked at."""
    known_end = max(keys.end, state.base)
    if start > max(state.end, known_end):
        return False
    return not any(_is_open(run) for run in state.runs.between(known_end, start))


def _is_open(run: Run[MessageStatus]) -> bool:
    return run[2].kind is not StatusKind.SETTLED


def _look_at_keys(
    state: GroupState, keys: KeyOrder, span: tuple[int, int], facts: Sequence[Fact]
) -> list[int]:
    """Take note of the keys of messages; those that are parked."""
    start, end = span
    keyed = [fact for fact in facts if fact.is_deliverable and fact.key is not None]
    looked = keys.take_parked(start, end)
    parked = []
    for fact, status in _statuses(state, keyed, start, end):
        if status.kind is not StatusKind.SETTLED and fact.key is not None:
            must_queue, is_leased = (
                status.kind is not StatusKind.FRESH,
                status.kind is StatusKind.LEASED,
            )
            if not keys.add(fact.offset, fact.key, must_queue=must_queue, is_leased=is_leased):
                parked.append(fact.offset)
    keys.finish_scan(end, looked)
    return parked


def _around(offsets: Sequence[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    """`[start, end)` without those offsets, which ascend."""
    for offset in offsets:
        if start < offset:
            yield start, offset
        start = offset + 1
    if start < end:
        yield start, end


def _statuses(
    state: GroupState, facts: Sequence[Fact], start: int, end: int
) -> Iterator[tuple[Fact, MessageStatus]]:
    """Each fact with how its message stands now."""
    runs = state.runs.between(start, end)
    run = next(runs, None)
    for fact in facts:
        while run is not None and run[1] <= fact.offset:
            run = next(runs, None)
        if run is not None and run[0] <= fact.offset:
            yield fact, run[2]
