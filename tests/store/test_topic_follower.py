"""Following several partitions of a topic: which of them, and how long it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import InputError
from lakebed.base.simulation.world import World
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.topic_follower import TopicFollower
from tests.fakes.partition import FakePartition


def test_following_no_partition_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        topic = store.topic("orders")
        with pytest.raises(InputError, match="no partition to follow"):
            topic.follow({})
        with (
            ReadOnlyStore(tmp_path) as reading,
            pytest.raises(InputError, match="no partition to follow"),
        ):
            reading.topic("orders").follow({})


def test_control_records_do_not_prolong_the_wait() -> None:
    world = World(1)
    partition = FakePartition(world.disk, "/store", runner=world.runner)
    left = 20

    def append_control() -> int | None:
        nonlocal left
        left -= 1
        partition.append_control()
        partition.publish()
        return 100 * NS_PER_MS if left else None

    clock = world.runner.clock
    with TopicFollower({0: partition}, {}, runner=world.runner) as follower:
        task = world.runner.spawn("control records", append_control)
        task.wake()
        start = clock.monotonic_ns()
        assert follower.next_batch(1.0) is None
        assert clock.monotonic_ns() - start == NS_PER_S
        assert 0 < left < 20
        task.stop()
