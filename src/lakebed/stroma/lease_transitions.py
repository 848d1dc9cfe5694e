"""Decides which messages a lease gets: the available ones with the lowest offsets. No I/O.

`choose` takes messages that are known to be available. If these are too few, `unseen_span` returns
a range of messages that were not examined yet; the caller reads from the log which of them have a
key, are scheduled or have nothing to deliver (`source.Fact`), and `admit` adds them to the state.
Messages with nothing to deliver are settled, and those scheduled for later must wait. Both are
recorded, so that these messages need not be examined again.

A group with `per_key_order` gives a lease the first message of each key, and if these are too few,
the `following` ones of the same keys. No other lease gets a message of a key while one of the key's
messages is leased. After a restart, the keys of leased messages are not known: they are read
(`unknown_leases`) before anything else is leased.

The cost grows with the number of runs of messages with the same status, not of messages; only with
`per_key_order` is each message visited.
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

LOOK_MIN = 256  # messages examined at a time
LOOK_MAX = 65_536


class LeasedRange(NamedTuple):
    """Messages `[start, end)` of a lease, which have the same delivery count."""

    start: int
    end: int
    delivery_count: int  # including this lease, once it is granted


class Grant(NamedTuple):
    """A lease: its messages, its epoch and its deadline. It may have no messages."""

    leased: tuple[LeasedRange, ...] = ()
    epoch: int = 0
    deadline_ms: int = 0  # since 1970

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The messages as offset ranges, in the form that `ack`, `nack` and `extend` accept."""
        return [(start, end) for start, end, _ in self.leased]

    @property
    def message_count(self) -> int:
        return sum(end - start for start, end, _ in self.leased)


class ChosenRanges(NamedTuple):
    """The messages chosen for a lease. The caller must lease them, or pass them to `put_back`."""

    ranges: list[LeasedRange]  # their delivery counts do not include the lease
    is_exhausted: bool

    @property
    def message_count(self) -> int:
        return sum(end - start for start, end, _ in self.ranges)


def choose(state: GroupState, count: int, *, is_exhausted: bool = False) -> ChosenRanges:
    """Chooses up to `count` available messages with the lowest offsets.

    Chooses fewer if `in_flight_max` would be exceeded. With `is_exhausted`, chooses messages that
    have been leased at least `delivery_count_max` times instead; otherwise such messages are not
    chosen.
    """
    heap = state.exhausted if is_exhausted else state.ready
    count = min(count, state.config.in_flight_max - state.in_flight)
    chosen: list[LeasedRange] = []
    position = state.base  # two entries may cover the same messages
    known_end = state.end if state.keys is None else state.keys.end
    unknown_keys: list[tuple[int, int]] = []  # messages whose keys are not known
    while count > 0 and heap:
        low, end = heappop(heap)
        if end > known_end:
            unknown_keys.append((max(low, known_end), end))
            end = known_end
        for start, run_end, status in state.runs.between(max(low, position), end):
            if status.kind is not StatusKind.AVAILABLE:
                continue
            if state.is_exhausted(status.deliveries) != is_exhausted:
                heappush(state.ready if is_exhausted else state.exhausted, (start, run_end))
                continue
            for first, last in _free(state, start, run_end):
                last = min(last, first + count)
                chosen.append(LeasedRange(first, last, status.deliveries))
                count -= last - first
                if not count:
                    heappush(heap, (last, end))  # an empty range does no harm
                    break
            if not count:
                break
        position = max(position, end)
    for entry in unknown_keys:
        heappush(heap, entry)
    return ChosenRanges(chosen, is_exhausted)


def put_back(state: GroupState, chosen: ChosenRanges) -> None:
    """Makes chosen messages available again, because they were not leased."""
    heap = state.exhausted if chosen.is_exhausted else state.ready
    for start, end, _ in chosen.ranges:
        heappush(heap, (start, end))


def narrowed(
    state: GroupState, chosen: ChosenRanges, ranges: Sequence[tuple[int, int]]
) -> ChosenRanges:
    """Keeps the chosen messages that lie in `ranges`, and puts the others back.

    `ranges` must be in ascending order.
    """
    kept: list[LeasedRange] = []
    others: list[LeasedRange] = []
    index = 0
    for start, end, deliveries in chosen.ranges:
        while start < end:
            while index < len(ranges) and ranges[index][1] <= start:
                index += 1
            low, high = ranges[index] if index < len(ranges) else (end, end)
            stop = min(low if start < low else high, end)
            (others if start < low else kept).append(LeasedRange(start, stop, deliveries))
            start = stop
    put_back(state, chosen._replace(ranges=others))
    return chosen._replace(ranges=kept)


def following(
    state: GroupState,
    chosen: ChosenRanges,
    count: int,
    *,
    within: Sequence[tuple[int, int]] | None = None,
) -> list[LeasedRange]:
    """Returns further messages of the chosen messages' keys, if fewer than `count` were chosen.

    Messages with the lowest offsets are taken first. Of each key, messages are taken in order, up
    to the first one that cannot be leased, or that lies outside of `within`. The ranges of `within`
    must be in ascending order.
    """
    missing = min(count, state.config.in_flight_max - state.in_flight) - chosen.message_count
    if state.keys is None or chosen.is_exhausted or missing <= 0:
        return []
    queues = []
    for start, end, _ in chosen.ranges:
        for offset in range(start, end):
            if queue := state.keys.following(offset, missing):
                queues.append(_leasable(state, queue, within))
    return _joined(islice(merge(*queues), missing))


def extended(chosen: ChosenRanges, more: Sequence[LeasedRange]) -> ChosenRanges:
    """Returns the chosen messages together with `more`, which comes from `following`."""
    return chosen._replace(ranges=_joined(merge(chosen.ranges, more))) if more else chosen


def unknown_leases(state: GroupState) -> list[tuple[int, int]]:
    """Returns ranges that cover all leased messages whose keys may not be known.

    Ranges that are close together are joined, and long ones are split.
    """
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
    """Adds the leased messages of a span, with their keys from `facts`, to the key order."""
    assert state.keys is not None
    for fact, status in _statuses(state, facts, *span):
        if status.kind is StatusKind.LEASED and fact.key is not None:
            state.keys.add(fact.offset, fact.key, must_queue=True, is_leased=True)


def unseen_span(
    state: GroupState, missing_count: int, *, high_watermark: int
) -> tuple[int, int] | None:
    """Returns the next messages to examine, as a range of offsets.

    Returns None if there are none, or if no more messages may be leased or are needed.
    `missing_count` is how many more messages the lease needs; the span may be longer or shorter.
    """
    if missing_count <= 0 or state.in_flight >= state.config.in_flight_max:
        return None
    count = min(max(missing_count, LOOK_MIN), LOOK_MAX)
    if state.keys is not None:
        return _span_of_keys(state, state.keys, count, high_watermark)
    while state.unseen:
        start, end = state.unseen[0]
        fresh = (run for run in state.runs.between(start, end) if run[2].kind is StatusKind.FRESH)
        run = next(fresh, None)
        if run is not None:
            if run[0] > start:  # so that the runs before it are not walked again
                heappop(state.unseen)
                heappush(state.unseen, (run[0], end))
            return run[0], min(run[1], run[0] + count)
        heappop(state.unseen)
    end = min(high_watermark, state.end + count)
    return (state.end, end) if end > state.end else None


def admit(
    state: GroupState, span: tuple[int, int], facts: Sequence[Fact], *, now_ms: int
) -> list[Event]:
    """Adds messages to the state, according to the log's facts about them.

    Returns the events that the caller must record and apply. `now_ms` is the wall clock time, for
    scheduled messages.
    """
    start, end = span
    if state.keys is not None and not _are_keys_known(state, state.keys, start):
        return []  # the group started over in the meantime
    if start <= state.end:  # the span still continues the state
        state.extend(end)
    parked = [] if state.keys is None else _add_keys(state, state.keys, span, facts)
    for low, high in _around(parked, start, end):
        state.paint_available(
            [run for run in state.runs.between(low, high) if run[2].kind is StatusKind.FRESH]
        )
    heappush(state.ready, (start, end))
    undeliverable = [fact for fact in facts if not fact.is_deliverable]
    ranges = [(fact.offset, fact.offset + fact.message_count) for fact in undeliverable]
    runs = state.runs.within(ranges)
    settled = [(low, high) for low, high, old in runs if old.kind is not StatusKind.SETTLED]
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
    """Returns a lease of the chosen messages, and its events.

    `now_ms` and the deadline of the lease are times of the group's clock. The caller must record
    and apply the events.
    """
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
    """Returns whether the range is a single message, whose lease `MarkInflight` can record."""
    return leased.end - leased.start == 1


def _leasable(
    state: GroupState, offsets: Sequence[int], within: Sequence[tuple[int, int]] | None
) -> Iterator[LeasedRange]:
    """Yields the messages at `offsets` one by one, up to the first that cannot be leased now.

    A message outside of `within` cannot be leased.
    """
    for start, end, status in state.runs.within((offset, offset + 1) for offset in offsets):
        if status.kind is not StatusKind.AVAILABLE or state.is_exhausted(status.deliveries):
            return
        if within is not None:
            index = bisect_right(within, start, key=lambda span: span[0]) - 1
            if index < 0 or within[index][1] <= start:
                return
        yield LeasedRange(start, end, status.deliveries)


def _joined(ranges: Iterable[LeasedRange]) -> list[LeasedRange]:
    """Joins adjacent ranges that have the same delivery count.

    `ranges` must be in ascending order.
    """
    joined: list[LeasedRange] = []
    for leased in ranges:
        if joined and joined[-1][1:] == (leased.start, leased.delivery_count):
            joined[-1] = joined[-1]._replace(end=leased.end)
        else:
            joined.append(leased)
    return joined


def _free(state: GroupState, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of a range whose messages need not wait for others of their key."""
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
    """Returns whether the first message of a key may be parked and must be scanned again."""
    return state.keys is not None and state.keys.parked_start(state.base) is not None


def has_unknown_dead(state: GroupState) -> bool:
    """Returns whether there may be exhausted messages whose keys have not been read yet.

    Exhausted messages were leased at least `delivery_count_max` times.
    """
    return state.keys is not None and bool(state.exhausted) and state.keys.end < state.end


def _span_of_keys(
    state: GroupState, keys: KeyOrder, count: int, high_watermark: int
) -> tuple[int, int] | None:
    """Returns the next messages whose keys must be read: parked ones first, then new ones."""
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


def _are_keys_known(state: GroupState, keys: KeyOrder, start: int) -> bool:
    """Returns whether the keys of all unsettled messages before `start` are known."""
    known_end = max(keys.end, state.base)
    if start > max(state.end, known_end):
        return False
    return not any(_is_open(run) for run in state.runs.between(known_end, start))


def _is_open(run: Run[MessageStatus]) -> bool:
    return run[2].kind is not StatusKind.SETTLED


def _add_keys(
    state: GroupState, keys: KeyOrder, span: tuple[int, int], facts: Sequence[Fact]
) -> list[int]:
    """Adds the keys of a span's messages to the key order; returns the parked offsets."""
    start, end = span
    keyed = [fact for fact in facts if fact.is_deliverable and fact.key is not None]
    parked_keys = keys.take_parked(start, end)
    parked = []
    for fact, status in _statuses(state, keyed, start, end):
        if status.kind is not StatusKind.SETTLED and fact.key is not None:
            must_queue, is_leased = (
                status.kind is not StatusKind.FRESH,
                status.kind is StatusKind.LEASED,
            )
            if not keys.add(fact.offset, fact.key, must_queue=must_queue, is_leased=is_leased):
                parked.append(fact.offset)
    keys.finish_scan(end, parked_keys)
    return parked


def _around(offsets: Sequence[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of `[start, end)` that lie between the ascending `offsets`."""
    for offset in offsets:
        if start < offset:
            yield start, offset
        start = offset + 1
    if start < end:
        yield start, end


def _statuses(
    state: GroupState, facts: Sequence[Fact], start: int, end: int
) -> Iterator[tuple[Fact, MessageStatus]]:
    """Yields the log's `facts` about messages in `[start, end)`, each with its message's status.

    Skips messages that the state no longer tracks.
    """
    runs = state.runs.between(start, end)
    run = next(runs, None)
    for fact in facts:
        while run is not None and run[1] <= fact.offset:
            run = next(runs, None)
        if run is not None and run[0] <= fact.offset:
            yield fact, run[2]
