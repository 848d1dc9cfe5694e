"""Hypothesis drives a group against a model: consumers, time, restarts, crashes, failing disks."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.stroma import lease_transitions
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.lease_transitions import Grant
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import Opened, counts, offsets, singles
from tests.stroma.model import Model

pytestmark = pytest.mark.sweep

DURATIONS = st.sampled_from([1, 10, 100, 1000, 3000])


class GroupMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 1000),
        per_key_order=st.sampled_from([True, True, False]),
        delivery_count_max=st.sampled_from([0, 1, 3]),
        in_flight_max=st.sampled_from([5, 1000]),
        key_window_max=st.sampled_from([8, 1000]),
        look_min=st.sampled_from([2, lease_transitions.LOOK_MIN]),
    )
    def start(
        self,
        seed: int,
        per_key_order: bool,
        delivery_count_max: int,
        in_flight_max: int,
        key_window_max: int,
        look_min: int,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(lease_transitions, "LOOK_MIN", look_min)
        self.world = World(seed)
        self.config = GroupConfig(
            lease_ms=1000,
            per_key_order=per_key_order,
            delivery_count_max=delivery_count_max,
            in_flight_max=in_flight_max,
            key_window_max=key_window_max,
            compaction_bytes=KIB,
            compaction_events=12,
        )
        self.model = Model(self.config)
        self.source = FakeSource()
        self.grants: list[tuple[int, list[int]]] = []  # epoch, messages
        self.epochs: set[int] = set()
        self.delivered: set[int] = set()  # since the group started over
        self.opened = Opened(self.world, self.source, self.config)

    @property
    def now_ms(self) -> int:
        return self.world.clock.wall_ns() // NS_PER_MS

    @rule(
        count=st.integers(1, 12),
        key=st.sampled_from([None, 1, 1, 2]),
        delay_ms=st.sampled_from([0, 0, 0, 50, 2000]),
        is_deliverable=st.sampled_from([True, True, True, False]),
    )
    def append(self, count: int, key: int | None, delay_ms: int, is_deliverable: bool) -> None:
        not_before_ms = self.now_ms + delay_ms if delay_ms else 0
        self.source.append(
            count, key=key, not_before_ms=not_before_ms, is_deliverable=is_deliverable
        )
        self.model.append(
            count, key=key, not_before_ms=not_before_ms, is_deliverable=is_deliverable
        )

    @rule(wanted=st.integers(1, 9), lease_ms=DURATIONS, is_exhausted=st.booleans())
    def lease_some(self, wanted: int, lease_ms: int, is_exhausted: bool) -> None:
        self.lease(wanted, lease_ms, is_exhausted=is_exhausted)

    def lease(self, wanted: int, lease_ms: int, *, is_exhausted: bool) -> None:
        self.model.expire(self.now_ms)
        if is_exhausted and self.config.delivery_count_max:
            expected = self.model.leasable(self.now_ms, is_exhausted=True)[:wanted]
            grant = self.opened.group.lease_dead_letters(wanted, lease_ms=lease_ms)
            self.take(grant, expected, lease_ms)
        else:
            self.take_some(self.opened.group.lease(wanted, lease_ms=lease_ms), wanted, lease_ms)

    def take_some(self, grant: Grant, wanted: int, lease_ms: int) -> None:
        """The first of each key, and the next ones of those only if there is room for more."""
        firsts = self.model.leasable(self.now_ms, is_exhausted=False)[:wanted]
        following = self.model.following(firsts, self.now_ms)
        if self.config.key_window_max < 1000:  # a key's queue may be too short for all of them
            following = [offset for offset in following if offset in offsets(grant)]
            self.check_that_none_is_left_out(firsts, sorted(firsts + following))
        room = min(wanted, self.model.room()) - len(firsts)
        expected = sorted(firsts + following[:room])
        self.take(grant, expected, lease_ms)

    def check_that_none_is_left_out(self, firsts: list[int], taken: list[int]) -> None:
        messages = self.model.messages
        for first in firsts:
            key = messages[first].key
            if key is not None and self.config.per_key_order:
                mine = [o for o in taken if messages[o].key == key]
                between = range(first, mine[-1] + 1)
                assert mine == [
                    o for o in between if messages[o].key == key and not messages[o].is_settled
                ]

    def take(self, grant: Grant, expected: list[int], lease_ms: int) -> None:
        assert offsets(grant) == expected
        self.check_the_order_of_keys(expected)
        if expected:
            assert grant.epoch not in self.epochs
            assert grant.deadline_ms == self.now_ms + lease_ms
            self.epochs.add(grant.epoch)
            self.model.lease(expected, epoch=grant.epoch, deadline_ms=grant.deadline_ms)
            deliveries = {o: self.model.messages[o].deliveries for o in expected}
            assert counts(grant) == deliveries
            self.grants.append((grant.epoch, expected))

    def check_the_order_of_keys(self, taken: list[int]) -> None:
        """Whatever is thought of above: nobody else has a message of these keys, and the first
        time that a message comes, nothing later of its key is settled or was delivered."""
        if not self.config.per_key_order:
            return
        messages = self.model.messages
        for offset in taken:
            key = messages[offset].key
            if key is None:
                continue
            assert not self.model.holders(key)
            if offset not in self.delivered:
                later = [o for o in range(offset + 1, len(messages)) if messages[o].key == key]
                assert not self.delivered.intersection(later)
        self.delivered.update(taken)

    def draw_held(self, data: st.DataObject) -> tuple[int, list[int]]:
        epoch, held = data.draw(st.sampled_from(self.grants[-6:]))
        chosen = data.draw(st.lists(st.sampled_from(held), min_size=1, unique=True))
        return epoch, sorted(chosen)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), is_dead=st.booleans(), fails=st.booleans())
    def ack(self, data: st.DataObject, is_dead: bool, fails: bool) -> None:
        epoch, chosen = self.draw_held(data)
        self.model.expire(self.now_ms)
        unsettled = [o for o in chosen if not self.model.is_settled(o)]
        call = self.opened.group.dead_lettered if is_dead else self.opened.group.ack
        if not self.model.holds(unsettled, epoch=epoch):
            with pytest.raises(StaleLease):
                call(singles(chosen), epoch=epoch)
            return
        if fails and unsettled:
            self.break_disk(data)
            with pytest.raises(LakebedError):
                call(singles(chosen), epoch=epoch)
        call(singles(chosen), epoch=epoch)
        self.model.settle(chosen)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), delay_ms=st.sampled_from([0, 1, 100, 2000]))
    def nack(self, data: st.DataObject, delay_ms: int) -> None:
        epoch, chosen = self.draw_held(data)
        self.model.expire(self.now_ms)
        if self.model.holds(chosen, epoch=epoch):
            self.opened.group.nack(singles(chosen), epoch=epoch, delay_ms=delay_ms)
            not_before_ms = self.now_ms + delay_ms if delay_ms else 0
            self.model.give_back(chosen, not_before_ms=not_before_ms)
        else:
            with pytest.raises(StaleLease):
                self.opened.group.nack(singles(chosen), epoch=epoch, delay_ms=delay_ms)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        epoch, chosen = self.draw_held(data)
        self.model.expire(self.now_ms)
        if self.model.holds(chosen, epoch=epoch):
            self.opened.group.undo_lease(singles(chosen), epoch=epoch)
            self.model.undo(chosen)
        else:
            with pytest.raises(StaleLease):
                self.opened.group.undo_lease(singles(chosen), epoch=epoch)

    @rule(count=st.integers(1, 9))
    def look(self, count: int) -> None:
        """Without leasing: it changes nothing."""
        self.model.expire(self.now_ms)
        firsts = self.model.leasable(self.now_ms, is_exhausted=False)[:count]
        shown = self.opened.group.available(count)
        found = [offset for start, end, _ in shown for offset in range(start, end)]
        assert found[: len(firsts)] == firsts
        assert set(found[len(firsts) :]) <= set(self.model.following(firsts, self.now_ms))

    @rule(
        wanted=st.integers(2, 9),
        count=st.integers(1, 4),
        delay_ms=st.sampled_from([None, 0, 0, 1]),
        restarts=st.booleans(),
    )
    def lease_and_give_back_the_first(
        self, wanted: int, count: int, delay_ms: int | None, restarts: bool
    ) -> None:
        """While the others of a key are still leased; None: as if it had not been leased."""
        self.lease(wanted, 3000, is_exhausted=False)
        epoch, held = self.grants[-1] if self.grants else (0, [])
        if not held or not self.model.holds(held, epoch=epoch):
            return
        if delay_ms is None:
            self.opened.group.undo_lease(singles(held[:count]), epoch=epoch)
            self.model.undo(held[:count])
        else:
            self.opened.group.nack(singles(held[:count]), epoch=epoch, delay_ms=delay_ms)
            not_before_ms = self.now_ms + delay_ms if delay_ms else 0
            self.model.give_back(held[:count], not_before_ms=not_before_ms)
        if restarts:
            self.restart()
        self.lease(wanted, 3000, is_exhausted=False)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), lease_ms=DURATIONS)
    def extend(self, data: st.DataObject, lease_ms: int) -> None:
        epoch, chosen = self.draw_held(data)
        self.model.expire(self.now_ms)
        if self.model.holds(chosen, epoch=epoch):
            deadline_ms = self.opened.group.extend(singles(chosen), epoch=epoch, lease_ms=lease_ms)
            assert deadline_ms == self.now_ms + lease_ms
            for offset in chosen:
                self.model.messages[offset].deadline_ms = deadline_ms
        else:
            with pytest.raises(StaleLease):
                self.opened.group.extend(singles(chosen), epoch=epoch, lease_ms=lease_ms)

    @rule(data=st.data())
    def lease_with_a_failing_disk(self, data: st.DataObject) -> None:
        self.model.expire(self.now_ms)
        if self.model.leasable(self.now_ms, is_exhausted=False):
            self.break_disk(data)
            with pytest.raises(LakebedError):
                self.opened.group.lease(4)
            self.take_some(self.opened.group.lease(4), 4, 1000)

    def break_disk(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(["pwrite", "fdatasync"]))
        after = data.draw(st.sampled_from(list(AfterFailedSync)))
        self.world.disk.faults.fail(operation, after=after)

    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.source.start, self.source.end))
        self.opened.group.seek(target)
        self.model.seek(target)
        self.delivered.clear()

    @rule()
    def reset(self) -> None:
        self.opened.group.reset()
        self.model.seek(self.source.start)
        self.delivered.clear()

    @rule(data=st.data())
    def remove_the_oldest(self, data: st.DataObject) -> None:
        highest = min(self.source.end, self.source.start + 10)
        self.source.start = data.draw(st.integers(self.source.start, highest))
        self.model.settle(list(range(self.source.start)))

    @rule(duration_ms=DURATIONS)
    def let_time_pass(self, duration_ms: int) -> None:
        self.world.runner.advance(duration_ms * NS_PER_MS)

    @rule()
    def compact(self) -> None:
        self.opened.group.compact()

    @rule()
    def restart(self) -> None:
        self.opened.close()
        self.opened = Opened(self.world, self.source, self.config)

    @rule(crash=st.sampled_from(list(Crash)), survivors=st.integers(0, 3))
    def crash(self, crash: Crash, survivors: int) -> None:
        self.world.restart(crash, survivors=survivors)
        self.opened = Opened(self.world, self.source, self.config)
        assert self.opened.group.describe().problems == ()

    @invariant()
    def counts_agree(self) -> None:
        self.model.expire(self.now_ms)
        described = self.opened.group.describe()
        assert described.in_flight == len(self.model.in_flight())
        unsettled = [o for o, m in enumerate(self.model.messages) if not m.is_settled]
        assert described.acked_until <= min(unsettled, default=self.source.end)
        unseen = sum(
            m.is_settled for m in self.model.messages[max(described.looked_until, 0) :]
        )  # nothing to deliver, and nobody looked yet
        assert described.lag in range(len(unsettled), len(unsettled) + unseen + 1)

    def teardown(self) -> None:
        if not hasattr(self, "opened"):
            return
        try:
            self.finish()
        finally:
            self.patch.undo()

    def finish(self) -> None:
        self.world.runner.advance(5000 * NS_PER_MS)
        if not self.config.delivery_count_max:
            self.model.expire(self.now_ms)
            self.check_that_everything_else_is_delivered()
        with contextlib.suppress(LakebedError):
            self.opened.close()

    def check_that_everything_else_is_delivered(self) -> None:
        unsettled = [o for o, m in enumerate(self.model.messages) if not m.is_settled]
        found: list[int] = []
        while (grant := self.opened.group.lease(100)).leased:
            found += offsets(grant)
            self.opened.group.ack(grant.ranges, epoch=grant.epoch)
        assert sorted(found) == unsettled
        assert self.opened.group.lag() == 0


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.slow
def test_a_group_for_long() -> None:
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=2000, stateful_step_count=60)
    )
