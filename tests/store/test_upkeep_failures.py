"""Background work that fails: it is among the failures, stops no other work, and is tried again."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.world import World
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.store import Store
from lakebed.store.topics import StoreTopic
from lakebed.stroma.config import GroupConfig
from tests.fakes.troubled_disk import TroubledDisk
from tests.store.queues import ROOT, SMALL, append

COMPACTED = replace(SMALL, compact=True)


def fill(topic: StoreTopic, count: int) -> None:
    """Values that all replace each other, in several segments."""
    for number in range(count):
        append(topic, b"%04d" % number + b"." * 500, key=b"k")
    topic.partition(0).seal()


def message_count(topic: StoreTopic) -> int:
    return len(list(topic.partition(0).read()))


def test_a_topic_whose_compaction_fails_is_among_the_failures_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(2)
    world.disk = disk = TroubledDisk(world)
    with Store.open(ROOT, topic_config=COMPACTED, disk=disk, runner=world.runner) as store:
        damaged, whole = store.topic("damaged"), store.topic("whole")
        for topic in (damaged, whole):
            fill(topic, 100)
        disk.refused = f"/topics/damaged/0/segments/{0:020}.log"
        world.runner.advance(120 * NS_PER_S)
        ((kind, name, error),) = store.failures()
        assert (kind, name) == ("partition upkeep", "damaged-0")
        assert "Input/output error" in str(error)
        logged = [one for one in caplog.records if "background_work_failed" in one.getMessage()]
        assert len(logged) == 1, "however often it was tried again"
        assert message_count(whole) < 100
        append(damaged, b"taken all the same", key=b"k")
        disk.refused = ""
        world.runner.advance(31 * NS_PER_S)
        assert store.failures() == []
        assert message_count(damaged) < 100


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_group_whose_fold_fails_is_among_the_failures_and_the_others_go_on(code: int) -> None:
    world = World(4)
    world.disk = disk = TroubledDisk(world)
    disk.refused, disk.code = "/groups/orders-0_damaged.snap", code
    config = GroupConfig(compaction_events=4)
    with Store.open(
        ROOT, topic_config=SMALL, group_config=config, disk=disk, runner=world.runner
    ) as store:
        topic = store.topic("orders")
        append(topic, *(b"%d" % number for number in range(20)))
        damaged, whole = topic.group("damaged"), topic.group("whole")
        for group in (damaged, whole):
            for message in group.lease(max_messages=10):
                group.ack(message)
        world.runner.advance(120 * NS_PER_S)
        ((kind, name, error),) = store.failures()
        assert (kind, name) == ("group upkeep", "orders 0 damaged")
        assert os.strerror(code) in str(error)
        assert whole.describe()[0].generation > 1
        damaged.ack_all(damaged.lease(max_messages=1))
        disk.refused = ""
        world.runner.advance(31 * NS_PER_S)
        assert store.failures() == []
        assert damaged.describe()[0].delta_events < 4
        assert damaged.lag() == {0: 9}


def test_upkeep_of_the_object_store_that_fails_is_among_the_failures_and_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3)
    world.disk = disk = TroubledDisk(world)
    with Store.open(
        ROOT,
        object_config=SeglakeConfig(reserve_bytes=0),
        disk=disk,
        runner=world.runner,
        connector=SimulatedDatabases(disk).connect,
    ) as store:
        store.bucket("photos").put("a", b"bytes")
        disk.refused = "/objects/manifests/"
        world.runner.advance(120 * NS_PER_S)
        ((kind, name, error),) = store.failures()
        assert (kind, name) == ("object upkeep", "objects")
        assert "Input/output error" in str(error)
        logged = [one for one in caplog.records if "background_work_failed" in one.getMessage()]
        assert len(logged) == 1, "however often it was tried again"
        assert store.bucket("photos").put("b", b"taken all the same").size == 18
        disk.refused = ""
        world.runner.advance(31 * NS_PER_S)
        assert store.failures() == []
        assert manifest_file_count(world) == 2


def manifest_file_count(world: World) -> int:
    folder = f"{ROOT}/objects/manifests"
    return sum(len(world.disk.names(f"{folder}/{name}")) for name in world.disk.names(folder))
