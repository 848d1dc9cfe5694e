"""A crash at every I/O step of deleting a group: it is there as it was, or it is gone."""

from __future__ import annotations

import pytest

from lakebed.base.files import replace_atomically
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.store.group_verification import unnamed_files
from lakebed.store.store import Store
from lakebed.stroma.paths import GroupName, GroupPaths
from tests.store.queues import ROOT, append, numbered, opened, values

pytestmark = pytest.mark.sweep

SETTLED, LEFT = numbered(4)[:3], numbered(4)[3:]


class Removal:
    """A group of two partitions, each with a snapshot and with acks behind it."""

    name = "billing"

    def __init__(self) -> None:
        self._is_prepared = False

    def run(self, world: World) -> None:
        store = self._prepared(world)
        self._is_prepared = True
        store.topics.delete_group("orders", self.name)

    def check(self, world: World) -> None:
        if not self._is_prepared:
            return
        store = opened(world)
        known = store.topics.group_names("orders")
        assert unnamed_files(world.disk, ROOT) == []
        group = store.topic("orders").group(self.name)
        found = [message.value for message in group.lease() if message.value]
        if known:
            assert sorted(found) == sorted(LEFT * 2), "as it was"
        else:
            assert sorted(found) == sorted((SETTLED + LEFT) * 2), "forgotten in every partition"
        store.topics.delete_group("orders", self.name)
        assert store.topics.group_names("orders") == []

    def _prepared(self, world: World) -> Store:
        store = opened(world)
        topic = store.topic("orders", partitions=2)
        for number in range(2):
            append(topic, *SETTLED, *LEFT, partition=number)
        group = topic.group(self.name)
        leased = {(one.partition, one.offset): one for one in group.lease()}
        group.ack_all([leased[0, 0], leased[1, 0]])
        for part in group.parts:
            part.compact()
        group.ack_all([leased[number, offset] for number in range(2) for offset in (1, 2)])
        group.nack_all([leased[0, 3], leased[1, 3]])
        return store


class RemovalOfLongName(Removal):
    """Whose files have hashed names, and the full one beside them."""

    name = "billing" * 40


@pytest.mark.parametrize("scenario", [Removal, RemovalOfLongName])
def test_a_group_is_deleted_as_a_whole_or_not_at_all(scenario: type[Removal]) -> None:
    assert sweep(scenario, seeds=[2], survivors=range(4), cases_max=2000) > 50


def test_a_removal_that_failed_is_finished_by_whoever_opens_the_group_again() -> None:
    world = World(3)
    store = opened(world)
    topic = store.topic("orders")
    append(topic, *numbered(2))
    group = topic.group("billing")
    group.ack_all(group.lease())
    world.disk.faults.fail("unlink")
    with pytest.raises(Exception, match="unlink"):
        store.topics.delete_group("orders", "billing")
    assert store.topics.group_names("orders") == []
    assert values(topic.group("billing").lease()) == numbered(2)


def test_a_removal_that_failed_does_not_reach_the_group_of_a_new_topic() -> None:
    world = World(3)
    store = opened(world)
    append(store.topic("orders"), *numbered(2))
    store.topic("orders").group("billing")
    world.disk.faults.fail("unlink")
    with pytest.raises(Exception, match="unlink"):
        store.topics.delete_group("orders", "billing")
    store.topics.delete("orders")
    topic = store.topic("orders")
    append(topic, *numbered(2))
    topic.group("billing").ack_all(topic.group("billing").lease(max_messages=1))
    store.close()
    store = opened(world)
    assert store.topic("orders").group("billing").lag() == {0: 1}


def test_a_removal_that_cannot_be_read_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World(3)
    store = opened(world)
    topic = store.topic("orders")
    append(topic, *numbered(2))
    topic.group("billing").ack_all(topic.group("billing").lease(max_messages=1))
    store.close()
    path = GroupPaths(ROOT, GroupName("orders", 0, "billing")).removal
    replace_atomically(world.disk, path, b"{")
    store = opened(world)
    assert store.topics.group_names("orders") == ["billing"]
    assert "orders-0_billing.removal: the removal file is damaged" in caplog.text
    assert store.topic("orders").group("billing").lag() == {0: 1}
    store.topics.delete_group("orders", "billing")
    assert not world.disk.exists(path)
