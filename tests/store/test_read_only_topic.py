"""Topics and groups of a store that is only read, beside its writer and after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.base.errors import BadName, Closed, Corrupt, DataError, NotFound, UnknownVersion
from lakebed.base.simulation.world import World
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.topic_dead_letters import dead_letters_of
from lakebed.stroma.config import GroupConfig

pytestmark = pytest.mark.thorough

GROUPS = GroupConfig(delivery_count_max=2)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Store]:
    config = TopicConfig(reserve_bytes=0)
    with Store.open(tmp_path, topic_config=config, group_config=GROUPS) as store:
        yield store


@pytest.fixture
def reading(writing: Store, tmp_path: Path) -> Iterator[ReadOnlyStore]:
    with Store.open(tmp_path, read_only=True) as store:
        store.group_config = GROUPS
        yield store


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
    }


def test_topics_are_listed_and_found(writing: Store, reading: ReadOnlyStore) -> None:
    assert reading.topics.names() == []
    writing.topics.create("orders", partitions=3, settings={"retention_ms": 5000})
    assert reading.topics.names() == ["orders"]
    topic = reading.topic("orders")
    assert topic is reading.topic("orders")
    assert topic.partition_count == len(topic.partitions) == 3
    assert topic.identity == writing.topics.open("orders").identity
    assert topic.partition(1) is topic.partition(1)
    for number in (-1, 3):
        with pytest.raises(NotFound, match=f"no partition {number}"):
            topic.partition(number)


def test_what_does_not_exist_is_told_and_not_remembered(
    writing: Store, reading: ReadOnlyStore
) -> None:
    with pytest.raises(NotFound, match="there is no topic orders"):
        reading.topic("orders")
    with pytest.raises(BadName):
        reading.topic("../orders")
    writing.topic("orders")
    topic = reading.topic("orders")
    with pytest.raises(NotFound, match="the topic orders has no group billing"):
        topic.group("billing")
    writing.topic("orders").group("billing")
    assert topic.group("billing").lag() == {0: 0}


def test_a_topic_that_was_created_again_is_opened_anew(
    writing: Store, reading: ReadOnlyStore
) -> None:
    writing.topic("orders").append_batch([b"old"]).result()
    before = reading.topic("orders")
    assert before.partition(0).get(0).value == b"old"
    writing.topics.configure("orders", {"retention_ms": 5000})
    assert reading.topic("orders") is before
    writing.topics.delete("orders")
    with pytest.raises(NotFound, match="there is no topic orders"):
        reading.topic("orders")
    writing.topic("orders", partitions=2).append_batch([b"new"], partition=0).result()
    again = reading.topic("orders")
    assert again.topic_id == writing.topic("orders").topic_id != before.topic_id
    assert again.partition_count == 2
    assert again.partition(0).get(0).value == b"new"


def test_messages_are_read_beside_the_writer(writing: Store, reading: ReadOnlyStore) -> None:
    target = writing.topic("orders", partitions=2)
    target.append_batch([b"a", b"b", b""], key=b"k", partition=1, timestamps_ms=[5, 6, 7]).result()
    partition = reading.topic("orders").partition(1)
    assert [message.value for message in partition.scan_from(0)] == [b"a", b"b", b""]
    assert [message.value for message in partition.read(1, 2)] == [b"b"]
    assert [bytes(v or b"") for batch in partition.read_batches() for v in batch.values()] == [
        b"a", b"b", b"",
    ]  # fmt: skip
    assert partition.get(0).key == b"k"
    assert partition.fetch(1, max_bytes=1).next_offset == 2
    assert (partition.start_offset(), partition.high_watermark()) == (0, 3)
    assert [partition.offset_for_time(moment) for moment in (0, 6, 8)] == [0, 1, 3]
    assert len(partition.segments()) == 1
    assert reading.topic("orders").partition_for(b"k") == target.partition_for(b"k")
    with pytest.raises(OffsetOutOfRange):
        partition.scan_from(4)
    target.append_batch([b"d"], partition=1).result()
    assert partition.wait_beyond(3, 10.0)
    assert partition.get(3).value == b"d"


def test_one_partition_is_followed(writing: Store, reading: ReadOnlyStore) -> None:
    target = writing.topic("orders")
    target.append_batch([b"a", b"b"]).result()
    with reading.topic("orders").partition(0).follow(1) as follower:
        assert next(follower).value == b"b"
        target.append_batch([b"c"]).result()
        assert next(follower).value == b"c"


def test_all_partitions_are_followed_at_once(writing: Store, reading: ReadOnlyStore) -> None:
    target = writing.topic("orders", partitions=3)
    for number in range(3):
        target.append_batch([b"%d-0" % number, b"%d-1" % number], partition=number).result()
    with reading.topic("orders").follow({0: 1, 2: 0}) as follower:
        found = {}
        for _ in range(2):
            taken = follower.next_batch()
            assert taken is not None
            found[taken.partition] = [message.value for message in taken.batch]
        assert found == {0: [b"0-1"], 2: [b"2-0", b"2-1"]}
        assert follower.next_batch(0.0) is None
        assert follower.positions == {0: 2, 2: 2}

        def produce() -> None:
            target.append_batch([b"not followed"], partition=1).result()
            target.append_batch([b"later"], partition=2).result()

        producer = threading.Thread(target=produce)
        producer.start()
        taken = follower.next_batch()
        producer.join()
        assert taken is not None
        assert (taken.partition, taken.batch.message(0).value) == (2, b"later")


def test_no_partition_waits_for_a_busy_one(writing: Store, reading: ReadOnlyStore) -> None:
    target = writing.topic("orders", partitions=2)
    with reading.topic("orders").follow() as follower:
        order = []
        for _ in range(3):
            for number in (0, 1):
                target.append_batch([b"x"], partition=number).result()
            taken = follower.next_batch()
            assert taken is not None
            order.append(taken.partition)
    assert set(order) == {0, 1}


def test_a_follower_that_fell_behind_retention_is_told(
    writing: Store, reading: ReadOnlyStore
) -> None:
    target = writing.topic("orders")
    with reading.topic("orders").follow() as follower:
        target.append_batch([b"a", b"b"]).result()
        target.partition(0).truncate_before(1)
        with pytest.raises(OffsetOutOfRange):
            follower.next_batch()


def test_reading_changes_no_byte(writing: Store, reading: ReadOnlyStore, tmp_path: Path) -> None:
    target = writing.topic("orders")
    target.append_batch([b"a", b"b"]).result()
    group = target.group("billing")
    group.ack_all(group.lease(max_messages=1))
    writing.close()
    before = tree(tmp_path)
    topic = reading.topic("orders")
    assert len(list(topic.partition(0).scan_from(0))) == 2
    topic.group("billing").describe()
    list(dead_letters_of(reading, "orders", "billing"))
    with topic.follow() as follower:
        follower.next_batch()
    assert tree(tmp_path) == before


def test_after_closing_nothing_is_read(writing: Store, tmp_path: Path) -> None:
    writing.topic("orders").append_batch([b"a"]).result()
    reading = ReadOnlyStore(tmp_path)
    partition = reading.topic("orders").partition(0)
    reading.close()
    reading.close()
    with pytest.raises(Closed):
        reading.topic("orders")
    with pytest.raises(Closed):
        partition.scan_from(0)


def test_a_topic_of_a_newer_version_is_refused(
    writing: Store, reading: ReadOnlyStore, tmp_path: Path
) -> None:
    writing.topic("orders")
    path = tmp_path / "topics" / "orders" / "topic.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(UnknownVersion):
        reading.topic("orders")
    path.write_text("{")
    with pytest.raises(Corrupt):
        reading.topic("orders")


# Groups.


def test_a_group_is_described_as_its_writer_describes_it(
    writing: Store, reading: ReadOnlyStore
) -> None:
    target = writing.topic("orders", partitions=2)
    for number in (0, 1):
        target.append_batch([b"%d" % index for index in range(10)], partition=number).result()
    group = target.group("billing")
    leased = group.lease(max_messages=14)
    group.ack_all(leased[2:5])  # ahead of a gap
    group.nack(leased[5], delay_ms=600_000)
    ours = reading.topic("orders").group("billing")
    assert ours.lag() == group.lag()
    for number, found in ours.describe().items():
        # An epoch is reserved ahead of need: who opens the group goes on behind it. And that
        # somebody looked at plain messages is not recorded.
        expected = group.describe()[number]
        alike = replace(expected, epoch=found.epoch, looked_until=found.looked_until)
        assert found == alike
        assert found.epoch >= expected.epoch
    assert reading.topic("orders").groups() == ["billing"]
    group.ack_all([*leased[:2], *leased[6:], *group.lease(max_messages=6)])
    topic = reading.topic("orders")
    unsettled = [topic.group("billing").unsettled(partition) for partition in topic.partitions]
    assert sorted(unsettled) == [[], [(leased[5].offset, leased[5].offset + 1)]]


def test_a_group_is_read_also_while_it_is_folded(writing: Store, reading: ReadOnlyStore) -> None:
    """A snapshot and the delta that goes on from the next one do not fit: that is no damage."""
    target = writing.topics.create("orders")
    target.append_batch([b"x"] * 40_000).result()
    small = GroupConfig(compaction_events=1, compaction_bytes=1024)
    group = target.group("billing", config=small)
    ours = reading.topic("orders").group("billing")
    ended = threading.Event()

    def work() -> None:
        try:
            for count in range(10_000):
                group.ack_all(group.lease(max_messages=4))
                if count >= 100 and group.describe()[0].generation > 2:
                    return  # folds have their own thread, and are as fast as the disk
        finally:
            ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    lags = []
    while not ended.is_set():
        lags.append(ours.lag()[0])
    worker.join()
    assert lags == sorted(lags, reverse=True)
    assert ours.lag() == group.lag()
    assert group.describe()[0].generation > 2


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_fold_has_done_so_far_the_group_can_be_read(seed: int) -> None:
    world = World(seed)
    config, groups = TopicConfig(reserve_bytes=0), GroupConfig(compaction_events=1)
    with (
        Store.open(
            "/s", disk=world.disk, runner=world.runner, topic_config=config, group_config=groups
        ) as store,
        Store.open("/s", read_only=True, disk=world.disk, runner=world.runner) as reading,
    ):
        target = store.topic("orders")
        target.append_batch([b"x"] * 1000).result()
        group = target.group("billing")
        ours = reading.topic("orders").group("billing")

        def work() -> None:
            for _ in range(10):
                group.ack_all(group.lease(max_messages=100))

        worker = world.runner.call("worker", work)
        reader = world.runner.call("reader", lambda: [ours.lag()[0] for _ in range(10)])
        world.runner.run()
        worker.result()
        lags = reader.result()
        assert lags == sorted(lags, reverse=True)
        assert ours.lag() == {0: 0}


def test_leases_end_and_retention_settles_also_for_who_only_reads() -> None:
    world = World(3)
    config = TopicConfig(reserve_bytes=0, zero_fill=False)
    with Store.open("/s", disk=world.disk, runner=world.runner, topic_config=config) as store:
        target = store.topic("orders")
        target.append_batch([b"a", b"b", b"c"]).result()
        group = target.group("billing")
        group.lease(max_messages=2, lease_ms=1000)
        with Store.open("/s", read_only=True, disk=world.disk, runner=world.runner) as reading:
            ours = reading.topic("orders").group("billing")
            assert ours.describe()[0].in_flight == 2
            world.runner.advance(1_000_000_000)
            assert ours.describe()[0].in_flight == 0
            target.partition(0).truncate_before(2)
            found = ours.describe()[0]
            assert (found.acked_until, found.lag) == (2, 1)


def test_damage_that_stays_is_told(writing: Store, reading: ReadOnlyStore, tmp_path: Path) -> None:
    target = writing.topic("orders")
    target.append_batch([b"a"]).result()
    target.group("billing")
    (tmp_path / "groups" / "orders-0_billing.snap").write_bytes(b"KSNAP\0\0\0 but no more")
    with pytest.raises(DataError):
        reading.topic("orders").group("billing").describe()


def test_dead_letters_are_read_until_they_are_sent_back(
    writing: Store, reading: ReadOnlyStore
) -> None:
    assert list(dead_letters_of(reading, "orders", "billing")) == []
    target = writing.topic("orders")
    target.append_batch([b"good", b"bad"], key=b"k").result()
    group, other = target.group("billing"), target.group("other")
    for one in (group, other):
        for _ in range(3):
            for message in one.lease():
                one.ack(message) if message.value == b"good" else one.nack(message)
    found = list(dead_letters_of(reading, "orders", "billing"))
    assert found == group.dead_letters()
    assert [(one.origin.offset, one.message.key, one.message.value) for one in found] == [
        (1, b"k", b"bad")
    ]
    assert group.redrive() == 1
    assert list(dead_letters_of(reading, "orders", "billing")) == []
    assert len(list(dead_letters_of(reading, "orders", "other"))) == 1
