"""The parts of a group's state, and what changes cost: runs, never messages."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.stroma import epochs, lease_transitions, settlement_transitions
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.events import Event
from lakebed.stroma.format import U32_MAX
from lakebed.stroma.key_order import KeyOrder
from lakebed.stroma.ranges import merged
from lakebed.stroma.runs import BUCKET_RUNS
from lakebed.stroma.state import GroupState
from lakebed.stroma.timers import Timers

NOW_MS = 1_700_000_000_000
MANY = 1_000_000
CONFIG = GroupConfig(in_flight_max=10 * MANY)


def applied(state: GroupState, events: list[Event], now_ms: int = NOW_MS) -> None:
    for event in events:
        state.apply(event, now_ms)


def leased(state: GroupState, wanted: int, *, now_ms: int = NOW_MS) -> int:
    """The epoch."""
    span = lease_transitions.unseen_span(state, wanted, high_watermark=1 << 40)
    while span is not None and span[1] - span[0] < wanted:  # a turn looks at so many
        lease_transitions.admit(state, span, [], now_ms=now_ms)
        wanted -= span[1] - span[0]
        span = lease_transitions.unseen_span(state, wanted, high_watermark=1 << 40)
    if span is not None:
        lease_transitions.admit(state, span, [], now_ms=now_ms)
    chosen = lease_transitions.choose(state, MANY * 4)
    grant, events = lease_transitions.lease(state, chosen, lease_ms=30_000, now_ms=now_ms)
    applied(state, events, now_ms)
    return grant.epoch


def test_a_million_messages_are_a_few_runs() -> None:
    state = GroupState(CONFIG)
    epoch = leased(state, MANY)
    assert state.in_flight >= MANY
    assert len(list(state.runs)) <= 2
    applied(state, settlement_transitions.ack(state, [(0, MANY)], epoch=epoch))
    assert state.base == MANY


def test_a_stale_lease_names_every_range_that_the_caller_does_not_hold() -> None:
    state = GroupState(CONFIG)
    epoch = leased(state, 20)
    applied(state, settlement_transitions.ack(state, [(0, 10)], epoch=epoch))
    ranges = [
        (0, 1),
        (3, 4),
        (9, 12),
        (state.end - 1, state.end + 2),
        (state.end + 5, state.end + 9),
    ]
    with pytest.raises(StaleLease) as refused:
        settlement_transitions.nack(state, ranges, epoch=epoch, delay_ms=0, now_ms=NOW_MS)
    outside = [(0, 1), (3, 4), (9, 10), (state.end, state.end + 2), (state.end + 5, state.end + 9)]
    assert list(refused.value.ranges) == outside


def test_acks_with_a_gap_at_every_second_message_are_kept_in_small_buckets() -> None:
    state = GroupState(CONFIG)
    epoch = leased(state, 20_000)
    numbers = list(range(1, 20_000, 2))
    Random(1).shuffle(numbers)
    for offset in numbers:
        applied(state, settlement_transitions.ack(state, [(offset, offset + 1)], epoch=epoch))
    assert state.settled_ahead == len(numbers)
    sizes = [len(list(bucket)) for bucket in state.runs.buckets()]
    assert sum(sizes) >= 2 * len(numbers)
    assert max(sizes) <= 2 * BUCKET_RUNS


def test_expiry_takes_only_what_is_due() -> None:
    state = GroupState(CONFIG)
    for number in range(2000):
        leased(state, 10, now_ms=NOW_MS + 10 * number)
    in_flight, timers = state.in_flight, len(state.timers)
    assert not state.expire(NOW_MS + 29_999)
    assert len(state.timers) == timers
    assert state.expire(NOW_MS + 30_010)
    assert len(state.timers) == timers - 2
    assert 0 < in_flight - state.in_flight < in_flight / 5


def test_timers_that_came_to_nothing_do_not_pile_up() -> None:
    state = GroupState(CONFIG)
    epoch = leased(state, 10)
    for number in range(12_000):
        events = settlement_transitions.extend(
            state, [(0, 10)], epoch=epoch, lease_ms=40_000, now_ms=NOW_MS + number
        )
        applied(state, events, NOW_MS + number)
    assert len(state.timers) < 11_000


def test_epochs_go_round_and_leave_out_zero() -> None:
    assert epochs.next_epoch(U32_MAX) == 1
    assert epochs.is_later(1, U32_MAX)
    assert not epochs.is_later(U32_MAX, 1)
    assert not epochs.is_later(5, 5)
    assert epochs.later(3, U32_MAX - 3) == 3
    assert epochs.leap(U32_MAX) == epochs.RESERVED_COUNT
    assert epochs.leap(U32_MAX - 10) == epochs.RESERVED_COUNT - 10


def test_leases_go_on_over_the_end_of_the_epochs() -> None:
    state = GroupState(CONFIG)
    state.epoch = state.epoch_reserved = U32_MAX - 3
    seen = [leased(state, 1) for _ in range(8)]
    assert len(set(seen)) == 8
    assert seen[:3] == [U32_MAX - 2, U32_MAX - 1, U32_MAX]
    assert seen[3:] == [1, 2, 3, 4, 5]
    assert epochs.is_later(state.epoch_reserved, state.epoch)


def test_timers_give_what_is_due_and_forget_it() -> None:
    timers = Timers()
    for time_ms, start in ((30, 1), (10, 2), (30, 3), (20, 4)):
        timers.add(time_ms, start, start + 1)
    assert (timers.next_ms(), len(timers)) == (10, 4)
    assert timers.take_due(20) == [(2, 3), (4, 5)]
    assert timers.take_due(29) == []
    assert timers.take_due(30) == [(1, 2), (3, 4)]
    assert (timers.next_ms(), len(timers)) == (None, 0)


def test_the_order_of_keys_frees_the_next_when_the_first_is_settled() -> None:
    order = KeyOrder()
    for offset, key in ((1, 7), (2, 8), (5, 7), (9, 7)):
        order.add(offset, key)
    assert [order.is_free(offset) for offset in (1, 2, 5, 9, 3)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert order.settle(5, 6) == []
    assert order.settle(1, 2) == [9]
    assert order.settle(0, 1 << 60) == []
    assert len(order) == 0


def test_a_key_is_free_only_when_none_of_its_messages_is_leased() -> None:
    order = KeyOrder()
    for offset in (1, 5, 9, 12):
        order.add(offset, 7)
    order.finish_scan(10, [])
    assert order.following(1, 9) == [5, 9], "what was not looked at in turn does not follow"
    order.hold(0, 10)
    assert order.release(1, 2) == []
    assert not order.is_free(1)
    assert order.settle(5, 6) == []
    assert order.release(9, 10) == [1]
    assert order.is_free(1)


def test_messages_parked_before_those_of_the_queue_are_looked_at_in_time() -> None:
    order = KeyOrder(queue_max=1)
    for offset in (8, 9):  # leased before a restart
        order.add(offset, 7, must_queue=True, is_leased=True)
    assert [order.add(offset, 7) for offset in (3, 4)] == [True, False]
    order.finish_scan(10, [])
    assert order.parked_start(0) is None
    assert order.settle(3, 4) == []
    assert order.parked_start(0) == 4
    assert order.release(8, 10) == [8]
    assert not order.is_free(8)
    assert order.take_parked(4, 5) == [7]
    assert order.add(4, 7)
    assert order.is_free(4)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(5, 6), (1, 2)], [(1, 2), (5, 6)]),
        ([(1, 3), (3, 5)], [(1, 5)]),
        ([(1, 9), (2, 3), (8, 10)], [(1, 10)]),
        ([(1, 2), (1, 2)], [(1, 2)]),
        ([(5, 5)], []),
        ([(1, 2), (2, 2), (3, 3)], [(1, 2)]),
    ],
)
def test_ranges_are_merged(ranges: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert merged(ranges) == expected
