"""Groups beside compaction, retention and damage: what is gone is not delivered, nobody hangs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.world import World
from lakebed.base.units import MIB
from lakebed.keratin.compaction_pass import compact
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.partition import Partition
from lakebed.store.group import Group
from lakebed.store.group_source import GroupSource
from lakebed.store.lease_reader import read_leased
from lakebed.store.store import Store
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.lease_transitions import Grant, LeasedRange
from lakebed.stroma.source import Fact
from tests.store.queues import ROOT, SMALL, append, drained, elapse, numbered, opened, values

pytestmark = pytest.mark.thorough

ORDERED = GroupConfig(lease_ms=1000, per_key_order=True)


@pytest.fixture
def world() -> World:
    return World(7)


def test_lag_leaves_out_what_compaction_removed(world: World) -> None:
    store = opened(world)
    topic = store.topics.create("orders", settings={"compact": True})
    partition, group = topic.partition(0), topic.group("billing")
    for number in range(300):
        append(topic, b"%d" % number * 100, key=b"%d" % (number if number > 280 else 0))
    partition.seal()
    append(topic, b"of the active segment", key=b"0")
    assert len(partition.segments()) > 2
    assert group.lag() == {0: 301}
    elapse(world, 10 * 60_000)
    there = [message.offset for message in partition.scan_from(0)]
    assert len(there) < 30
    assert group.lag() == {0: len(there)}
    reading = Store.open(ROOT, read_only=True, disk=world.disk, runner=world.runner)
    assert reading.topic("orders").group("billing").lag() == group.lag()
    for start in sorted({0, 1, 150, 290, *there, *(offset + 1 for offset in there)}):
        group.seek(start, partition=0)
        assert group.lag() == {0: sum(offset >= start for offset in there)}
    group.reset()
    group.ack_all(group.lease(max_messages=3))
    assert group.lag() == {0: len(there) - 3}
    assert len(drained(group)) == len(there) - 3
    assert group.lag() == {0: 0}


def test_lag_leaves_out_what_was_compacted_after_the_group_looked_at_it(world: World) -> None:
    store = opened(world)
    topic = store.topics.create("orders", settings={"compact": True})
    group = topic.group("billing")
    for number in range(200):
        append(topic, b"%d" % number * 100, key=b"%d" % (number % 50))
    leased, held = group.lease(max_messages=2)
    group.ack(leased)
    assert group.describe()[0].looked_until > 100
    topic.partition(0).seal()
    elapse(world, 10 * 60_000)
    there = [message.offset for message in topic.partition(0).scan_from(0)]
    assert len(there) == 50
    assert held.offset not in there
    assert group.lag() == {0: 50}
    reading = Store.open(ROOT, read_only=True, disk=world.disk, runner=world.runner)
    assert reading.topic("orders").group("billing").lag() == {0: 50}


def test_a_topic_of_more_keys_than_fit_into_memory_is_compacted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = compact.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "keys_max", 10)
    topic = opened(world).topics.create("orders", settings={"compact": True})
    partition = topic.partition(0)
    for turn in range(4):
        for key in range(60):
            append(topic, b"%d" % turn * 100, key=b"%d" % key)
    partition.seal()
    append(topic, b"of the active segment")
    elapse(world, 10 * 60_000)
    kept = [(message.key, message.value) for message in partition.scan_from(0)]
    assert kept[:-1] == [(b"%d" % key, b"3" * 100) for key in range(60)]


def test_lag_of_a_compacted_topic_reads_a_segment_once(world: World) -> None:
    store = opened(world)
    topic = store.topics.create("orders", settings={"compact": True})
    partition, group = topic.partition(0), topic.group("billing")
    for number in range(400):
        append(topic, b"%d" % number * 100, key=b"%d" % (number % 350))
    partition.seal()
    elapse(world, 10 * 60_000)
    group.lag()
    read_batches = partition.read_batches
    spans: list[tuple[int, int]] = []

    def watched(start: int, end: int, **options: Any) -> Iterator[MessageBatch]:
        spans.append((start, end))
        return read_batches(start, end, **options)

    partition.read_batches = watched  # type: ignore[method-assign,assignment]
    assert group.lag() == {0: 350}
    assert spans == []
    group.ack_all(group.lease(max_messages=10))
    spans.clear()
    assert group.lag() == {0: 340}
    ends = {info.next_offset for info in partition.segments()}
    assert not [span for span in spans if span[1] in ends], "no segment is read to its end again"


@pytest.mark.parametrize("config", [GroupConfig(), ORDERED])
def test_what_compaction_removed_is_not_delivered_and_holds_up_nobody(
    world: World, config: GroupConfig
) -> None:
    compacting = {"compact": True}
    store = opened(world, group_config=config)
    topic = store.topics.create("orders", settings=compacting)
    early, late = topic.group("early"), topic.group("late")
    for number in range(20):
        append(topic, b"%d" % number, key=b"key %d" % (number % 3))
    early.nack_all(early.lease())  # it has looked at all of them
    held = topic.group("holding").lease(max_messages=2, lease_ms=50_000)
    topic.partition(0).seal()
    elapse(world, 40_000)
    kept = [message.value for message in topic.partition(0).scan_from(0)]
    assert kept == [b"17", b"18", b"19"]
    for group in (early, late):
        assert values(drained(group)) == kept
        assert group.lag() == {0: 0}
    topic.group("holding").ack_all(held)
    assert values(drained(topic.group("holding"))) == kept


def test_what_retention_removed_is_settled_whoever_held_it(world: World) -> None:
    topic = opened(world).topic("orders", partitions=2)
    append(topic, *numbered(20), partition=0)
    group = topic.group("billing")
    held = group.lease(max_messages=5)
    topic.partition(0).truncate_before(10)
    assert values(group.lease(max_messages=4)) == numbered(20)[10:14]
    assert group.lag() == {0: 10, 1: 0}
    group.ack_all(held)  # settled already
    with pytest.raises(StaleLease):
        group.nack(held[0])
    topic.partition(0).truncate_before(20)
    assert group.lease() == []
    assert group.lag() == {0: 0, 1: 0}


def test_damaged_messages_are_told_and_hold_up_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(5))
    partition = topic.partition(0)
    partition.seal()
    path = partition.segments()[0].path
    with world.disk.open(path) as file:
        place = file.pread(0, file.size()).index(b"message 2")
    world.disk.flip_bit(path, offset=place)
    group = topic.group("billing")
    assert [message.offset for message in drained(group)] == [0, 1, 3, 4]
    assert group.lag() == {0: 0}
    (told,) = [one for one in caplog.records if "damaged_messages_settled" in one.message]
    assert "first_offset=2 next_offset=3" in told.message
    assert damaged_count(group) == 1


@pytest.mark.parametrize("max_bytes", [None, 1000])
def test_messages_damaged_after_the_group_looked_are_told_and_counted(
    world: World, caplog: pytest.LogCaptureFixture, max_bytes: int | None
) -> None:
    topic = opened(world).topic("orders")
    append(topic, *numbered(5))
    partition, group = topic.partition(0), topic.group("billing")
    assert group.describe()[0].looked_until == 0
    assert group.peek(max_messages=1)
    assert group.describe()[0].looked_until == 5
    assert damaged_count(group) == 0
    partition.seal()
    path = partition.segments()[0].path
    with world.disk.open(path) as file:
        place = file.pread(0, file.size()).index(b"message 2")
    world.disk.flip_bit(path, offset=place)
    leased = group.lease(max_bytes=max_bytes)
    assert [message.offset for message in leased] == [0, 1, 3, 4]
    (told,) = [one for one in caplog.records if "damaged_messages_settled" in one.message]
    assert "first_offset=2 next_offset=3" in told.message
    assert damaged_count(group) == 1
    group.ack_all(leased)
    assert group.lag() == {0: 0}


def damaged_count(group: Group) -> int:
    return group.parts[0].counters.snapshot().counters["stroma_messages_damaged"]


@pytest.mark.parametrize("seed", range(20))
def test_retention_and_compaction_beside_consumers_lose_nothing_that_is_left(seed: int) -> None:
    world = World(seed)
    store = opened(world, topic_config=SMALL)
    topic = store.topics.create("orders", settings={"compact": seed % 2 == 1})
    group = topic.group("billing")
    partition = topic.partition(0)
    delivered: set[int] = set()

    def produce() -> None:
        for number in range(40):
            append(topic, b"%d" % number * 300, key=b"%d" % (number % 5))

    def consume() -> None:
        while leased := group.lease(max_messages=3, wait_s=1):
            delivered.update(message.offset for message in leased)
            group.ack_all(leased)

    def remove() -> None:
        for offset in range(0, 40, 3):
            world.runner.sleep_ns(seed * NS_PER_MS // 10)
            if seed % 2 == 0:
                partition.truncate_before(offset)
            partition.seal()

    calls = [
        world.runner.call(name, body)
        for name, body in zip("abcd", [produce, consume, consume, remove], strict=True)
    ]
    world.runner.run()
    for call in calls:
        call.result()
    there = {message.offset for message in partition.scan_from(partition.start_offset())}
    assert there <= delivered
    assert group.lag() == {0: 0}


class Overtaken(Partition):
    """Retention removes the first messages just before they are read for the first time."""

    def read_batches(self, *arguments: Any, **named: Any) -> Iterator[MessageBatch]:
        if not self.start_offset():
            self.truncate_before(4)
        return super().read_batches(*arguments, **named)


@pytest.fixture
def overtaken(world: World) -> Partition:
    partition = opened(world).topic("orders").partition(0)
    partition.append_batch(numbered(6)).result()
    partition.__class__ = Overtaken
    return partition


def test_a_group_that_retention_overtakes_looks_behind_it(overtaken: Partition) -> None:
    facts = GroupSource(overtaken, wants_keys=False).facts(0, 6)
    assert facts == [Fact(0, is_deliverable=False, message_count=4)]


def test_a_lease_that_retention_overtakes_has_what_is_left(overtaken: Partition) -> None:
    grant = Grant((LeasedRange(0, 6, 1),), epoch=1, deadline_ms=5)
    (leased,) = read_leased(overtaken, grant, incarnation="")
    assert (values(leased.messages), leased.gone) == (numbered(6)[4:], [(0, 4)])


@pytest.mark.parametrize("seed", range(10))
def test_messages_that_are_removed_while_they_are_leased_are_left_out(seed: int) -> None:
    world = World(seed)
    topic = opened(world).topic("orders")
    group, partition = topic.group("billing"), topic.partition(0)

    def produce() -> None:
        for number in range(30):
            append(topic, b"%d" % number * 300, b"%d" % number)
            world.runner.sleep_ns(NS_PER_MS)

    def consume() -> None:
        while True:
            leased = group.lease(max_messages=5, wait_s=1)
            if not leased and partition.high_watermark() == 60:
                return
            group.ack_all(leased)

    def remove() -> None:
        while partition.high_watermark() < 60:
            partition.wait_beyond(partition.start_offset(), 1)
            for _ in range(world.random.randrange(60)):
                world.runner.pause("not yet")
            partition.seal()
            partition.truncate_before(partition.high_watermark())

    calls = [
        world.runner.call(name, body)
        for name, body in zip("abcd", [produce, consume, consume, remove], strict=True)
    ]
    world.runner.run()
    for call in calls:
        call.result()
    assert group.lag() == {0: 0}


def test_a_gap_of_two_hundred_thousand_messages_is_one_fact(world: World) -> None:
    large = replace(SMALL, compact=True, segment_bytes=64 * MIB, request_bytes_max=MIB)
    topic = opened(world, topic_config=large).topic("orders")
    partition = topic.partition(0)
    append(topic, b"first", key=b"another")
    for _ in range(50):
        append(topic, *[b""] * 4000, key=b"key")
    append(topic, b"last", key=b"key")
    partition.seal()
    elapse(world, 1)
    assert [message.offset for message in partition.scan_from(0)] == [0, 200_001]
    source = GroupSource(partition, wants_keys=False)
    assert source.facts(0, 200_002) == [Fact(1, is_deliverable=False, message_count=200_000)]
    for config in (GroupConfig(), ORDERED):
        group = topic.group(f"of {config.per_key_order}", config=config)
        assert values(group.lease()) == [b"first", b"last"]
        assert group.describe()[0].delta_bytes < 1000, "one ack for all of them"
        assert group.describe()[0].settled_ahead == 200_000
