"""What a group does for its consumers: leases, acks, fencing, expiry, delays, dead letters."""

from __future__ import annotations

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Closed, InputError, TooLarge
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.ranges import RANGE_COUNT_MAX
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import Opened, counts, lease_all, offsets, singles

LIMITED = GroupConfig(lease_ms=1000, delivery_count_max=2)
ORDERED = GroupConfig(lease_ms=1000, per_key_order=True)


@pytest.fixture
def world() -> World:
    return World(0)


def pass_ms(world: World, duration_ms: int) -> None:
    world.runner.advance(duration_ms * NS_PER_MS)


def test_messages_are_leased_once_in_order(world: World) -> None:
    group = Opened(world, FakeSource(10)).group
    assert offsets(group.lease(4)) == [0, 1, 2, 3]
    assert offsets(group.lease(100)) == [4, 5, 6, 7, 8, 9]
    assert offsets(group.lease(1)) == []


def test_a_lease_says_its_epoch_deadline_and_delivery_counts(world: World) -> None:
    group = Opened(world, FakeSource(4)).group
    first, second = group.lease(2), group.lease(2, lease_ms=5000)
    assert second.epoch == first.epoch + 1
    assert second.deadline_ms - first.deadline_ms == 4000
    assert counts(first) == {0: 1, 1: 1}
    assert (first.ranges, first.message_count) == ([(0, 2)], 2)


def test_acked_messages_are_never_leased_again_and_acked_until_follows(world: World) -> None:
    group = Opened(world, FakeSource(6)).group
    grant = group.lease(6)
    group.ack([(3, 5)], epoch=grant.epoch)
    assert (group.describe().acked_until, group.lag()) == (0, 4)
    group.ack([(0, 3)], epoch=grant.epoch)
    assert (group.describe().acked_until, group.lag()) == (5, 1)
    pass_ms(world, 2000)
    assert lease_all(group) == [5]


def test_unsettled_messages_are_ranges_and_there_is_none_if_all_are_settled(world: World) -> None:
    group = Opened(world, FakeSource(6)).group
    assert group.unsettled() == [(0, 6)]
    grant = group.lease(6)
    group.ack([(2, 4)], epoch=grant.epoch)
    assert group.unsettled() == [(0, 2), (4, 6)]
    group.ack([(0, 2), (4, 6)], epoch=grant.epoch)
    assert group.unsettled() == []


def test_an_expired_lease_is_given_to_the_next_with_a_higher_count(world: World) -> None:
    group = Opened(world, FakeSource(3)).group
    first = group.lease(3)
    pass_ms(world, 999)
    assert offsets(group.lease(3)) == []
    pass_ms(world, 1)
    second = group.lease(3)
    assert counts(second) == {0: 2, 1: 2, 2: 2}
    assert second.epoch > first.epoch


@pytest.mark.parametrize("call", ["ack", "nack", "extend", "dead_lettered"])
def test_a_stale_holder_is_refused_and_nothing_changes(world: World, call: str) -> None:
    group = Opened(world, FakeSource(4)).group
    stale = group.lease(2)
    held = group.lease(2)
    pass_ms(world, 1000)
    current = group.lease(2)
    before = group.describe()
    with pytest.raises(StaleLease, match="messages 0 to 1 are not leased under epoch 1") as caught:
        getattr(group, call)([(0, 2)], epoch=stale.epoch)
    assert caught.value.ranges == ((0, 2),)
    with pytest.raises(StaleLease):
        getattr(group, call)([(0, 3)], epoch=current.epoch)
    assert group.describe() == before
    assert held.epoch not in (stale.epoch, current.epoch)
    group.ack([(0, 2)], epoch=current.epoch)


def test_a_holder_whose_lease_ended_is_refused_before_anybody_else_has_it(world: World) -> None:
    group = Opened(world, FakeSource(1)).group
    grant = group.lease(1)
    pass_ms(world, 1000)
    with pytest.raises(StaleLease, match="message 0 is not leased"):
        group.ack(grant.ranges, epoch=grant.epoch)


def test_to_ack_what_is_settled_is_no_mistake_but_to_nack_it_is(world: World) -> None:
    group = Opened(world, FakeSource(4)).group
    grant = group.lease(4)
    group.ack([(0, 1), (2, 3)], epoch=grant.epoch)
    group.ack([(0, 3)], epoch=grant.epoch)
    assert group.describe().acked_until == 3
    for call in (group.nack, group.extend):
        with pytest.raises(StaleLease):
            call([(2, 4)], epoch=grant.epoch)


def test_nacked_messages_come_again_at_once_or_after_their_delay(world: World) -> None:
    group = Opened(world, FakeSource(4)).group
    grant = group.lease(4)
    group.nack([(1, 2)], epoch=grant.epoch)
    group.nack([(0, 1)], epoch=grant.epoch, delay_ms=300)
    group.nack([(2, 4)], epoch=grant.epoch, delay_ms=500)
    assert counts(group.lease(9, lease_ms=60_000)) == {1: 2}
    assert group.describe().waiting == 3
    pass_ms(world, 299)
    assert lease_all(group) == []
    pass_ms(world, 1)
    assert lease_all(group) == [0]
    pass_ms(world, 200)
    assert lease_all(group) == [2, 3]


def test_an_extended_lease_lasts_longer_and_keeps_its_epoch_and_count(world: World) -> None:
    group = Opened(world, FakeSource(3)).group
    grant = group.lease(3)
    pass_ms(world, 800)
    deadline_ms = group.extend([(0, 2)], epoch=grant.epoch)
    assert deadline_ms == grant.deadline_ms + 800
    group.extend([(2, 3)], epoch=grant.epoch, lease_ms=5000)
    pass_ms(world, 999)
    assert lease_all(group) == []
    pass_ms(world, 1)
    assert counts(group.lease(9)) == {0: 2, 1: 2}
    group.ack([(2, 3)], epoch=grant.epoch)


def test_the_deadline_that_an_extension_returns_is_the_recorded_one_after_a_slow_sync(
    world: World,
) -> None:
    group = Opened(world, FakeSource(1)).group
    grant = group.lease(1)
    world.disk.faults.slow_ns["fdatasync"] = 700 * NS_PER_MS
    deadline_ms = group.extend(grant.ranges, epoch=grant.epoch)
    assert [lease.deadline_ms for lease in group.leases(max_leases=9)] == [deadline_ms]


def test_a_lease_can_be_shortened(world: World) -> None:
    group = Opened(world, FakeSource(1)).group
    grant = group.lease(1, lease_ms=60_000)
    group.extend(grant.ranges, epoch=grant.epoch, lease_ms=10)
    pass_ms(world, 10)
    assert lease_all(group) == [0]


def test_no_more_than_the_maximum_is_in_flight(world: World) -> None:
    group = Opened(world, FakeSource(100), GroupConfig(in_flight_max=10)).group
    grant = group.lease(50)
    assert grant.message_count == 10
    assert offsets(group.lease(1)) == []
    group.ack([(0, 3)], epoch=grant.epoch)
    assert offsets(group.lease(50)) == [10, 11, 12]


def test_a_message_delivered_too_often_is_a_dead_letter(world: World) -> None:
    group = Opened(world, FakeSource(3), LIMITED).group
    for _ in range(2):
        grant = group.lease(2)
        assert offsets(grant) == [0, 1]
        group.nack([(0, 2)], epoch=grant.epoch)
    assert offsets(group.lease(9, lease_ms=60_000)) == [2]
    assert group.describe().exhausted == 2
    dead = group.lease_dead_letters(9)
    assert counts(dead) == {0: 3, 1: 3}
    assert group.lease_dead_letters(9).leased == ()
    group.dead_lettered([(0, 1)], epoch=dead.epoch)
    assert (group.describe().acked_until, group.describe().exhausted) == (1, 0)
    pass_ms(world, 1000)  # whoever had the other one is gone
    again = group.lease_dead_letters(9)
    assert offsets(again) == [1]
    group.dead_lettered(again.ranges, epoch=again.epoch)
    assert (group.describe().acked_until, group.lag()) == (2, 1)


def test_dead_letters_are_still_known_after_a_restart(world: World) -> None:
    opened = Opened(world, FakeSource(3), LIMITED)
    for number in range(2):
        grant = opened.group.lease(2)
        opened.group.nack([(0, 2)], epoch=grant.epoch)
        if number:
            opened.group.compact()
    for _ in range(2):
        opened.close()
        opened = Opened(world, opened.source, LIMITED)
    assert offsets(opened.group.lease(9)) == [2]
    assert offsets(opened.group.lease_dead_letters(9)) == [0, 1]


@pytest.mark.parametrize("recorded_apart", [True, False])
def test_more_scheduled_messages_than_the_journals_queue_holds_stop_no_lease(
    world: World, monkeypatch: pytest.MonkeyPatch, recorded_apart: bool
) -> None:
    monkeypatch.setattr("lakebed.stroma.journal.QUEUE_BYTES_MAX", 64 * KIB)
    if recorded_apart:
        monkeypatch.setattr("lakebed.stroma.group.UNRECORDED_MAX", 100)
    now_ms = world.clock.wall_ns() // NS_PER_MS
    source = FakeSource()
    source.append(5000, not_before_ms=now_ms + 500)
    source.append(1)
    opened = Opened(world, source)
    grant = opened.group.lease(1)
    assert offsets(grant) == [5000]
    opened.group.ack(grant.ranges, epoch=grant.epoch)
    opened.close()
    source.asked.clear()
    group = Opened(world, source).group
    assert group.describe().waiting == 5000
    assert source.asked == [], "what is scheduled is looked at once"
    pass_ms(world, 500)
    assert len(lease_all(group)) == 5000


def test_a_call_of_more_ranges_than_the_journals_queue_holds_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.stroma.journal.QUEUE_BYTES_MAX", 64 * KIB)
    opened = Opened(world, FakeSource(20_000))
    grant = opened.group.lease(20_000)
    every_other = singles(list(range(0, 20_000, 2)))
    opened.group.nack(every_other, epoch=grant.epoch)
    opened.group.ack(singles(list(range(1, 20_000, 2))), epoch=grant.epoch)
    grant = opened.group.lease(20_000)
    assert grant.ranges == every_other
    world.restart(Crash.POWER)
    group = Opened(world, opened.source).group
    assert group.lag() == 10_000
    group.ack(grant.ranges, epoch=grant.epoch)
    assert group.lag() == 0


def test_scheduled_messages_wait_for_their_time(world: World) -> None:
    now_ms = world.clock.wall_ns() // NS_PER_MS
    source = FakeSource()
    source.append(2)
    source.append(2, not_before_ms=now_ms + 500)
    source.append(1, not_before_ms=now_ms - 1)
    opened = Opened(world, source)
    grant = opened.group.lease(9)
    assert offsets(grant) == [0, 1, 4]
    opened.group.ack(grant.ranges, epoch=grant.epoch)
    opened.close()
    source.asked.clear()
    group = Opened(world, source).group
    assert (group.lag(), group.describe().waiting) == (2, 2)
    pass_ms(world, 499)
    assert lease_all(group) == []
    pass_ms(world, 1)
    assert lease_all(group) == [2, 3]
    assert source.asked == [], "what was recorded need not be asked again"


def test_what_cannot_be_delivered_is_settled_in_passing(world: World) -> None:
    source = FakeSource(1)
    source.append(5000, is_deliverable=False)
    source.append(1)
    source.append(3, is_deliverable=False)
    group = Opened(world, source).group
    grant = group.lease(9)
    assert offsets(grant) == [0, 5001]
    events = group.describe().delta_events
    group.ack(grant.ranges, epoch=grant.epoch)
    assert (group.describe().acked_until, group.lag()) == (5005, 0)
    assert group.describe().delta_events == events + 1, "what the log said is recorded once"


def test_messages_of_one_key_are_leased_one_after_the_other(world: World) -> None:
    source = FakeSource()
    for key in (1, 1, 2, None, 1, 2):
        source.append(key=key)
    group = Opened(world, source, ORDERED).group
    first = group.lease(3)
    assert offsets(first) == [0, 2, 3]
    group.ack([(2, 3)], epoch=first.epoch)
    assert offsets(group.lease(9)) == [5]
    group.nack([(0, 1)], epoch=first.epoch)
    again = group.lease(1)
    assert offsets(again) == [0]
    group.ack(again.ranges, epoch=again.epoch)
    second = group.lease(1)
    assert offsets(second) == [1]
    group.ack(second.ranges, epoch=second.epoch)
    assert offsets(group.lease(9)) == [4]


def test_a_lease_has_several_messages_of_a_key_and_nobody_else_has_any(world: World) -> None:
    source = FakeSource()
    source.append(5, key=1)
    group = Opened(world, source, ORDERED).group
    grant = group.lease(3)
    assert (offsets(grant), grant.leased) == ([0, 1, 2], ((0, 3, 1),))
    assert lease_all(group) == []
    group.ack([(0, 1)], epoch=grant.epoch)
    group.ack([(2, 3)], epoch=grant.epoch)
    assert lease_all(group) == []
    group.ack([(1, 2)], epoch=grant.epoch)
    assert offsets(group.lease(9)) == [3, 4]


def test_a_key_has_more_than_one_message_in_a_lease_only_if_other_keys_leave_room(
    world: World,
) -> None:
    source = FakeSource()
    source.append(100, key=1)
    for key in (2, 3, 2, 3):
        source.append(key=key)
    group = Opened(world, source, ORDERED).group
    grant = group.lease(3)
    assert offsets(grant) == [0, 100, 101]
    group.undo_lease(grant.ranges, epoch=grant.epoch)
    shown = [offset for one in group.available(6) for offset in range(one.start, one.end)]
    assert shown == [0, 100, 101, 1, 2, 3], "what matters most comes first"
    assert offsets(group.lease(6)) == [0, 1, 2, 3, 100, 101]


@pytest.mark.parametrize("how", ["nack", "undo", "delay", "expiry"])
def test_a_message_given_back_waits_for_the_later_ones_of_its_key_that_are_leased(
    world: World, how: str
) -> None:
    source = FakeSource()
    source.append(4, key=1)
    opened = Opened(world, source, ORDERED)
    group = opened.group
    grant = group.lease(3)
    group.extend([(1, 3)], epoch=grant.epoch, lease_ms=60_000)
    match how:
        case "nack":
            group.nack([(0, 1)], epoch=grant.epoch)
        case "undo":
            group.undo_lease([(0, 1)], epoch=grant.epoch)
        case "delay":
            group.nack([(0, 1)], epoch=grant.epoch, delay_ms=100)
            pass_ms(world, 100)
        case "expiry":
            pass_ms(world, 1000)
    assert lease_all(group) == []
    group.ack([(1, 2)], epoch=grant.epoch)
    waiting = world.runner.call("consumer", lambda: group.lease(9, wait_s=30))
    pass_ms(world, 10)
    assert not waiting.done
    group.ack([(2, 3)], epoch=grant.epoch)
    pass_ms(world, 10)
    assert counts(waiting.result()) == {0: 1 if how == "undo" else 2, 3: 1}


def test_later_messages_of_a_key_that_expire_make_way_for_the_first(world: World) -> None:
    source = FakeSource()
    source.append(3, key=1)
    group = Opened(world, source, ORDERED).group
    grant = group.lease(3)
    group.nack([(0, 1)], epoch=grant.epoch)
    waiting = world.runner.call("consumer", lambda: group.lease(9, wait_s=30))
    pass_ms(world, 999)
    assert not waiting.done
    pass_ms(world, 1)
    assert counts(waiting.result()) == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize("key_window_max", [8, 100_000])
@pytest.mark.parametrize("distance", [0, 5000])
@pytest.mark.parametrize("how", ["close", "compact", Crash.KILL, Crash.POWER])
def test_leases_of_several_messages_of_a_key_count_after_a_restart(
    world: World, how: str | Crash, distance: int, key_window_max: int
) -> None:
    source = FakeSource()
    source.append(1, key=1)
    source.append(distance)
    later = source.append(2, key=1)
    source.append(1, key=1)
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=key_window_max)
    opened = Opened(world, source, config)
    grant = opened.group.lease(distance + 3)
    known = [offset for offset in later if offset in offsets(grant)]
    assert known
    opened.group.undo_lease([(0, distance + 1)], epoch=grant.epoch)
    if how == "compact":
        opened.group.compact()
    if isinstance(how, Crash):
        world.restart(how)
    else:
        opened.close()
    source.asked.clear()
    group = Opened(world, source, config).group
    found = offsets(group.lease(1))
    assert found == ([1] if distance else []), "0 has a key of which messages are leased"
    assert sum(end - start for start, end in source.asked) < 1000, source.asked
    group.ack(singles(known), epoch=grant.epoch)
    assert offsets(group.lease(1)) == [0]


def test_messages_that_a_lease_may_not_have_hold_back_those_after_them_in_their_key(
    world: World,
) -> None:
    source = FakeSource()
    source.append(6, key=1)
    group = Opened(world, source, ORDERED).group
    assert offsets(group.lease(9, within=[(3, 6)])) == []
    grant = group.lease(9, within=[(0, 2), (3, 6)])
    assert offsets(grant) == [0, 1]
    group.nack([(0, 2)], epoch=grant.epoch)
    assert offsets(group.lease(9)) == [0, 1, 2, 3, 4, 5]


def test_a_message_that_waits_ends_what_a_lease_has_of_its_key(world: World) -> None:
    source = FakeSource()
    source.append(2, key=1)
    source.append(1, key=1, not_before_ms=world.clock.wall_ns() // NS_PER_MS + 5000)
    source.append(2, key=1)
    group = Opened(world, source, ORDERED).group
    grant = group.lease(9)
    assert offsets(grant) == [0, 1]
    group.ack(grant.ranges, epoch=grant.epoch)
    assert lease_all(group) == []
    pass_ms(world, 5000)
    assert offsets(group.lease(9)) == [2, 3, 4]


def test_a_message_leased_too_often_waits_for_those_before_it_and_holds_back_those_after_it(
    world: World,
) -> None:
    source = FakeSource()
    source.append(3, key=1)
    config = GroupConfig(lease_ms=1000, per_key_order=True, delivery_count_max=1)
    group = Opened(world, source, config).group
    grant = group.lease(2)
    group.nack([(1, 2)], epoch=grant.epoch)
    assert (lease_all(group), offsets(group.lease_dead_letters(9))) == ([], [])
    group.ack([(0, 1)], epoch=grant.epoch)
    assert lease_all(group) == []
    dead = group.lease_dead_letters(9)
    assert offsets(dead) == [1]
    assert lease_all(group) == []
    group.dead_lettered(dead.ranges, epoch=dead.epoch)
    assert lease_all(group) == [2]


def test_what_is_leased_of_a_key_counts_as_in_flight(world: World) -> None:
    source = FakeSource()
    source.append(9, key=1)
    config = GroupConfig(lease_ms=1000, per_key_order=True, in_flight_max=4)
    group = Opened(world, source, config).group
    assert offsets(group.lease(9)) == [0, 1, 2, 3]


def test_the_order_of_keys_holds_after_a_restart(world: World) -> None:
    source = FakeSource()
    for key in (1, 1, 2, 1):
        source.append(key=key)
    opened = Opened(world, source, ORDERED)
    grant = opened.group.lease(2)
    assert offsets(grant) == [0, 2]
    opened.group.ack([(2, 3)], epoch=grant.epoch)
    opened.close()
    group = Opened(world, source, ORDERED).group
    assert lease_all(group) == []
    group.ack([(0, 1)], epoch=grant.epoch)
    assert lease_all(group) == [1, 3]


def test_a_delayed_message_holds_back_those_of_its_key(world: World) -> None:
    source = FakeSource()
    source.append(2, key=1)
    group = Opened(world, source, ORDERED).group
    grant = group.lease(1)
    group.nack(grant.ranges, epoch=grant.epoch, delay_ms=400)
    assert lease_all(group) == []
    pass_ms(world, 400)
    assert lease_all(group) == [0, 1]


def test_only_so_many_messages_are_known_for_the_order_of_keys(world: World) -> None:
    source = FakeSource()
    for key in range(1000):
        source.append(1, key=key)
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=100)
    group = Opened(world, source, config).group
    grant = group.lease(1000)
    assert offsets(grant) == list(range(100))
    assert group.describe().looked_until == 100
    group.ack(grant.ranges, epoch=grant.epoch)
    assert offsets(group.lease(1000)) == list(range(100, 200))


def test_a_key_with_very_many_messages_does_not_starve_the_others(world: World) -> None:
    source = FakeSource()
    source.append(1000, key=1)
    source.append(1, key=2)
    source.append(1000, key=1)
    source.append(1, key=3)
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=100)
    opened = Opened(world, source, config)
    grant = opened.group.lease(3)
    assert offsets(grant) == [0, 1000, 2001]
    opened.group.ack(grant.ranges, epoch=grant.epoch)
    opened.close()
    group = Opened(world, source, config).group
    # Nor is its own order lost, or one of its messages.
    found = []
    while (grant := group.lease(9)).leased:
        found += offsets(grant)
        group.ack(grant.ranges, epoch=grant.epoch)
    assert found == [*range(1, 1000), *range(1001, 2001)]
    assert group.lag() == 0


def test_a_key_whose_messages_were_passed_over_goes_on_while_others_are_leased(
    world: World,
) -> None:
    source = FakeSource()
    source.append(50, key=1)
    for key in range(2, 500):
        source.append(1, key=key)
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=40)
    group = Opened(world, source, config).group
    found = []
    for _ in range(60):
        grant = group.lease(5)
        found += offsets(grant)
        group.ack(grant.ranges, epoch=grant.epoch)
    assert found[0::5][:50] == list(range(50)), "one of its messages in each lease"


def test_opening_a_group_that_keeps_the_order_of_keys_reads_no_message(world: World) -> None:
    source = FakeSource()
    source.append(1, key=1)
    for key in range(2, 5000):
        source.append(1, key=key)
    opened = Opened(world, source, ORDERED)
    grant = opened.group.lease(5000)
    opened.group.ack([(1, 4999)], epoch=grant.epoch)
    source.append(5000, key=1)
    opened.close()
    source.asked.clear()
    group = Opened(world, source, ORDERED).group
    assert source.asked == []
    group.ack([(0, 1)], epoch=grant.epoch)
    assert offsets(group.lease(1)) == [4999]
    assert sum(end - start for start, end in source.asked) < 1000, source.asked


def test_messages_leased_before_a_restart_hold_back_those_of_their_key(world: World) -> None:
    source = FakeSource()
    source.append(300, key=1)
    source.append(300, key=2)
    config = GroupConfig(lease_ms=1000, per_key_order=True, key_window_max=40)
    opened = Opened(world, source, config)
    grant = opened.group.lease(2)
    assert offsets(grant) == [0, 300]
    world.restart(Crash.KILL)
    group = Opened(world, source, config).group
    assert lease_all(group) == []
    group.ack([(300, 301)], epoch=grant.epoch)
    assert offsets(group.lease(1)) == [301]
    pass_ms(world, 1000)
    assert offsets(group.lease(4)) == [0, 1, 2, 301]


def test_reset_starts_over_and_refuses_those_who_held_something(world: World) -> None:
    group = Opened(world, FakeSource(5)).group
    grant = group.lease(5)
    group.ack([(0, 2)], epoch=grant.epoch)
    group.reset()
    assert (group.lag(), group.describe().in_flight) == (5, 0)
    with pytest.raises(StaleLease):
        group.ack([(2, 3)], epoch=grant.epoch)
    again = group.lease(9)
    assert counts(again) == dict.fromkeys(range(5), 1)
    assert again.epoch > grant.epoch


@pytest.mark.parametrize("offset", [0, 3, 8])
def test_seek_settles_what_is_before_and_makes_available_what_is_behind(
    world: World, offset: int
) -> None:
    opened = Opened(world, FakeSource(8))
    grant = opened.group.lease(6)
    opened.group.ack([(1, 2), (4, 5)], epoch=grant.epoch)
    opened.group.seek(offset)
    opened.close()
    group = Opened(world, opened.source).group
    assert (group.describe().acked_until, group.lag()) == (offset, 8 - offset)
    assert lease_all(group) == list(range(offset, 8))


def test_retention_settles_what_it_removed(world: World) -> None:
    opened = Opened(world, FakeSource(10))
    grant = opened.group.lease(4)
    opened.group.ack([(2, 3)], epoch=grant.epoch)
    opened.source.start = 6
    assert (opened.group.lag(), opened.group.describe().in_flight) == (4, 0)
    opened.group.ack([(0, 4)], epoch=grant.epoch)
    assert lease_all(opened.group) == [6, 7, 8, 9]
    opened.close()
    assert Opened(world, opened.source).group.lag() == 4


def test_a_log_that_lost_messages_gives_their_numbers_to_new_ones(world: World) -> None:
    opened = Opened(world, FakeSource(10))
    grant = opened.group.lease(10)
    opened.group.ack([(0, 2), (5, 8)], epoch=grant.epoch)
    opened.close()
    opened = Opened(world, FakeSource(6))
    assert "6 to 9 are not in the log any more" in opened.group.describe().problems[0]
    opened.source.append(4)
    opened.close()
    group = Opened(world, opened.source).group
    pass_ms(world, 1000)
    assert lease_all(group) == [2, 3, 4, 6, 7, 8, 9]


def test_a_lease_that_waits_is_woken_by_a_new_message(world: World) -> None:
    opened = Opened(world)
    call = world.runner.call("consumer", lambda: opened.group.lease(5, wait_s=60))
    world.runner.advance(NS_PER_S)
    assert not call.done
    opened.source.append(2)
    world.runner.settle()
    assert offsets(call.result()) == [0, 1]


@pytest.mark.parametrize("event", ["nack", "ack", "expiry", "delay", "seek"])
def test_a_lease_that_waits_is_woken_by_what_happens_in_the_group(world: World, event: str) -> None:
    config = GroupConfig(lease_ms=1000, in_flight_max=2)
    opened = Opened(world, FakeSource(3), config)
    group = opened.group
    grant = group.lease(2)
    if event == "delay":
        group.nack([(0, 2)], epoch=grant.epoch, delay_ms=300)
        assert offsets(group.lease(1)) == [2]
    call = world.runner.call("consumer", lambda: group.lease(1, wait_s=60))
    world.runner.settle()
    assert not call.done
    before_ns = world.clock.monotonic_ns()
    if event == "nack":
        group.nack([(1, 2)], epoch=grant.epoch)
    elif event == "ack":
        group.ack([(0, 1)], epoch=grant.epoch)
    elif event == "seek":
        group.seek(1)
    world.runner.run()
    passed_ms = (world.clock.monotonic_ns() - before_ns) // NS_PER_MS
    expected = {"nack": (1, 0), "ack": (2, 0), "seek": (1, 0), "expiry": (0, 1000),
                "delay": (0, 300)}  # fmt: skip
    assert (offsets(call.result())[0], passed_ms) == expected[event]


def test_a_lease_that_waits_in_vain_comes_back_empty_when_its_time_is_over(world: World) -> None:
    opened = Opened(world)
    call = world.runner.call("consumer", lambda: opened.group.lease(5, wait_s=2))
    world.runner.run()
    assert call.result().leased == ()
    assert world.clock.monotonic_ns() == 2 * NS_PER_S


def test_closing_wakes_those_who_wait(world: World) -> None:
    opened = Opened(world)
    call = world.runner.call("consumer", lambda: opened.group.lease(5, wait_s=60))
    world.runner.settle()
    opened.close()
    opened.group.close()
    world.runner.run()
    assert isinstance(call.error, Closed)
    with pytest.raises(Closed):
        opened.group.ack([(0, 1)], epoch=1)


def test_a_lease_lasts_by_the_monotonic_clock(world: World) -> None:
    group = Opened(world, FakeSource(1)).group
    group.lease(1)
    world.clock.skew(-3600 * NS_PER_S)
    pass_ms(world, 999)
    assert lease_all(group) == []
    world.clock.skew(7200 * NS_PER_S)
    assert lease_all(group) == []
    pass_ms(world, 1)
    assert lease_all(group) == [0]


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("message_count", [1, 3])
def test_a_wall_clock_set_back_makes_no_lease_longer(
    world: World, folds: bool, message_count: int
) -> None:
    opened = Opened(world, FakeSource(message_count))
    opened.group.lease(message_count)
    if folds:
        opened.group.compact()
    opened.close()
    world.clock.skew(-3600 * NS_PER_S)
    group = Opened(world, opened.source).group
    pass_ms(world, 1000)
    assert lease_all(group) == list(range(message_count))


def test_a_holder_keeps_its_lease_over_a_restart(world: World) -> None:
    opened = Opened(world, FakeSource(3))
    grant = opened.group.lease(3, lease_ms=7000)
    world.restart(Crash.POWER)
    pass_ms(world, 6000)
    group = Opened(world, opened.source).group
    assert lease_all(group) == []
    group.ack([(0, 2)], epoch=grant.epoch)
    pass_ms(world, 1000)
    assert lease_all(group) == [2]


RANGES = [(-1, 2), (3, 3), (5, 4), (0, 2**64), (0,), "ab", (0.5, 2), None, (0, 1, 2)]


@pytest.mark.parametrize("entry", RANGES, ids=str)
def test_what_is_no_range_is_refused(world: World, entry: object) -> None:
    group = Opened(world, FakeSource(5)).group
    grant = group.lease(5)
    for call in (group.ack, group.nack, group.extend, group.dead_lettered):
        with pytest.raises(InputError):
            call([(0, 1), entry], epoch=grant.epoch)  # type: ignore[list-item]
    assert group.lag() == 5


def test_ranges_that_overlap_are_taken_as_one(world: World) -> None:
    group = Opened(world, FakeSource(5)).group
    grant = group.lease(5)
    group.ack([(2, 4), (0, 1), (3, 5), (2, 3), (0, 1)], epoch=grant.epoch)
    assert group.lag() == 1


def test_huge_ranges_and_numbers_are_refused_without_work(world: World) -> None:
    group = Opened(world, FakeSource(5)).group
    grant = group.lease(5)
    with pytest.raises(StaleLease) as caught:
        group.ack([(0, 2**64 - 1)], epoch=grant.epoch)
    assert caught.value.ranges == ((5, 2**64 - 1),)
    with pytest.raises(StaleLease):
        group.ack([(2**63, 2**63 + 1)], epoch=grant.epoch)
    with pytest.raises(TooLarge):
        group.ack(singles(list(range(RANGE_COUNT_MAX + 1))), epoch=grant.epoch)
    for wanted in (0, -1, 10**18):
        with pytest.raises(InputError, match="max_messages"):
            group.lease(wanted)
    for offset in (-1, 6, 2**70):
        with pytest.raises(InputError, match="offset"):
            group.seek(offset)
    with pytest.raises(InputError, match="delay_ms"):
        group.nack([(0, 1)], epoch=grant.epoch, delay_ms=10**15)
    with pytest.raises(InputError, match="lease_ms"):
        group.lease(1, lease_ms=0)


@pytest.mark.parametrize("crash", Crash)
def test_an_ack_that_returned_is_durable(world: World, crash: Crash) -> None:
    opened = Opened(world, FakeSource(9))
    grant = opened.group.lease(9)
    opened.group.ack([(0, 3)], epoch=grant.epoch)
    again = opened.group.lease(9)
    opened.group.ack([(5, 6)], epoch=grant.epoch)
    opened.group.nack([(4, 5)], epoch=grant.epoch)
    world.restart(crash)
    group = Opened(world, opened.source).group
    assert again.leased == ()
    assert group.lag() == 5
    assert lease_all(group) == [4]
