"""Topics: their names, their lives, their settings, and which partition a message goes to."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import UserDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakebed.base.errors import (
    AlreadyExists,
    BadConfig,
    BadName,
    Closed,
    Corrupt,
    InputError,
    LakebedError,
    NotFound,
    TooLarge,
    UnknownVersion,
)
from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.headers import Producer
from lakebed.keratin.partitioner import partition_of
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.topic_folder import topic_names
from lakebed.keratin.topics import Topics
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.kernels.disk import real_disk
from tests.fakes.stuck_disk import StuckDisk
from tests.keratin.partitions import append, content, replace, small, values


@pytest.fixture
def world() -> World:
    return World(2)


@pytest.fixture
def topics(world: World) -> Iterator[Topics]:
    topics = Topics(
        "/store", disk=world.disk, runner=world.runner, config=small(), random=Random(7)
    )
    yield topics
    topics.close()


def test_a_topic_is_created_opened_and_deleted(world: World, topics: Topics) -> None:
    assert topics.names() == []
    topic = topics.create("orders", partitions=3)
    assert topics.names() == ["orders"]
    assert topics.open("orders") is topic
    assert [partition.number for partition in topic.partitions] == [0, 1, 2]
    assert topic.append_batch([b"a"], partition=2).result() == (0, 1)
    topics.delete("orders")
    assert topics.names() == []
    assert not world.disk.exists("/store/topics/orders")
    with pytest.raises(NotFound, match="there is no topic orders"):
        topics.open("orders")
    with pytest.raises(NotFound):
        topics.delete("orders")
    with pytest.raises(Closed):
        topic.append_batch([b"b"])
    assert values(topics.create("orders").partition(0)) == [], "nothing of the old one is there"


def test_topics_are_there_after_a_restart(world: World, topics: Topics) -> None:
    topic_id = topics.create("orders", partitions=2).identity.topic_id
    append(topics.open("orders").partition(1), b"kept")
    topics.create("a.b_c-D")
    topics.close()
    again = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    assert again.names() == ["a.b_c-D", "orders"]
    topic = again.open("orders")
    assert topic.identity.topic_id == topic_id
    assert len(topic_id) == 32
    assert values(topic.partition(1)) == [b"kept"]
    again.close()


def test_two_topics_have_not_the_same_id(topics: Topics) -> None:
    first, second = topics.create("one"), topics.create("two")
    assert first.identity.topic_id != second.identity.topic_id


def test_a_topic_is_not_created_twice(topics: Topics, world: World) -> None:
    topics.create("orders")
    with pytest.raises(AlreadyExists):
        topics.create("orders")
    topics.close()
    again = Topics("/store", disk=world.disk, runner=world.runner)
    with pytest.raises(AlreadyExists):
        again.create("orders")
    again.close()


HOSTILE = [
    "", ".", "..", "a/b", "../x", "/etc", "a\\b", "a b", "a\0b", "a\n", "é", "a" * 250, "٣", "a:b",
    "-" * 250, "orders/../x", "%2e%2e", "a*",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_leave_the_folder_are_refused(
    world: World, topics: Topics, name: str
) -> None:
    steps = world.disk.steps
    for use in (topics.create, topics.open, topics.delete, topics.identity):
        with pytest.raises(BadName):
            use(name)
    assert world.disk.steps == steps, "nothing was touched"


@pytest.mark.parametrize("name", ["a", "..a", "...", "_", "-", "0", "a" * 249, "A.b_c-9"])
def test_names_that_kafka_has_can_be_had(topics: Topics, name: str) -> None:
    topics.create(name)
    assert name in topics.names()


def test_what_is_no_topic_is_not_listed(world: World, topics: Topics) -> None:
    topics.create("orders")
    world.disk.make_folder("/store/topics/half")
    world.disk.make_folder("/store/topics/not a name")
    world.disk.create("/store/topics/file").close()
    assert topics.names() == topic_names(world.disk, "/store") == ["orders"]
    assert topic_names(world.disk, "/elsewhere") == []


@pytest.mark.parametrize("count", [0, -1, 1001, 10_000])
def test_there_is_a_least_and_a_most_of_partitions(topics: Topics, count: int) -> None:
    with pytest.raises(InputError):
        topics.create("orders", partitions=count)
    assert topics.names() == []


@pytest.mark.parametrize("nth", [1, 5, 14])
def test_a_topic_that_could_not_be_made_leaves_nothing(
    world: World, topics: Topics, nth: int
) -> None:
    world.disk.faults.fail("create", nth=nth, code=errno.EMFILE)
    with pytest.raises(LakebedError, match="Too many open files"):
        topics.create("orders", partitions=4)
    assert topics.names() == []
    assert world.disk.names("/store/topics") == []
    assert len(topics.create("orders", partitions=4).partitions) == 4


def test_what_a_crash_left_of_creations_and_deletions_is_removed(
    world: World, topics: Topics
) -> None:
    topics.create("orders")
    topics.close()
    for name in ("+creating-1", "+deleting-2"):
        world.disk.make_folder(f"/store/topics/{name}")
        world.disk.create(f"/store/topics/{name}/file").close()
    Topics("/store", disk=world.disk, runner=world.runner).close()
    assert world.disk.names("/store/topics") == ["orders"]


def test_what_cannot_be_removed_of_a_change_of_settings_prevents_no_opening(
    world: World, topics: Topics
) -> None:
    topics.create("orders")
    topics.close()
    temporary = f"{TopicPaths('/store', 'orders').identity}.7.tmp"
    world.disk.create(temporary).close()
    world.disk.faults.fail("unlink")
    reopened = Topics("/store", disk=world.disk, runner=world.runner)
    assert reopened.open("orders").partition_count == 1
    reopened.close()
    assert world.disk.exists(temporary)
    Topics("/store", disk=world.disk, runner=world.runner).close()
    assert not world.disk.exists(temporary), "the next opening tries again"


def test_settings_differ_from_the_stores_and_take_units(world: World, topics: Topics) -> None:
    settings = {"retention_ms": "2h", "segment_bytes": "1MiB", "ack": "after_write"}
    topic = topics.create("orders", settings=settings)
    assert topic.config.retention_ms == 7_200_000
    assert topic.config.segment_bytes == 1 << 20
    assert topic.config.ack_level is Ack.AFTER_WRITE
    assert topic.config.message_bytes_max == small().message_bytes_max, "the store's own"
    document = json.loads(content(world.disk, TopicPaths("/store", "orders").identity))
    assert document["config"] == {
        "segment_bytes": 1 << 20, "ack": "after_write", "retention_ms": 7_200_000,
    }  # fmt: skip
    assert (document["format"], document["version"]) == ("lakebed topic", 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"no_such": 1},
        {"retention_ms": -1},
        {"segment_bytes": "much"},
        {"ack": "after_replicated"},
        {"ack": "sometimes"},
        {"message_bytes_max": 300 * 1024},  # more than an append may have in this store
    ],
)
def test_wrong_settings_make_no_topic(topics: Topics, settings: dict[str, Any]) -> None:
    with pytest.raises(BadConfig):
        topics.create("orders", settings=settings)
    assert topics.names() == []
    topics.create("orders")
    with pytest.raises(BadConfig):
        topics.configure("orders", settings)
    assert topics.identity("orders").settings == {}


def test_settings_are_compared_with_the_stores_and_not_with_the_built_in_ones(
    world: World, topics: Topics
) -> None:
    settings = {"request_bytes_max": "200KiB"}  # less than the built-in `message_bytes_max`
    topics.create("orders", settings=settings)
    topics.create("other")
    topics.configure("other", settings)
    with pytest.raises(BadConfig, match="topic other: its settings contradict the store's"):
        topics.configure("other", {"request_bytes_max": "100KiB"})
    topics.close()
    again = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    for name in ("orders", "other"):
        config = again.open(name).config
        assert (config.request_bytes_max, config.message_bytes_max) == (200 * KIB, 128 * KIB)
    again.close()
    larger = small(message_bytes_max=201 * KIB)
    later = Topics("/store", disk=world.disk, runner=world.runner, config=larger)
    with pytest.raises(BadConfig, match="topic orders: its settings contradict the store's"):
        later.open("orders")
    later.configure("orders", {"message_bytes_max": "1KiB"})
    assert later.open("orders").config.message_bytes_max == KIB
    later.close()


def test_settings_are_changed_for_the_next_opening(world: World, topics: Topics) -> None:
    topic = topics.create("orders", settings={"retention_ms": 1000})
    topics.configure("orders", {"retention_bytes": 5000})
    topics.configure("orders", {"retention_bytes": 6000})
    assert topic.config.retention_bytes == 0
    topics.close()
    again = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    reopened = again.open("orders")
    assert (reopened.config.retention_ms, reopened.config.retention_bytes) == (1000, 6000)
    assert reopened.identity.topic_id == topic.identity.topic_id
    with pytest.raises(NotFound):
        again.configure("missing", {})
    again.close()


@pytest.mark.parametrize("seed", range(10))
def test_settings_that_are_changed_at_once_are_all_kept(seed: int) -> None:
    world = World(seed)
    topics = Topics("/store", disk=world.disk, runner=world.runner, config=small())
    topics.create("orders")
    changes = {"retention_bytes": 5000, "retention_ms": 1000, "compact": True}
    for name, value in changes.items():
        world.runner.call(name, partial(topics.configure, "orders", {name: value}))
    world.runner.run()
    assert topics.identity("orders").settings == changes
    topics.close()


def test_a_topic_that_is_created_again_while_it_is_configured_keeps_its_new_id(
    world: World, topics: Topics
) -> None:
    class SlowSettings(UserDict[str, object]):
        def __iter__(self) -> Iterator[str]:
            world.runner.sleep_ns(10)
            return super().__iter__()

    def create_again() -> str:
        world.runner.sleep_ns(15)  # until the old settings have been read
        topics.delete("orders")
        return topics.create("orders").topic_id

    topics.create("orders")
    settings = SlowSettings(retention_ms=1000)
    world.runner.call("configure", partial(topics.configure, "orders", settings))
    created = world.runner.call("create again", create_again)
    world.runner.run()
    assert topics.identity("orders").topic_id == created.result()


GOOD_START = b'{"format": "lakebed topic", "version": 1, "topic_id": "x", "partitions": 1'


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (b"", Corrupt),
        (b"{}", Corrupt),
        (b"[1]", Corrupt),
        (b"\xff", Corrupt),
        (b'{"format": "other", "version": 1}', Corrupt),
        (b'{"format": "lakebed topic", "version": 2}', UnknownVersion),
        (b'{"format": "lakebed topic", "version": 1}', Corrupt),
        (b'{"format": "lakebed topic", "version": 1, "topic_id": "x", "partitions": 0}', Corrupt),
        (b'{"format": "lakebed topic", "version": 1, "topic_id": 5, "partitions": 1}', Corrupt),
        (
            b'{"format": "lakebed topic", "version": 1, "topic_id": "x", "partitions": true}',
            Corrupt,
        ),
        (GOOD_START + b', "config": {"new": 1}}', BadConfig),
        (GOOD_START + b', "config": 5}', Corrupt),
        (b"[" * 10_000, Corrupt),
    ],
)
def test_a_damaged_topic_file_is_told(
    world: World, topics: Topics, document: bytes, error: type[Exception]
) -> None:
    topics.create("orders")
    topics.close()
    replace(world.disk, TopicPaths("/store", "orders").identity, document)
    again = Topics("/store", disk=world.disk, runner=world.runner)
    with pytest.raises(error, match=r"topic\.json"):
        again.open("orders")
    again.close()


def test_keys_choose_their_partition_and_the_others_take_turns(topics: Topics) -> None:
    topic = topics.create("orders", partitions=3)
    for key in (b"a", b"b", b"c", b"d"):
        future = topic.append_batch([b"1", b"2"], key=key)
        assert future.partition == partition_of(key, 3)
        base, _ = future.result()
        message = topic.partition(future.partition).get(base)
        assert (message.key, message.value) == (key, b"1")
    turns = [topic.append_batch([b"x"]).partition for _ in range(6)]
    assert turns[:3] == turns[3:]
    assert sorted(turns[:3]) == [0, 1, 2]
    for number in (-1, 3):
        with pytest.raises(NotFound):
            topic.append_batch([b"x"], partition=number)
    with pytest.raises(InputError):
        topic.append_batch([b"x"], key="text")  # type: ignore[arg-type]


def test_pairs_of_key_and_payload_go_each_to_its_own(topics: Topics) -> None:
    topic = topics.create("orders", partitions=4)
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (b"k%d" % (number % 5), b"%d" % number) for number in range(20)
    ]
    pairs += [(None, b"loose 1"), (b"k1", None), (None, b"loose 2")]
    futures = topic.append_keyed(pairs)
    assert sum(future.result().message_count for future in futures) == len(pairs)
    for key in {key for key, _ in pairs if key is not None}:
        found = [
            message.value
            for message in topic.partition(topic.partition_for(key)).scan_from(0)
            if message.key == key
        ]
        assert found == [value for one, value in pairs if one == key]
    loose = [partition for partition in topic.partitions if b"loose 1" in values(partition)]
    assert b"loose 2" in values(loose[0])


def test_a_producers_messages_need_a_partition_or_a_key(topics: Topics) -> None:
    topic = topics.create("orders", partitions=2)
    with pytest.raises(InputError, match="a partition or a key"):
        topic.append_batch([b"x"], producer=Producer(7, 0, 0))
    assert topic.append_batch([b"x"], producer=Producer(7, 0, 0), partition=1).result() == (0, 1)
    assert topic.append_batch([b"x"], producer=Producer(7, 0, 0), partition=1).result() == (0, 1)
    topic.append_batch([b"x"], producer=Producer(8, 0, 0), key=b"k").result()
    alone = topics.create("alone")
    assert alone.append_batch([b"x"], producer=Producer(7, 0, 0)).result() == (0, 1)


def test_a_reader_of_a_deleted_topic_ends_with_an_error_of_ours(topics: Topics) -> None:
    partition = topics.create("orders").partition(0)
    for _ in range(5):
        append(partition, bytes(10_000))
    reading = partition.scan_from(0)
    next(reading)
    topics.delete("orders")
    with pytest.raises((Closed, OffsetOutOfRange, Corrupt, NotFound)):
        list(reading)


def test_those_who_wait_for_messages_of_a_deleted_topic_are_woken(
    world: World, topics: Topics
) -> None:
    partition = topics.create("orders").partition(0)
    waiting = world.runner.call("waiting", lambda: partition.wait_beyond(0, None))
    world.runner.settle()
    topics.delete("orders")
    world.runner.run()
    with pytest.raises(Closed):
        waiting.result()


def test_closed_topics_open_nothing(world: World) -> None:
    topics = Topics("/store", disk=world.disk, runner=world.runner)
    topics.create("orders")
    topics.close()
    topics.close()
    for use in (topics.create, topics.open, topics.delete):
        with pytest.raises(Closed):
            use("orders")


def test_on_the_real_disk_a_topic_lives_through_it_all(tmp_path: Path) -> None:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topic = topics.create("orders", partitions=2)
        futures = [topic.append_batch([b"%d" % number] * 3, partition=0) for number in range(50)]
        assert [future.result(30).message_count for future in futures] == [3] * 50
        topics.close()
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        assert len(values(topics.open("orders").partition(0))) == 150
        topics.delete("orders")
        assert os.listdir(tmp_path / "topics") == []
        topics.close()


def test_the_default_settings_are_those_of_the_format_page() -> None:
    config = TopicConfig()
    assert (config.segment_bytes, config.index_stride_bytes) == (256 << 20, 64 << 10)
    assert (config.batch_bytes_max, config.batch_count_max) == (1 << 20, 4096)
    assert (config.linger_ms_max, config.queue_count_max, config.open_segments_max) == (5, 1024, 64)
    assert config.ack_level is Ack.AFTER_FSYNC


def test_messages_of_many_keys_are_refused_together(topics: Topics) -> None:
    topic = topics.create("many", partitions=4)
    keyed = [(b"key %d" % number, b"value") for number in range(20)]
    with pytest.raises(TooLarge):
        topic.append_keyed([*keyed, (b"key 21", bytes(200 * KIB))])
    assert [partition.high_watermark() for partition in topic.partitions] == [0, 0, 0, 0]
    for future in topic.append_keyed(keyed):
        future.result()
    assert sum(partition.high_watermark() for partition in topic.partitions) == 20


class MeetingDisk(RealDisk):
    """Opening a manifest waits until the others are being opened, too."""

    def __init__(self, count: int) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._meeting = threading.Barrier(count, timeout=60)
        self.met_count = 0

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        if os.fspath(path).endswith("manifest.bin"):
            self._meeting.wait()
            self.met_count += 1
        return super().open(path, writable=writable)


def test_partitions_of_a_topic_are_opened_at_the_same_time(tmp_path: Path) -> None:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topic = topics.create("orders", partitions=4)
        for number in range(4):
            append(topic.partition(number), b"%d" % number)
        topics.close()
    disk = MeetingDisk(4)
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=disk, runner=runner, config=small())
        partitions = topics.open("orders").partitions
        assert disk.met_count == 4
        assert [values(partition) for partition in partitions] == [[b"0"], [b"1"], [b"2"], [b"3"]]
        topics.close()


def test_partitions_that_are_open_are_served_while_another_is_recovered(tmp_path: Path) -> None:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topics.create("orders", partitions=4)
        topics.close()
    disk = StuckDisk(2)
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=disk, runner=runner, config=small())
        topic = topics.open("orders")
        disk.is_reached.wait()
        assert [append(topic.partition(number), b"a") for number in (0, 1, 3)] == [0, 0, 0]
        assert topic.opened_partition(2) is None
        unkeyed = {topic.append_batch([b"b"]).partition for _ in range(6)}
        assert unkeyed == {0, 1, 3}
        disk.go_on.set()
        assert append(topic.partition(2), b"a") == 0
        assert topic.is_whole
        topics.close()


def test_a_topic_that_is_closed_while_it_is_opened_leaves_nothing_open(tmp_path: Path) -> None:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topics.create("orders", partitions=4)
        topics.close()
    disk = StuckDisk(2)
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=disk, runner=runner, config=small())
        topic = topics.open("orders")
        disk.is_reached.wait()
        closing = threading.Thread(target=topics.close)
        closing.start()
        disk.go_on.set()
        closing.join()
        with pytest.raises(Closed):
            topic.partition(2).append_batch([b"a"])
        with pytest.raises(Closed):
            topics.open("orders")


def test_a_partition_that_cannot_be_opened_stops_no_other(tmp_path: Path) -> None:
    with ThreadRunner() as runner:
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topics.create("orders", partitions=4)
        topics.close()
        manifest = TopicPaths(tmp_path, "orders").partition(2).manifest
        kept = Path(manifest).read_bytes()
        Path(manifest).write_bytes(kept[:8] + b"\0\2" + kept[10:])
        topics = Topics(tmp_path, disk=real_disk(), runner=runner, config=small())
        topic = topics.open("orders")
        for number in (0, 1, 3):
            assert append(topic.partition(number), b"a") == 0
        for _ in range(2):
            with pytest.raises(UnknownVersion):
                topic.partition(2)
        with pytest.raises(UnknownVersion):
            list(topic.partitions)
        assert topic.append_batch([b"b"]).partition != 2
        Path(manifest).write_bytes(kept)
        assert append(topic.partition(2), b"a") == 0
        topics.close()
