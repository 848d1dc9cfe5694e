"""Settings of a group's own: kept while it is there, and gone with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, DiskError, UnknownVersion
from lakebed.base.files import read_file
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.topics import StoreTopics
from lakebed.stroma.config import GroupConfig
from tests.fakes.troubled_disk import TroubledDisk
from tests.store.queues import GROUP, ROOT, SMALL, append, opened

OWN = GroupConfig(lease_ms=5000, per_key_order=True)
PATH = f"{ROOT}/groups/orders-0_billing.settings"


@pytest.fixture
def world() -> World:
    return World(7)


def leased_ms(store: StoreTopics, name: str = "billing") -> int:
    """For how long the group leases if nothing is said; its message is given back."""
    group = store.open("orders").group(name)
    [message] = group.lease(max_messages=1)
    group.nack(message)
    return group.parts[0]._config.lease_ms


def test_they_count_whoever_opens_the_group_later(world: World) -> None:
    store = opened(world)
    topic = store.topic("orders")
    append(topic, b"a", b"b", key=b"k")
    topic.group("billing", config=OWN)
    topic.group("plain")
    data = b'{"format": "lakebed group", "version": 1, "config": '
    data += b'{"lease_ms": 5000, "per_key_order": true}}\n'
    assert read_file(world.disk, PATH, size_max=1000) == data
    for crash in (None, Crash.POWER):
        store.close() if crash is None else world.restart(crash)
        store = opened(world)
        assert leased_ms(store.topics) == 5000
        in_order = store.topic("orders").group("billing")
        leased = in_order.lease(max_messages=1)
        assert in_order.lease() == [], "of one key"
        in_order.nack_all(leased)
        assert leased_ms(store.topics, "plain") == GROUP.lease_ms


def test_what_is_said_of_a_group_that_is_open_counts_from_its_next_opening_on(
    world: World,
) -> None:
    store = opened(world)
    topic = store.topic("orders")
    append(topic, b"a")
    group = topic.group("billing", config=OWN)
    assert topic.group("billing", config=GroupConfig(lease_ms=7000)) is group
    assert leased_ms(store.topics) == 5000
    store.close()
    store = opened(world)
    assert leased_ms(store.topics) == 7000
    store.topic("orders").group("billing", config=GROUP)
    assert not world.disk.exists(PATH), "as the store's"
    store.close()
    assert leased_ms(opened(world).topics) == GROUP.lease_ms


def test_settings_that_are_not_its_own_are_the_stores_as_they_are_now(world: World) -> None:
    store = opened(world)
    append(store.topic("orders"), b"a")
    store.topic("orders").group("billing", config=GroupConfig(lease_ms=1000, in_flight_max=7))
    store.close()
    store = opened(world, group_config=GroupConfig(lease_ms=9000))
    assert leased_ms(store.topics) == 9000
    assert store.topic("orders").group("billing").parts[0]._config.in_flight_max == 7


def test_what_is_named_is_kept_also_if_it_is_as_the_stores_is(world: World) -> None:
    store = opened(world)
    topic = store.topic("orders")
    append(topic, b"a")
    topic.group("billing", config=GROUP)
    assert not world.disk.exists(PATH)
    group = topic.group_with("billing", GROUP, named=["lease_ms"])
    assert topic.group("billing") is group
    assert b'"config": {"lease_ms": 1000}}' in read_file(world.disk, PATH, size_max=1000)
    store.close()
    store = opened(world, group_config=GroupConfig(lease_ms=9000, in_flight_max=7))
    assert leased_ms(store.topics) == 1000
    assert store.topic("orders").group("billing").parts[0]._config.in_flight_max == 7
    store.topic("orders").group_with("billing", GROUP, named=[])
    assert not world.disk.exists(PATH)


@pytest.mark.parametrize("what", ["the group", "the topic"])
def test_they_go_with_the_group(world: World, what: str) -> None:
    store = opened(world)
    store.topic("orders", partitions=2).group("billing", config=OWN)
    store.topics.delete("orders") if what == "the topic" else store.topics.delete_group(
        "orders", "billing"
    )
    assert not world.disk.exists(PATH)
    topic = store.topic("orders", partitions=2)
    append(topic, b"a")
    topic.group("billing")
    assert leased_ms(store.topics) == GROUP.lease_ms
    topic.group("billing", config=OWN)
    assert world.disk.exists(PATH)


def test_a_long_name_and_a_topic_of_many_partitions_have_one_file(world: World) -> None:
    store = opened(world)
    name = "x" * 1000
    topic = store.topic("orders", partitions=3)
    topic.group(name, config=OWN)
    files = [one for one in world.disk.names(f"{ROOT}/groups") if one.endswith(".settings")]
    assert len(files) == 1
    assert store.topics.group_names("orders") == [name]
    store.close()
    append(opened(world).topic("orders", partitions=3), b"a")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Corrupt),
        (b"{}", Corrupt),
        (b'{"format": "lakebed group", "version": 1, "config": {"colour": 1}}', Corrupt),
        (b'{"format": "lakebed group", "version": 1, "config": {"lease_ms": 0}}', Corrupt),
        (b'{"format": "lakebed group", "version": 1, "config": []}', Corrupt),
        (b'{"format": "lakebed group", "version": 2, "config": {}}', UnknownVersion),
    ],
)
def test_what_cannot_be_read_is_not_guessed_and_may_be_said_again(
    world: World, data: bytes, error: type[Exception]
) -> None:
    store = opened(world)
    append(store.topic("orders"), b"a")
    store.topic("orders").group("billing", config=OWN)
    store.close()
    with world.disk.open(PATH, writable=True) as file:
        file.truncate(0)
        file.pwrite(0, data)
    store = opened(world)
    with pytest.raises(error):
        store.topics.open_group("orders", "billing")
    if error is Corrupt:
        store.topic("orders").group("billing", config=OWN)
        assert leased_ms(store.topics) == 5000


def test_they_are_not_kept_before_the_group_has_its_files_of_partition_0(world: World) -> None:
    """A crash left only the files of another partition; deleting the group removes all of them."""
    world.disk = disk = TroubledDisk(world)
    store = opened(world)
    store.topic("orders", partitions=2).group("billing")
    store.close()
    first = f"{ROOT}/groups/orders-0_billing.delta"
    disk.unlink(first)
    store, disk.refused = opened(world), first
    with contextlib.suppress(DiskError):
        store.topic("orders").group("billing", config=OWN)
    store.close()
    store, disk.refused = opened(world), ""
    assert store.topics.group_names("orders") == ["billing"]
    store.topics.delete_group("orders", "billing")
    assert not disk.exists(PATH)
    store.topic("orders").group("billing", config=OWN)
    assert disk.exists(PATH)


@pytest.mark.parametrize("left_by", ["lost files", "a removal that failed"])
def test_a_new_group_does_not_inherit_what_a_deletion_left(world: World, left_by: str) -> None:
    store = opened(world)
    topic = store.topic("orders", partitions=2)
    append(topic, b"a", partition=1)
    topic.group("billing", config=OWN)
    if left_by == "lost files":
        store.close()
        world.disk.unlink(f"{ROOT}/groups/orders-0_billing.delta")
        store = opened(world)
        store.topics.delete_group("orders", "billing")
    else:
        world.disk.faults.fail("unlink")
        with pytest.raises(DiskError, match="unlink"):
            store.topics.delete_group("orders", "billing")
    assert world.disk.exists(PATH)
    assert leased_ms(store.topics) == GROUP.lease_ms
    assert not world.disk.exists(PATH)


def test_they_are_seen_beside_the_writer(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        topic = store.topic("orders")
        append(topic, b"a")
        group = topic.group("billing", config=GroupConfig(delivery_count_max=1))
        group.nack_all(group.lease())
        with contextlib.closing(ReadOnlyStore(tmp_path)) as beside:
            assert beside.topic("orders").group("billing").describe()[0].exhausted == 1


class MadeAgain:
    """A group with settings is deleted, and made again without."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, world: World) -> None:
        for act in (self._make, self._delete, self._make_plain):
            with contextlib.closing(topics_of(world)) as topics:
                act(topics)
            self.done.append(act.__name__)

    def check(self, world: World) -> None:
        with contextlib.closing(topics_of(world)) as topics:
            topic = topics.ensure("orders")
            is_there = "billing" in topics.group_names("orders")
            if self.done == ["_make"]:
                assert is_there or not world.disk.exists(PATH), "nobody inherits them"
            lease_ms = topic.group("billing").parts[0]._config.lease_ms
            if len(self.done) >= 2 or not is_there:
                assert lease_ms == GROUP.lease_ms

    def _make(self, topics: StoreTopics) -> None:
        topics.ensure("orders").group("billing", config=OWN)

    def _delete(self, topics: StoreTopics) -> None:
        topics.delete_group("orders", "billing")

    def _make_plain(self, topics: StoreTopics) -> None:
        topics.open("orders").group("billing")


class Kept:
    """Settings that were kept, and others after them."""

    def __init__(self) -> None:
        self.kept = [GROUP.lease_ms]

    def run(self, world: World) -> None:
        for lease_ms in (5000, 6000, GROUP.lease_ms):
            with contextlib.closing(topics_of(world)) as topics:
                self.kept.append(lease_ms)
                config = GroupConfig(lease_ms=lease_ms)
                topics.ensure("orders").group("billing", config=config)
            self.kept = [lease_ms]

    def check(self, world: World) -> None:
        with contextlib.closing(topics_of(world)) as topics:
            found = topics.ensure("orders").group("billing").parts[0]._config.lease_ms
            assert found in self.kept


def topics_of(world: World) -> StoreTopics:
    return StoreTopics(ROOT, disk=world.disk, runner=world.runner, config=SMALL, group_config=GROUP)


@pytest.mark.sweep
@pytest.mark.parametrize("make", [MadeAgain, Kept])
def test_a_crash_at_any_step(make: Callable[[], MadeAgain | Kept]) -> None:
    assert sweep(make, seeds=[1], survivors=range(2), cases_max=150) > 100
