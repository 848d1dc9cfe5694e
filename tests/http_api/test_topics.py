"""Topics through the API: created, described, configured, deleted; and their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import damage, media, topics
from lakebed.api.topics import (
    AdvanceTopics,
    Configure,
    EnsuredTopic,
    NewTopic,
    PartitionState,
    Produce,
    Settings,
    Truncate,
)
from lakebed.base.damage_ledger import TOPICS, Loss
from lakebed.base.errors import (
    AlreadyExists,
    BadConfig,
    BadName,
    DiskError,
    InputError,
    NoSpace,
    NotFound,
)
from lakebed.client.address import Address
from lakebed.client.store import RemoteStore
from lakebed.seglake.meta.connection import connect
from lakebed.store.read_plan import TopicRange
from lakebed.stroma.config import GroupConfig
from tests.fakes.failing_disk import FailingDisk
from tests.fakes.unreadable_disk import SECTOR_BYTES, UnreadableDisk
from tests.http_api.live_api import LiveApi, open_api
from tests.http_api.waiters import delete_topics
from tests.store.queues import SMALL

ORDERS = {"topic": "orders"}
FIRST = {"topic": "orders", "partition": 0}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    root = tmp_path_factory.mktemp("api")
    with open_api(root, topic_config=SMALL) as live_api:
        yield live_api


@pytest.fixture
def live_api(live: LiveApi) -> Iterator[LiveApi]:
    yield live
    delete_topics(live)


def produce(live_api: LiveApi, *values: bytes, **fields: Any) -> None:
    live_api.call(topics.PRODUCE, ORDERS, body=Produce(list(values), **fields))


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_a_topic_is_created_listed_described_and_deleted(live_api: LiveApi, accept: str) -> None:
    new = NewTopic("orders", 2, {"retention_ms": 5000, "segment_bytes": "1MiB"})
    created = live_api.call(topics.CREATE_TOPIC, body=new, accept=accept)
    assert created.name == "orders"
    assert created.partitions == [PartitionState(0, 0, 0), PartitionState(1, 0, 0)]
    assert created.settings["retention_ms"] == 5000
    assert created.settings["segment_bytes"] == 1 << 20
    assert created.settings["index_stride_bytes"] == SMALL.index_stride_bytes, "the store's own"
    assert live_api.call(topics.DESCRIBE_TOPIC, ORDERS, accept=accept) == created
    assert live_api.call(topics.LIST_TOPICS, accept=accept).topics == ["orders"]
    live_api.call(topics.DELETE_TOPIC, ORDERS, accept=accept)
    assert live_api.call(topics.LIST_TOPICS, accept=accept).topics == []
    with pytest.raises(NotFound):
        live_api.call(topics.DESCRIBE_TOPIC, ORDERS)


def test_a_topic_that_is_there_is_not_created_again_but_ensured(live_api: LiveApi) -> None:
    live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 2))
    with pytest.raises(AlreadyExists):
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 2))
    assert live_api.ask("POST", "/v1/topics", b'{"name": "orders"}').status == 409
    for count in (None, 2):
        ensured = live_api.call(topics.ENSURE_TOPIC, ORDERS, body=EnsuredTopic(count))
        assert len(ensured.partitions) == 2
    with pytest.raises(InputError, match="has 2 partitions, not 3"):
        live_api.call(topics.ENSURE_TOPIC, ORDERS, body=EnsuredTopic(3))
    assert len(live_api.call(topics.ENSURE_TOPIC, {"topic": "new"}).partitions) == 1


def test_a_topic_made_anew_under_its_name_has_nothing_of_the_old_one(live_api: LiveApi) -> None:
    for _ in range(3):
        live_api.call(topics.ENSURE_TOPIC, ORDERS)
        produce(live_api, b"one", b"two")
        state = live_api.call(topics.DESCRIBE_TOPIC, ORDERS)
        assert state.partitions == [PartitionState(0, 0, 2)]
        live_api.call(topics.DELETE_TOPIC, ORDERS)
        with pytest.raises(NotFound):
            produce(live_api, b"three")


def test_settings_are_changed_for_the_next_opening(tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        live_api.call(topics.CONFIGURE_TOPIC, ORDERS, body=Configure({"retention_ms": 7000}))
        with pytest.raises(BadConfig, match="retention"):
            live_api.call(topics.CONFIGURE_TOPIC, ORDERS, body=Configure({"retentoin_ms": 1}))
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        assert live_api.call(topics.DESCRIBE_TOPIC, ORDERS).settings["retention_ms"] == 7000


def test_settings_are_compared_with_those_of_the_store(live_api: LiveApi) -> None:
    settings: Settings = {"request_bytes_max": "128KiB"}  # the store's messages are smaller
    for document in (NewTopic("orders", settings=settings), NewTopic("other")):
        live_api.call(topics.CREATE_TOPIC, body=document)
    live_api.call(topics.CONFIGURE_TOPIC, {"topic": "other"}, body=Configure(settings))
    assert live_api.call(topics.DESCRIBE_TOPIC, ORDERS).settings["request_bytes_max"] == 128 << 10
    refused: Settings = {"request_bytes_max": "32KiB"}
    with pytest.raises(BadConfig, match="contradict the store's"):
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("new", settings=refused))
    with pytest.raises(BadConfig, match="contradict the store's"):
        live_api.call(topics.CONFIGURE_TOPIC, ORDERS, body=Configure(refused))


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic(""), BadName),
        (NewTopic("."), BadName),
        (NewTopic("../aof"), BadName),
        (NewTopic("a/b"), BadName),
        (NewTopic("günther"), BadName),
        (NewTopic("x" * 250), BadName),
        (NewTopic("orders", 0), InputError),
        (NewTopic("orders", -1), InputError),
        (NewTopic("orders", 10_001), InputError),
        (NewTopic("orders", 1 << 70), InputError),
        (NewTopic("orders", 1, {"segment_bytes": -1}), BadConfig),
        (NewTopic("orders", 1, {"segment_bytes": "a lot"}), BadConfig),
        (NewTopic("orders", 1, {"compact": 7}), BadConfig),
        (NewTopic("orders", 1, {"ack": "after_lunch"}), BadConfig),
        (NewTopic("orders", 1, {"colour": "red"}), BadConfig),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_nothing_is_left(
    live_api: LiveApi, new: NewTopic, error: type[InputError]
) -> None:
    with pytest.raises(error):
        live_api.call(topics.CREATE_TOPIC, body=new, accept=media.JSON)
    assert live_api.call(topics.LIST_TOPICS).topics == []


@pytest.mark.parametrize("name", ["a/b", "%2e%2e", "günther", "..", "x" * 300, "a\n", "\x00"])
@pytest.mark.parametrize(
    "operation", [topics.DESCRIBE_TOPIC, topics.ENSURE_TOPIC, topics.DELETE_TOPIC]
)
def test_names_that_no_topic_has_are_told_apart_from_paths(
    live_api: LiveApi, operation: Any, name: str
) -> None:
    with pytest.raises(BadName):
        live_api.call(operation, {"topic": name})


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "orders", "colour": 1}',
        b'{"partitions": 1}',
        b'{"name": 7}',
        b'{"name": "orders", "partitions": "2"}',
        b'{"name": "orders", "settings": [1]}',
        b"[]",
        b"{",
        b"\xff",
        b"",
    ],
)
def test_a_document_that_is_none_is_refused(live_api: LiveApi, body: bytes) -> None:
    answer = live_api.ask("POST", "/v1/topics", body)
    assert (answer.status, answer.json["code"]) == (400, "bad-document")


@pytest.mark.parametrize(
    ("number", "status"), [("7", 404), ("x", 400), ("-1", 400), ("9" * 30, 400), ("99999", 404)]
)
def test_a_partition_that_is_not_there(live_api: LiveApi, number: str, status: int) -> None:
    live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
    path = f"/v1/topics/orders/partitions/{number}"
    for method, rest in (
        ("GET", "/messages"),
        ("GET", "/records"),
        ("GET", "/offset?timestamp_ms=1"),
        ("POST", "/seal"),
        ("POST", "/sync"),
    ):
        assert live_api.ask(method, path + rest).status == status, rest
    assert live_api.ask("POST", f"{path}/truncate", b'{"before": 1}').status == status


def test_a_moment_is_found(live_api: LiveApi) -> None:
    live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
    produce(live_api, b"a", b"b", b"c", timestamps_ms=[1000, 2000, 3000])
    for at_ms, offset in (
        (0, 0),
        (1000, 0),
        (1001, 1),
        (3000, 2),
        (3001, 3),
        (-5, 0),
        (1 << 70, 3),
    ):
        found = live_api.call(topics.OFFSET_FOR_TIME, FIRST, {"timestamp_ms": at_ms})
        assert found.offset == offset, at_ms
    assert live_api.ask("GET", "/v1/topics/orders/partitions/0/offset").status == 400
    assert live_api.ask("GET", "/v1/topics/orders/partitions/0/offset?timestamp_ms=x").status == 400


def test_a_partition_is_sealed_and_cut(live_api: LiveApi) -> None:
    live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
    assert not live_api.call(topics.SEAL_PARTITION, FIRST).is_sealed, "there is nothing"
    produce(live_api, b"a", b"b")
    assert live_api.call(topics.SEAL_PARTITION, FIRST).is_sealed
    produce(live_api, b"c")
    assert live_api.call(topics.TRUNCATE, FIRST, body=Truncate(2)).segments == 1
    state = live_api.call(topics.DESCRIBE_TOPIC, ORDERS)
    assert state.partitions == [PartitionState(0, 2, 3)]
    live_api.call(topics.TRUNCATE, FIRST, body=Truncate((1 << 63) - 1))
    state = live_api.call(topics.DESCRIBE_TOPIC, ORDERS)
    assert state.partitions == [PartitionState(0, 3, 3)]
    assert (
        live_api.ask("POST", "/v1/topics/orders/partitions/0/truncate", b'{"before": -1}').status
        == 400
    )


def test_what_was_only_written_is_synced(live_api: LiveApi) -> None:
    settings: Settings = {"ack": "after_write", "sync_ms_max": 60_000}
    live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 1, settings))
    produce(live_api, b"a")
    live_api.call(topics.SYNC_PARTITION, FIRST)
    assert live_api.call(topics.DESCRIBE_TOPIC, ORDERS).partitions == [PartitionState(0, 0, 1)]


def test_too_many_partitions_are_refused_before_anything_is_made(live_api: LiveApi) -> None:
    for operation, names, body in (
        (topics.CREATE_TOPIC, {}, NewTopic("many", 10_000)),
        (topics.ENSURE_TOPIC, {"topic": "many"}, EnsuredTopic(partitions=10_000)),
    ):
        with pytest.raises(InputError, match="a topic must have 1 to 1000"):
            live_api.call(operation, names, body=body)
    assert live_api.call(topics.LIST_TOPICS).topics == []
    assert not (Path(live_api.store.root) / "topics" / "many").exists()


def test_what_is_lost_is_listed_and_acknowledged(live_api: LiveApi) -> None:
    ledger = live_api.store.damage
    ledger.record(Loss(engine=TOPICS, name="gone", partition=0, problem="bad", path="topics/x"))
    [record] = live_api.call(damage.LIST_DAMAGE).records
    assert (record.name, record.problem, record.acknowledged_ms) == ("gone", "bad", None)
    assert record == ledger.list()[0]
    done = live_api.call(damage.ACKNOWLEDGE_DAMAGE, {"damage": record.id}).record
    assert done.acknowledged_ms is not None
    assert live_api.call(damage.LIST_DAMAGE).records == (done,)
    with pytest.raises(NotFound):
        live_api.call(damage.ACKNOWLEDGE_DAMAGE, {"damage": 99})
    assert live_api.store.counters()["store"]["damage"] == {"damage_unacknowledged": 0}


def test_topics_are_read_after_a_restart_on_a_full_disk(tmp_path: Path) -> None:
    disk = FailingDisk()
    settings: dict[str, Any] = {"disk": disk, "connector": connect}
    with open_api(tmp_path, topic_config=SMALL, **settings) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 2))
        produce(live_api, b"first", b"second", partition=0)
    disk.is_full = True
    with open_api(tmp_path, topic_config=SMALL, **settings) as live_api:
        state = live_api.call(topics.DESCRIBE_TOPIC, ORDERS)
        assert state.partitions == [PartitionState(0, 0, 2), PartitionState(1, 0, 0)]
        assert state == live_api.call(topics.ENSURE_TOPIC, ORDERS, body=EnsuredTopic(partitions=2))
        query = {"offset": 0}
        assert live_api.call(topics.FETCH, FIRST, query=query).values == [b"first", b"second"]
        assert live_api.call(topics.FETCH_RAW, FIRST, query=query)
        times = {"timestamp_ms": 0}
        assert live_api.call(topics.OFFSETS_FOR_TIME, ORDERS, query=times).offsets == [0, 0]
        limited = AdvanceTopics([TopicRange("orders", 0, 0, 2)], max_messages=1)
        assert live_api.call(topics.ADVANCE_TOPICS, body=limited).ends == [1]
        with RemoteStore(Address(path=live_api.socket_path)) as remote:
            partition = remote.topic("orders").partition(0)
            assert [message.value for message in partition.read()] == [b"first", b"second"]
        for _ in range(2):
            with pytest.raises(NoSpace):
                produce(live_api, b"third", partition=0)
        with pytest.raises(InputError):
            live_api.call(topics.ENSURE_TOPIC, ORDERS, body=EnsuredTopic(partitions=3))
        disk.is_full = False
        produce(live_api, b"third", partition=0)
        found = live_api.call(topics.FETCH, FIRST, query=query).values
        assert found == [b"first", b"second", b"third"]


def test_a_topic_is_deleted_with_its_dead_letters_on_a_full_disk(tmp_path: Path) -> None:
    disk = FailingDisk()
    settings: dict[str, Any] = {
        "disk": disk,
        "connector": connect,
        "topic_config": SMALL,
        "group_config": GroupConfig(delivery_count_max=1),
    }
    with open_api(tmp_path, **settings) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders"))
        produce(live_api, b"poison")
        group = live_api.store.topic("orders").group("billing")
        group.nack_all(group.lease())
        assert group.lease() == []
    disk.is_full = True
    with open_api(tmp_path, **settings) as live_api:
        assert live_api.call(topics.LIST_TOPICS).topics == ["orders", "orders.dead-letters"]
        live_api.call(topics.DELETE_TOPIC, ORDERS)
        assert live_api.call(topics.LIST_TOPICS).topics == []


def test_a_bad_sector_of_the_newest_segment_stops_no_reader_before_it_and_no_other_partition(
    tmp_path: Path,
) -> None:
    values = [b"%08d" % number + b"x" * 1000 for number in range(20)]
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        live_api.call(topics.CREATE_TOPIC, body=NewTopic("orders", 2))
        for partition in (0, 1):
            produce(live_api, *values, partition=partition)
    (path,) = tmp_path.rglob("topics/orders/0/segments/*.log")
    disk = UnreadableDisk({path.name: 2 * SECTOR_BYTES}, under="orders/0")
    with open_api(tmp_path, topic_config=SMALL, disk=disk, connector=connect) as live_api:
        found = live_api.call(topics.FETCH, FIRST, query={"offset": 0, "max_messages": 7}).values
        assert found == values[:7]
        with pytest.raises(DiskError, match=path.name):
            live_api.call(topics.FETCH, FIRST, query={"offset": 8})
        with pytest.raises(DiskError, match=path.name):
            produce(live_api, b"late", partition=0)
        produce(live_api, b"late", partition=1)
        second = {"topic": "orders", "partition": 1}
        assert live_api.call(topics.FETCH, second, query={"offset": 19}).values == [
            values[19],
            b"late",
        ]
