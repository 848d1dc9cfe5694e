"""Bad sectors: a read error is an error of the segment it is in, and of nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record
from lakebed.base.errors import Corrupt, DiskError
from lakebed.base.units import KIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.message import Message
from lakebed.keratin.reader import PartitionReader
from lakebed.seglake.meta.connection import connect, connect_read_only
from lakebed.store.group import Group
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.repair import repair
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from lakebed.store.topic_repair import repair_topic
from tests.fakes.unreadable_disk import SECTOR_BYTES, UnreadableDisk

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
TOPIC_CONFIG = TopicConfig(segment_bytes=64 * KIB, index_stride_bytes=4 * KIB, reserve_bytes=0)
BAD_START = 8 * SECTOR_BYTES
COUNT = 300


def payload(number: int) -> bytes:
    return b"%04d" % number + b"x" * 996


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log and a topic of several segments each."""
    with Store.open(tmp_path / "root", config=CONFIG, topic_config=TOPIC_CONFIG) as store:
        log, topic = store.log("orders"), store.topic("clicks", partitions=1)
        for number in range(COUNT):
            log.append_record_with_timeout(payload(number), 60)
            topic.append_batch([payload(number)]).result()
        log.seal_current_segment()
    return tmp_path / "root"


def second_segment(root: Path, kind: str) -> Path:
    folder = root / ("aof/orders/segments" if kind == "log" else "topics/clicks/0/segments")
    return sorted(folder.glob("*.seg" if kind == "log" else "*.log"))[1]


def bad_disk(root: Path) -> UnreadableDisk:
    """One sector of the second segment of each cannot be read."""
    return UnreadableDisk({second_segment(root, kind).name: BAD_START for kind in ("log", "topic")})


def open_bad(root: Path) -> Store:
    return Store.open(
        root, config=CONFIG, topic_config=TOPIC_CONFIG, disk=bad_disk(root), connector=connect
    )


def numbers(found: Iterator[Record] | Iterator[Message]) -> list[int]:
    """Of all that comes, before the error if there is one."""
    seen = []
    with contextlib.suppress(DiskError):
        for one in found:
            value = one.payload if isinstance(one, Record) else one.value
            seen.append(int((value or b"")[:4]))
    return seen


def test_a_reader_gets_all_before_a_bad_sector_and_then_the_error(root: Path) -> None:
    with open_bad(root) as store:
        log, partition = store.log("orders"), store.topic("clicks").partition(0)
        with pytest.raises(DiskError, match=second_segment(root, "log").name):
            list(log.read())
        with pytest.raises(DiskError, match=second_segment(root, "topic").name):
            list(partition.read())
        for seen in (numbers(log.read()), numbers(partition.read())):
            assert seen == list(range(len(seen)))
            assert 64 + BAD_START // 1100 - 4 < len(seen) < 64 + BAD_START // 1000
        assert numbers(partition.read(COUNT - 20)) == list(range(COUNT - 20, COUNT))


def test_skipping_damage_passes_over_the_rest_of_the_segment_and_reports_it(root: Path) -> None:
    with open_bad(root) as store:
        log_skipped: list[object] = []
        with LogReader(store.log("orders")) as log_reader:
            seen = numbers(log_reader.read(skip_damage=True, on_skipped=log_skipped.append))
        assert (seen[0], seen[-1], len(log_skipped)) == (0, COUNT - 1, 1)
        assert COUNT - 64 < len(seen) < COUNT
        topic_skipped: list[object] = []
        with PartitionReader(store.topic("clicks").partition(0)) as reader:
            seen = numbers(reader.read(skip_damage=True, on_skipped=topic_skipped.append))
        assert (seen[0], seen[-1], len(topic_skipped)) == (0, COUNT - 1, 1)
        assert COUNT - 64 < len(seen) < COUNT


def test_verify_names_the_bytes_that_cannot_be_read_and_checks_the_rest(root: Path) -> None:
    with ReadOnlyStore(root, disk=bad_disk(root), connector=connect_read_only) as store:
        report = verify_store(store)
    assert not report.is_good
    assert not report.unchecked
    (log,), (topic,) = report.logs, report.topics
    topic_problems = list(map(str, topic.report.problems))
    for problems, kind in ((log.problems, "log"), (topic_problems, "topic")):
        (unreadable,) = [one for one in problems if "cannot be read" in one]
        assert second_segment(root, kind).name in unreadable
        assert str(BAD_START) in unreadable
    assert log.report.records > COUNT - 10
    assert topic.report.records > COUNT - 10


def test_repair_keeps_what_is_whole_around_a_bad_sector(root: Path) -> None:
    with open_bad(root) as store:
        repaired_log = repair(store, "orders", progress=lambda *_: None)
        assert any("cannot be read" in problem for problem in repaired_log.problems)
        repaired_topic = repair_topic(store, "clicks", progress=lambda *_: None)
        assert repaired_topic.lost
    with Store.open(root, config=CONFIG, topic_config=TOPIC_CONFIG) as store:
        partition = store.topic("clicks").partition(0)
        with pytest.raises(Corrupt, match="are recorded as lost"):
            list(partition.read())
        for record in store.damage.list():
            store.damage.acknowledge(record.id)
        seen = numbers(partition.read())
    assert COUNT - 10 < len(seen) < COUNT
    assert (seen[0], seen[-1]) == (0, COUNT - 1)


def test_a_group_settles_nothing_that_cannot_be_read(root: Path) -> None:
    path = second_segment(root, "topic")
    with open_bad(root) as store:
        group = store.topic("clicks").group("billing")
        leased: list[int] = []
        with contextlib.suppress(DiskError):
            while messages := group.lease(max_messages=50):
                leased += [message.offset for message in messages]
                group.ack_all(messages)
        with pytest.raises(DiskError, match=path.name):
            group.lease()
        assert leased == list(range(leased[-1] + 1)), "all before the bad sector"
        assert leased[-1] > int(path.stem)
        assert group.lag() == {0: COUNT - len(leased)}
    with Store.open(root, config=CONFIG, topic_config=TOPIC_CONFIG) as store:
        group = store.topic("clicks").group("billing")
        rest = [message.offset for message in group.lease(max_messages=COUNT)]
        assert leased + rest == list(range(COUNT)), "the disk is good again"


def consumed(group: Group) -> Iterator[int]:
    """The offsets of all that a group delivers, before the error if there is one."""
    with contextlib.suppress(DiskError):
        while messages := group.lease(max_messages=10):
            group.ack_all(messages)
            yield from (message.offset for message in messages)


def test_a_group_stops_before_a_bad_sector_and_settles_nothing_behind_it(root: Path) -> None:
    with open_bad(root) as store:
        group = store.topic("clicks").group("billing")
        seen = list(consumed(group))
        with pytest.raises(DiskError, match=second_segment(root, "topic").name):
            group.lease()
        assert seen == list(range(len(seen)))
        assert 64 + BAD_START // 1100 - 4 < len(seen) < 64 + BAD_START // 1000
        assert group.lag() == {0: COUNT - len(seen)}
    with Store.open(root, config=CONFIG, topic_config=TOPIC_CONFIG) as store:
        group = store.topic("clicks").group("billing")
        found = group.lease(max_messages=COUNT)
        assert [message.offset for message in found] == list(range(len(seen), COUNT))
        assert {message.delivery_count for message in found} == {1}


def test_a_peek_shows_what_is_before_a_bad_sector_and_then_fails(root: Path) -> None:
    with open_bad(root) as store:
        group = store.topic("clicks").group("billing")
        peeked = [message.offset for message in group.peek(max_messages=COUNT)]
        assert peeked == list(consumed(group))
        with pytest.raises(DiskError, match=second_segment(root, "topic").name):
            group.peek()


def test_a_peek_shows_the_messages_of_partitions_that_can_be_read(root: Path) -> None:
    with Store.open(root, config=CONFIG, topic_config=TOPIC_CONFIG) as store:
        topic = store.topic("pairs", partitions=2)
        for partition in (0, 1):
            topic.append_batch([b"x" * 32 * KIB], partition=partition).result()
        topic.group("billing")
    name = "00000000000000000000.log"
    assert (root / "topics/pairs/1/segments" / name).exists()
    disk = UnreadableDisk({name: 4096}, under="topics/pairs/1/")
    with Store.open(
        root, config=CONFIG, topic_config=TOPIC_CONFIG, disk=disk, connector=connect
    ) as store:
        group = store.topic("pairs").group("billing")
        assert [message.partition for message in group.peek()] == [0]
        assert [message.partition for message in group.lease()] == [0]


@pytest.mark.parametrize("max_bytes", [None, 100 * KIB])
def test_a_peek_keeps_its_limits_when_a_partition_fails_after_some_messages(
    tmp_path: Path, max_bytes: int | None
) -> None:
    root = tmp_path / "root"
    with Store.open(root, topic_config=TOPIC_CONFIG) as store:
        topic = store.topic("clicks", partitions=2)
        for number in range(2 * COUNT):
            topic.append_batch([payload(number)], partition=number % 2).result()
        group = topic.group("billing")
        group.nack_all(group.lease(max_messages=2 * COUNT))  # so that the group knows them all
    folder = "topics/clicks/1/"  # the first to be asked
    second = sorted((root / folder).glob("segments/*.log"))[1]
    disk = UnreadableDisk({second.name: BAD_START}, under=folder)
    with Store.open(root, topic_config=TOPIC_CONFIG, disk=disk, connector=connect) as store:
        group = store.topic("clicks").group("billing")
        assert len(group.parts) == 2, "both are open, so that peek and lease take them in turn"
        peeked = group.peek(max_messages=120, max_bytes=max_bytes)
        leased = group.lease(max_messages=120, max_bytes=max_bytes)
        assert {message.partition for message in peeked} == {0, 1}
        assert len(peeked) <= 120
        assert sum(len(message.value or b"") for message in peeked) <= (max_bytes or MIB)
        assert [one[:2] for one in peeked] == [one[:2] for one in leased]


def test_lag_counts_every_offset_of_a_segment_that_cannot_be_read(tmp_path: Path) -> None:
    config = replace(TOPIC_CONFIG, compact=True)
    with Store.open(tmp_path / "root", topic_config=config) as store:
        topic = store.topic("clicks", partitions=1)
        for number in range(COUNT):
            topic.append_batch([payload(number)], key=b"%d" % number).result()
    bad = {second_segment(tmp_path / "root", "topic").name: BAD_START}
    for disk in (UnreadableDisk(bad), UnreadableDisk({})):
        with Store.open(
            tmp_path / "root", topic_config=config, disk=disk, connector=connect
        ) as store:
            group = store.topic("clicks").group("billing")
            assert (group.lag(), group.lag()) == ({0: COUNT}, {0: COUNT})


def test_a_group_goes_on_behind_a_bad_sector_once_the_topic_is_repaired(root: Path) -> None:
    with open_bad(root) as store:
        seen = list(consumed(store.topic("clicks").group("billing")))
    with open_bad(root) as store:
        (lost,) = repair_topic(store, "clicks", progress=lambda *_: None).lost
        assert lost.start == len(seen)
        assert lost.end - lost.start < 10
    with Store.open(root, config=CONFIG, topic_config=TOPIC_CONFIG) as store:  # a new file
        group = store.topic("clicks").group("billing")
        assert list(consumed(group)) == list(range(lost.end, COUNT))
