"""Topics and partitions: the same embedded, over the socket and over TCP."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import Any

import pytest

from lakebed.base.errors import AlreadyExists, BadName, Busy, Closed, InputError, NotFound, TooLarge
from lakebed.client.store import RemoteStore
from lakebed.keratin.append_future import AppendFuture
from lakebed.keratin.config import Ack, TopicConfig
from lakebed.keratin.errors import AppendedPart, OffsetOutOfRange, PartlyAppended
from lakebed.keratin.message import Message
from lakebed.keratin.partitioner import partition_of
from lakebed.keratin.raw_records import run_in
from lakebed.keratin.record_batch import build
from lakebed.store.staged_batch import CommittedPartition, StagedObject
from lakebed.store.store import Store
from tests.client.scripted import GIVE_UP_S
from tests.http_api.live_api import LiveApi


def test_topics_are_created_listed_configured_and_deleted(store: Any) -> None:
    assert store.topics.names() == []
    topic = store.topics.create("orders", partitions=3, settings={"message_bytes_max": 1000})
    assert (topic.name, len(topic.partitions)) == ("orders", 3)
    assert topic.config == TopicConfig(message_bytes_max=1000)
    with pytest.raises(AlreadyExists):
        store.topics.create("orders")
    assert store.topics.open("orders").config == topic.config
    assert len(store.topic("orders").partitions) == 3
    with pytest.raises(InputError, match="has 3 partitions, not 2"):
        store.topic("orders", partitions=2)
    with pytest.raises(NotFound):
        store.topics.open("other")
    with pytest.raises(InputError):
        store.topics.create("Bad/Name")
    with pytest.raises(InputError, match="nonsense"):
        store.topics.configure("orders", {"nonsense": 1})
    store.topics.configure("orders", {"retention_ms": 5})
    assert store.topics.names() == ["orders"]
    store.topics.delete("orders")
    assert store.topics.names() == []
    with pytest.raises(NotFound):
        store.topics.delete("orders")


def test_messages_are_appended_and_read(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    assert partition.name == "orders-0"
    appended = partition.append_batch(
        [b"a", None, memoryview(b"c")],
        keys=[b"k", b"gone", None],
        headers=[[("h", b"1"), ("none", None)], [], []],
        timestamps_ms=[1, 2, 3],
    )
    assert appended.result() == (0, 3)
    assert appended.done()
    assert appended.exception() is None
    assert appended.partition == 0
    told: list[object] = []
    appended.add_done_callback(told.append)
    assert told == [appended]
    expected = [
        Message(0, 1, b"k", b"a", (("h", b"1"), ("none", None)), 0),
        Message(1, 2, b"gone", None, (), 1),
        Message(2, 3, None, b"c", (), 0),
    ]
    assert list(partition.read()) == expected
    assert list(partition.scan_from(1)) == expected[1:]
    assert list(partition.scan_from(0, max_messages=2)) == expected[:2]
    assert list(partition.scan_from(0, max_messages=0)) == []
    assert list(partition.scan_from(0, max_bytes=1)) == expected[:1]
    assert list(partition.read(1, 2)) == expected[1:2]
    assert list(partition.read(0, 99)) == expected
    assert [list(batch) for batch in partition.read_batches(0)] == [expected]
    assert partition.get(2) == expected[2]
    assert partition.offset_for_time(2) == 1
    assert partition.offset_for_time(9) == 3
    assert (partition.start_offset(), partition.high_watermark()) == (0, 3)


def test_reading_beyond_what_is_there_is_an_error_at_once(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    partition.append_batch([b"a"]).result()
    for read in (partition.read, partition.read_batches, partition.scan_from, partition.get):
        with pytest.raises(OffsetOutOfRange) as told:
            read(7)
        assert (told.value.start_offset, told.value.high_watermark) == (0, 1)
    with pytest.raises(OffsetOutOfRange):
        partition.fetch(7, max_bytes=10)
    with pytest.raises(InputError, match="before the start"):
        partition.read(1, 0)
    assert list(partition.read(1)) == []
    with pytest.raises(NotFound):
        partition.get(1)
    with pytest.raises(InputError):
        partition.scan_from(0, max_messages=-1)


def test_keys_choose_partitions_as_they_do_elsewhere(store: Any) -> None:
    topic = store.topic("orders", partitions=4)
    pairs = [(b"key %d" % number, b"%d" % number) for number in range(40)]
    futures = topic.append_keyed([*pairs, (None, b"free"), (None, b"also free")])
    assert sum(future.result()[1] for future in futures) == 42
    for number, partition in enumerate(topic.partitions):
        for message in partition.read():
            if message.key is not None:
                assert partition_of(message.key, 4) == number
    one = topic.append_batch([b"x"], key=b"key 1")
    assert one.partition == partition_of(b"key 1", 4)
    turns = [topic.append_batch([b"y"]).partition for _ in range(8)]
    assert sorted(turns) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert topic.append_batch([b"z"], partition=2).partition == 2


def test_of_keyed_messages_all_are_appended_or_none(store: Any) -> None:
    topic = store.topics.create("orders", partitions=4, settings={"message_bytes_max": 100})
    pairs = [(b"key %d" % number, b"ok") for number in range(20)]
    with pytest.raises(TooLarge):
        topic.append_keyed([*pairs, (b"key 1", b"x" * 200)])
    with pytest.raises(InputError):
        topic.append_keyed([*pairs, (None, None)])
    with pytest.raises(InputError):
        topic.append_keyed([*pairs, ("text", b"ok")])
    assert [partition.high_watermark() for partition in topic.partitions] == [0] * 4


def test_what_is_appended_in_part_says_what_is_there(
    store: Any, request: pytest.FixtureRequest
) -> None:
    topic = store.topic("orders", partitions=3)
    pairs = [(b"key %d" % number, b"%d" % number) for number in range(20)]
    counts = Counter(partition_of(key, 3) for key, _ in pairs)
    own = store if isinstance(store, Store) else request.getfixturevalue("live_api").store
    barrier = own.topic("orders").partition(1)._barrier
    with barrier._mutex:  # as if its queue were full of what is on its way to the disk
        barrier._pending_count += topic.config.queue_count_max
    with pytest.raises(PartlyAppended, match="orders-1: the queue of writes is full") as told:
        topic.append_keyed(pairs, timeout=0)
    assert told.value.appended == (AppendedPart(0, 0, counts[0]),)
    with pytest.raises(Busy):
        topic.append_keyed([pair for pair in pairs if partition_of(pair[0], 3) == 1], timeout=0)
    with barrier._mutex:
        barrier._pending_count -= topic.config.queue_count_max
    rest = [pair for pair in pairs if partition_of(pair[0], 3) != 0]
    assert [one.result() for one in topic.append_keyed(rest)] == [(0, counts[1]), (0, counts[2])]


WRONG: list[dict[str, Any]] = [
    {"payloads": []},
    {"payloads": b"not a list"},
    {"payloads": ["text"]},
    {"payloads": [None]},
    {"payloads": [b"a"], "headers": [[("name", "text")]]},
    {"payloads": [b"a"], "headers": [[(1, b"x")]]},
    {"payloads": [b"a"], "headers": []},
    {"payloads": [b"a"], "timestamps_ms": [1, 2]},
    {"payloads": [b"a"], "timestamps_ms": -1},
    {"payloads": [b"a"], "ack": "after_fsync"},
    {"payloads": [b"a"], "ack": Ack.AFTER_REPLICATED},
    {"payloads": [b"a"], "not_before_ms": -1},
    {"payloads": [b"a"], "partition": 9},
    {"payloads": [b"x" * 2000]},
    {"payloads": [b"a"], "producer": (1, 2)},
    {"payloads": [b"a"], "producer": (-1, 0, 0), "partition": 0},
]


def test_what_is_wrong_with_an_append_is_raised_by_it(store: Any) -> None:
    topic = store.topics.create("orders", partitions=2, settings={"message_bytes_max": 1000})
    for wrong in WRONG:
        with pytest.raises(InputError):
            topic.append_batch(**wrong)
    assert [partition.high_watermark() for partition in topic.partitions] == [0, 0]


def test_a_partition_is_sealed_truncated_and_synced(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    assert partition.seal() is False
    for number in range(3):
        partition.append_batch([b"%d" % number], ack=Ack.AFTER_WRITE).result()
        partition.sync()
        assert partition.seal() is True
    found = partition.segments()
    assert [(one.base_offset, one.next_offset, one.is_sealed) for one in found] == [
        (0, 1, True),
        (1, 2, True),
        (2, 3, True),
        (3, 3, False),
    ]
    assert partition.truncate_before(2) == 2
    assert partition.start_offset() == 2
    assert [message.value for message in partition.read()] == [b"2"]
    with pytest.raises(OffsetOutOfRange):
        partition.read(0)


def test_raw_records_are_those_of_the_log(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    partition.append_batch([b"x" * 100 for _ in range(50)]).result()
    offset, found = 0, 0
    while offset < 50:
        data, base_offset, next_offset = partition.fetch(offset, max_bytes=1000)
        assert base_offset == offset
        run = run_in(data, name="test")
        assert run is not None
        assert 1 <= run.record_count < 10
        found += run.record_count
        offset = next_offset
    assert found == 50
    assert partition.fetch(50, max_bytes=1000)[1:] == (50, 50)


def test_many_pages_are_read_one_after_the_other(remote: RemoteStore) -> None:
    partition = remote.topic("orders").partition(0)
    for number in range(30):
        partition.append_batch([b"%d" % number * 50] * 20).result()
        if number % 10 == 0:
            partition.seal()
    whole = list(partition.read())
    assert [message.offset for message in whole] == list(range(600))
    small = list(itertools.chain(*partition.read_batches(batch_bytes_max=1000)))
    assert small == whole
    assert list(partition.read(17, 301)) == whole[17:301]


def test_what_comes_behind_the_end_of_a_read_is_not_of_it(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    partition.append_batch([b"a"]).result()
    found = partition.read()
    partition.append_batch([b"b"]).result()
    assert [message.value for message in found] == [b"a"]


def test_a_follower_waits_for_more_and_ends_when_it_is_closed(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    partition.append_batch([b"a", b"b"]).result()
    follower = partition.follow()
    assert next(follower).value == b"a"
    assert follower.position == 1
    assert [message.value for message in follower.next_batch()] == [b"b"]
    assert follower.next_batch(0) is None
    appended = threading.Thread(target=lambda: partition.append_batch([b"c"]).result())
    appended.start()
    assert next(follower).value == b"c"
    appended.join()
    found: list[Message] = []
    reader = threading.Thread(target=lambda: found.extend(follower))
    reader.start()
    partition.append_batch([b"d"]).result()
    assert partition.wait_beyond(3, GIVE_UP_S)
    follower.close()
    reader.join(GIVE_UP_S)
    assert not reader.is_alive()
    with pytest.raises(Closed):
        follower.next_batch()
    with partition.follow(3) as other:
        assert next(other).value == b"d"


def test_waiting_ends_with_a_message_or_with_the_time(store: Any) -> None:
    partition = store.topic("orders").partition(0)
    assert partition.wait_beyond(0, 0) is False
    assert partition.wait_beyond(0, 0.01) is False
    appended = threading.Thread(target=lambda: partition.append_batch([b"a", b"b"]).result())
    appended.start()
    assert partition.wait_beyond(1, GIVE_UP_S) is True
    appended.join()
    assert partition.wait_beyond(1, 0) is True


def test_what_was_damaged_on_the_way_is_found(remote: RemoteStore) -> None:
    from lakebed.base.errors import Corrupt
    from lakebed.keratin.raw_records import batches_in

    partition = remote.topic("orders").partition(0)
    partition.append_batch([b"value"] * 3).result()
    data = bytearray(partition.fetch(0, max_bytes=10_000).data)
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(Corrupt):
            list(batches_in(damaged, start=0, end=3, name="orders-0"))


def test_damage_is_not_skipped_over_the_wire(remote: RemoteStore) -> None:
    with pytest.raises(InputError, match="skip_damage"):
        remote.topic("orders").partition(0).read(skip_damage=True)


def test_an_append_gives_what_an_embedded_one_gives(remote: RemoteStore) -> None:
    future = remote.topic("orders").append_batch([b"a"])
    for name in vars(AppendFuture):
        if not name.startswith("_"):
            assert hasattr(future, name), name
    assert future.wait() == future.result(0) == (0, 1)


def test_names_that_cannot_be_in_a_path(remote: RemoteStore) -> None:
    with pytest.raises(BadName):
        remote.topics.open("")
    with pytest.raises(InputError):
        remote.topics.open("../x")


def test_staged_batches_are_committed_once(store: Any) -> None:
    topic = store.topic("orders", partitions=2)
    batch = build([b"a", b"b"], timestamps_ms=1)
    store.bucket("staging").put("k", batch)
    batches = {1: [batch, StagedObject("staging", "k")], 0: [memoryview(batch)]}
    for is_new in (True, False):
        assert topic.commit_batches("app", 7, batches) == [
            CommittedPartition(0, is_new, 0, 2),
            CommittedPartition(1, is_new, 0, 4),
        ]
    assert topic.commit_batches("app", 6, {0: [batch]}) == [CommittedPartition(0, False, None, 0)]
    assert [one.value for one in topic.partition(0).read()] == [b"a", b"b"]
    with pytest.raises(InputError):
        topic.commit_batches("app", 8, {0: [b"no batch"]})
    with pytest.raises(InputError):
        topic.commit_batches("app", 8, {0: [7]})
    with pytest.raises(InputError):
        topic.commit_batches("app", 8, {9: [batch]})


def test_a_partition_that_vanished_says_so(remote: RemoteStore, live_api: LiveApi) -> None:
    topic = remote.topic("orders")
    live_api.store.topics.delete("orders")
    with pytest.raises(NotFound):
        topic.append_batch([b"x"])
    with pytest.raises(NotFound):
        topic.partition(0).high_watermark()


def test_a_topic_is_followed_over_all_its_partitions(store: Any) -> None:
    topic = store.topic("orders", partitions=3)
    topic.append_batch([b"a", b"b"], partition=0).result()
    topic.append_batch([b"c"], partition=2).result()
    found: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}

    def take(count: int) -> None:
        while sum(map(len, found.values())) < count:
            partition, batch = follower.next_batch(60)
            found[partition] += [message.value for message in batch]

    with topic.follow() as follower:
        take(3)
        assert follower.next_batch(0) is None
        topic.append_batch([b"d"], partition=1).result()
        take(4)
        assert found == {0: [b"a", b"b"], 1: [b"d"], 2: [b"c"]}
        assert follower.positions == {0: 2, 1: 1, 2: 1}
    with topic.follow({0: 1}) as follower:
        partition, batch = follower.next_batch(60)
        assert (partition, [message.value for message in batch]) == (0, [b"b"])
        assert follower.positions == {0: 2}
