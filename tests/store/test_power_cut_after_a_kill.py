"""A kill at any I/O step, a new writer, a power cut: what the new writer acknowledged stays.

A writer that was killed may leave names that are not durable: it had no time to sync the folder.
The next writer sees them, and must not acknowledge anything in them that a power cut can take away.
"""

from __future__ import annotations

import pytest

from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.store import Store
from tests.store.queues import ROOT, append, opened

pytestmark = pytest.mark.sweep


class Queue:
    """A topic with a group: created, produced to, leased and acked."""

    def run(self, world: World) -> None:
        store = opened(world)
        topic = store.topic("orders")
        append(topic, b"first", b"second")
        for number in range(4):  # into further segments
            append(topic, b"%d" % number * 7000)
        group = topic.group("billing")
        group.ack(group.lease()[0])
        store.close()

    def check(self, world: World) -> None:
        topic = opened(world).topic("orders")
        offset = append(topic, b"after the kill")
        group = topic.group("billing")
        leased = group.lease(max_messages=10)
        group.ack_all(leased)
        world.restart(Crash.POWER, survivors=0)
        store = opened(world)
        topic = store.topic("orders")
        assert topic.partition(0).get(offset).value == b"after the kill"
        assert b"after the kill" in [message.value for message in leased]
        assert topic.group("billing").lease(max_messages=10) == [], "all were acked"
        store.close()


class Objects:
    """A bucket with an object."""

    def __init__(self) -> None:
        self._databases: SimulatedDatabases | None = None

    def open(self, world: World) -> Store:
        if self._databases is None:
            self._databases = SimulatedDatabases(world.disk)
        return Store.open(
            ROOT,
            object_config=SeglakeConfig(reserve_bytes=0, sync_interval_ms=0),
            disk=world.disk,
            runner=world.runner,
            connector=self._databases.connect,
        )

    def run(self, world: World) -> None:
        store = self.open(world)
        store.bucket("photos").put("a", b"first")
        store.close()

    def check(self, world: World) -> None:
        self.open(world).bucket("photos").put("b", b"after the kill" * 10_000)
        world.restart(Crash.POWER, survivors=0)
        store = self.open(world)
        assert store.bucket("photos").read("b") == b"after the kill" * 10_000
        store.close()
        assert self._databases is not None
        self._databases.close()


@pytest.mark.parametrize("scenario", [Queue, Objects])
def test_what_the_next_writer_acknowledges_survives_a_power_cut(scenario: type) -> None:
    assert sweep(scenario, seeds=[1, 2], survivors=[0], cases_max=300) > 50
