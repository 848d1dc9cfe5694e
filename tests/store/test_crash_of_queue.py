"""A crash at every I/O step of a topic and its group: producing, leasing, settling, dead letters.

The clients write down what they asked and what they were told, and `tests.fakes.queue_checker` says
what of that is against a promise, after somebody has leased and acked everything that was left.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.store.group import Group
from lakebed.store.leased_message import LeasedMessage
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from tests.fakes.queue_checker import Entry, Held, Problem, check
from tests.store.queues import SMALL, opened

pytestmark = pytest.mark.sweep

CONFIG = GroupConfig(lease_ms=40, compaction_bytes=KIB, compaction_events=12)
PARTITIONS = 2


class History:
    """As it is known to the clients: the crash takes nothing of it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._numbers = itertools.count()

    def call(
        self,
        world: World,
        operation: str,
        messages: tuple[Held, ...],
        act: Callable[[], tuple[Held, ...]],
    ) -> None:
        name = str(next(self._numbers))

        def note(kind: str, messages: tuple[Held, ...] = ()) -> None:
            at_ms = world.clock.wall_ns() / NS_PER_MS
            self.entries.append(Entry(at_ms, kind, operation, name, messages))

        note("invoke", messages)
        try:
            note("ok", act())
        except StaleLease:
            note("fail")
        except LakebedError:
            note("info")
            raise


def held_of(*messages: LeasedMessage) -> tuple[Held, ...]:
    return tuple(
        Held(m.partition, m.offset, (m.value or b"").rstrip(b".").decode(), m.epoch,
             m.delivery_count, m.deadline_ms)
        for m in messages
    )  # fmt: skip


class Life:
    """Two producers and two consumers; the drain that follows every crash ends the history."""

    config = CONFIG
    batch_count = 5
    turn_count = 7

    def __init__(self) -> None:
        self.history = History()

    # What clients do.

    def run(self, world: World) -> None:
        with self.opened(world) as store:
            topic = store.topic("orders", partitions=PARTITIONS)
            group = topic.group("billing")
            calls = [
                world.runner.call(name, partial(body, world, name))
                for name, body in (
                    ("a", partial(self.produce, topic)),
                    ("b", partial(self.produce, topic)),
                    ("c", partial(self.consume, group)),
                    ("d", partial(self.consume, group)),
                )
            ]
            world.runner.run()
            for call in calls:
                call.result()

    def opened(self, world: World) -> Store:
        return opened(world, topic_config=SMALL, group_config=self.config)

    def produce(self, topic: StoreTopic, world: World, name: str) -> None:
        random = Random(f"{world.seed} {name}")
        for batch in range(self.batch_count):
            values = [f"{name}:{batch * 10 + number}" for number in range(random.randint(1, 3))]
            padding = random.choice([0, 0, 4000])
            self.append(topic, world, random.randrange(PARTITIONS), values, padding)
            world.runner.sleep_ns(random.randrange(10) * NS_PER_MS)

    def append(
        self, topic: StoreTopic, world: World, partition: int, values: list[str], padding: int
    ) -> None:
        payloads = [value.encode().ljust(padding, b".") for value in values]

        def act() -> tuple[Held, ...]:
            base, _ = topic.append_batch(payloads, partition=partition).result()
            return tuple(Held(partition, base + n, value) for n, value in enumerate(values))

        sent = tuple(Held(partition, value=value) for value in values)
        self.history.call(world, "produce", sent, act)

    def consume(self, group: Group, world: World, name: str) -> None:
        random = Random(f"{world.seed} {name}")
        for _ in range(self.turn_count):
            leased = self.lease(group, world, random.randint(1, 5), wait_s=0.02)
            for message in leased:
                self.deal_with(group, world, message, random)
            if random.random() < 0.3:
                world.runner.sleep_ns(30 * NS_PER_MS)
            self.settle(group, world, "ack", *leased[: random.randrange(4)])

    def deal_with(self, group: Group, world: World, one: LeasedMessage, random: Random) -> None:
        match random.randrange(6):
            case 0 | 1:
                self.settle(group, world, "ack", one)
            case 2:
                self.settle(group, world, "nack", one, delay_ms=random.choice([0, 15]))
            case 3:
                extend = partial(group.extend, one, lease_ms=60)
                self.history.call(world, "extend", held_of(one), lambda: held_of(extend()))

    def lease(
        self, group: Group, world: World, max_messages: int, *, wait_s: float
    ) -> list[LeasedMessage]:
        leased: list[LeasedMessage] = []

        def act() -> tuple[Held, ...]:
            leased.extend(group.lease(max_messages=max_messages, wait_s=wait_s))
            return held_of(*leased)

        self.history.call(world, "lease", (), act)
        return leased

    def settle(
        self,
        group: Group,
        world: World,
        operation: str,
        *messages: LeasedMessage,
        delay_ms: int = 0,
    ) -> None:
        def act() -> tuple[Held, ...]:
            if operation == "ack":
                group.ack_all(messages)
            else:
                group.nack_all(messages, delay_ms=delay_ms)
            return ()

        if messages:
            self.history.call(world, operation, held_of(*messages), act)

    # What must be true.

    def check(self, world: World) -> None:
        with self.opened(world) as store:
            topic = store.topic("orders", partitions=PARTITIONS)
            group = topic.group("billing")
            if not self.may_have_holes(world):
                assert not any(described.problems for described in group.describe().values())
            self.drain(group, world)
            letters = self.letters(group)
            problems = check(self.history.entries, elsewhere=letters)
            problems = [problem for problem in problems if not self.may_be(problem, world)]
            assert not problems, "\n".join(f"{kind}: {what}" for kind, what, _ in problems)
        with self.opened(world) as store:
            group = store.topic("orders").group("billing")
            assert group.lease() == [], "not settled for good"
            assert self.letters(group) == letters

    def may_be(self, problem: Problem, world: World) -> bool:
        """Whether it was not promised that it cannot be."""
        return False

    def may_have_holes(self, world: World) -> bool:
        """Whether a group's file may have lost bytes in its middle.

        A power cut during a sync keeps any of the sectors that were being written. If several
        events were written at once, a later one may survive an earlier one. That looks like damage,
        and is reported as damage, although nothing of it was acknowledged.
        """
        return world.disk.boot_id() != World(0).disk.boot_id()

    def drain(self, group: Group, world: World) -> None:
        for _ in range(200):
            if not any(group.lag().values()):
                return
            self.settle(group, world, "ack", *self.lease(group, world, 4, wait_s=1))
        raise AssertionError("it never ends")

    def letters(self, group: Group) -> list[str]:
        found = [letter.message.value or b"" for letter in group.dead_letters()]
        return [value.rstrip(b".").decode() for value in found]


class LifeWithDeadLetters(Life):
    config = replace(CONFIG, delivery_count_max=2, lease_ms=15)

    def check(self, world: World) -> None:
        super().check(world)
        counts: dict[str, int] = {}
        for entry in self.history.entries:
            if (entry.operation, entry.kind) == ("lease", "ok"):
                for held in entry.messages:
                    counts[held.value] = max(counts.get(held.value, 0), held.delivery_count)
        assert all(count <= 2 for count in counts.values()), "delivered more often than allowed"


class LifeOfFewSyncs(Life):
    """Acks and leases that were only written: a kill takes nothing back, a power cut may.

    But an epoch never comes again, and nothing is lost.
    """

    config = replace(CONFIG, ack_level="after_write", sync_ms=5)

    def may_be(self, problem: Problem, world: World) -> bool:
        return (
            self.may_have_holes(world)
            and problem.kind in ("duplicated", "stale")
            and not problem.is_epoch
        )


class LifeThenAnother(Life):
    """Recovery is cut short, too, and then the power fails."""

    batch_count, turn_count = 3, 4

    def check(self, world: World) -> None:
        probe = world.copy()
        with self.opened(probe) as store:
            store.topic("orders", partitions=PARTITIONS).group("billing")
        steps = probe.disk.steps
        for step in range(0, steps + 1, max(1, steps // 5)):
            twin, life = world.copy(), self.copy()
            twin.disk.faults.crash_at_step = step
            with contextlib.suppress(SimulatedCrash), life.opened(twin) as store:
                group = store.topic("orders", partitions=PARTITIONS).group("billing")
                life.lease(group, twin, 2, wait_s=0)
            twin.restart(Crash.POWER, survivors=step % 4)
            life.check(twin)

    def copy(self) -> Life:
        twin = Life()
        twin.history.entries = list(self.history.entries)
        twin.history._numbers = itertools.count(len(twin.history.entries))
        return twin


@pytest.mark.parametrize("life", [Life, LifeWithDeadLetters])
def test_a_crash_anywhere_keeps_every_promise(life: type[Life]) -> None:
    assert sweep(life, seeds=range(3), survivors=range(4), cases_max=120) > 110


def test_a_kill_keeps_what_was_only_written_and_a_power_cut_repeats_no_epoch() -> None:
    assert sweep(LifeOfFewSyncs, seeds=range(3), survivors=[0], cases_max=80) > 70


def test_a_crash_while_opening_and_another_behind_it_keep_every_promise() -> None:
    assert sweep(LifeThenAnother, seeds=[5], survivors=[0, 2, 3], cases_max=25) > 20


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_crash_anywhere_in_a_long_sweep() -> None:
    for life in (Life, LifeWithDeadLetters):
        sweep(life, seeds=range(100, 130), survivors=range(6), cases_max=10_000)
    sweep(LifeOfFewSyncs, seeds=range(100, 130), survivors=range(4), cases_max=5000)
    sweep(LifeThenAnother, seeds=range(6), survivors=range(4), cases_max=1000)


@pytest.mark.parametrize("operation", ["fdatasync", "fsync", "pwrite", "rename"])
@pytest.mark.parametrize("crash", Crash)
def test_a_failed_write_or_sync_keeps_every_promise(operation: str, crash: Crash) -> None:
    for nth in (1, 2, 4, 7, 12, 20, 33, 54):
        for life in (Life(), LifeWithDeadLetters()):
            world = World(nth)
            with life.opened(world) as store:
                store.topic("orders", partitions=PARTITIONS).group("billing")
            after = list(AfterFailedSync)[nth % 2]
            world.disk.faults.fail(operation, nth=nth, after=after)
            with contextlib.suppress(LakebedError):
                life.run(world)
            world.restart(crash, survivors=nth)
            life.check(world)
