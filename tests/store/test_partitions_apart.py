"""One partition that is being recovered, or cannot be opened, holds up no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import groups as groups_api
from lakebed.api import topics as topics_api
from lakebed.api.groups import LeaseRequest
from lakebed.api.topics import Produce
from lakebed.base.errors import Corrupt
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.meta.connection import connect
from lakebed.store.store import Store
from lakebed.store.topic_repair import repair_topic
from tests.fakes.stuck_disk import StuckDisk
from tests.http_api.live_api import LiveApi, open_api

SMALL = TopicConfig(segment_bytes=1 << 16)


def filled(root: Path) -> None:
    """Four partitions with a message each, and a group that has leased none."""
    with Store.open(root, topic_config=SMALL) as store:
        topic = store.topic("orders", partitions=4)
        topic.group("billing")
        for number in range(4):
            topic.append_batch([b"%d" % number], partition=number).result()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[tuple[Store, StuckDisk]]:
    filled(tmp_path)
    disk = StuckDisk(2)
    settings: dict[str, Any] = {"disk": disk, "connector": connect}
    with Store.open(tmp_path, topic_config=SMALL, **settings) as store:
        try:
            yield store, disk
        finally:
            disk.go_on.set()


def test_a_lease_is_served_from_the_partitions_that_are_open(
    stuck: tuple[Store, StuckDisk],
) -> None:
    store, disk = stuck
    topic = store.topic("orders")
    for number in (0, 1, 3):
        topic.partition(number)
    group = topic.group("billing")
    leased = [group.lease(max_messages=1) for _ in range(3)]
    assert {one.value for [one] in leased} == {b"0", b"1", b"3"}
    for [message] in leased:
        group.ack(message)
    assert disk.is_reached.is_set()
    disk.go_on.set()
    assert [one.value for one in group.lease()] == [b"2"]
    assert group.lag() == {0: 0, 1: 0, 2: 1, 3: 0}


def test_a_change_in_a_partition_that_was_opened_late_wakes_a_consumer(
    stuck: tuple[Store, StuckDisk],
) -> None:
    store, disk = stuck
    topic = store.topic("orders")
    for number in (0, 1, 3):
        topic.partition(number)
    group = topic.group("billing")
    for _ in range(3):
        group.ack_all(group.lease(max_messages=1))
    changes: list[int] = []
    stop = group.on_change(lambda: changes.append(1))
    disk.go_on.set()
    group.ack_all(group.lease())
    changes.clear()
    topic.append_batch([b"new"], partition=2).result()
    assert changes
    stop()
    assert [one.value for one in group.lease()] == [b"new"]


def test_a_node_serves_the_partitions_that_are_open(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    disk = StuckDisk(2)
    settings: dict[str, Any] = {"disk": disk, "connector": connect, "topic_config": SMALL}
    with open_api(tmp_path, **settings) as live_api:
        try:
            for number in (0, 1, 3):
                assert _produced(live_api, number) == 1
                assert _fetched(live_api, number) == [b"%d" % number, b"new"]
            assert disk.is_reached.wait(60)
            lease = {"topic": "orders", "group": "billing"}
            [leased] = live_api.call(
                groups_api.LEASE, lease, body=LeaseRequest(max_messages=1, wait_ms=1000)
            ).leases
            assert leased.partition != 2
        finally:
            disk.go_on.set()
        assert _fetched(live_api, 2) == [b"2"]


def _produced(live_api: LiveApi, partition: int) -> int:
    body = Produce(values=[b"new"], partition=partition)
    [appended] = live_api.call(topics_api.PRODUCE, {"topic": "orders"}, body=body).appended
    return appended.base_offset


def _fetched(live_api: LiveApi, partition: int) -> list[bytes | None]:
    place = {"topic": "orders", "partition": partition}
    return live_api.call(topics_api.FETCH, place, query={"offset": 0}).values


def test_a_partition_that_is_gone_stops_no_other_and_is_repaired(tmp_path: Path) -> None:
    filled(tmp_path)
    shutil.rmtree(tmp_path / "topics" / "orders" / "2")
    with Store.open(tmp_path, topic_config=SMALL) as store:
        topic = store.topic("orders")
        group = topic.group("billing")
        leased = [group.lease(max_messages=1) for _ in range(3)]
        assert {one.value for [one] in leased} == {b"0", b"1", b"3"}
        calls: list[Callable[[], object]] = [group.lag, group.lease, lambda: topic.partition(2)]
        for call in calls:
            with pytest.raises(Corrupt, match="topic repair orders"):
                call()
        repair_topic(store, "orders", progress=lambda _done, _all: None)
        topic = store.topic("orders")
        assert topic.append_batch([b"again"], partition=2).result() == (0, 1)
        assert store.damage.unacknowledged_count == 1
