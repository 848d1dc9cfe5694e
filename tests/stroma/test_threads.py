"""A group on the real disk, with threads that lease and ack at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakebed.base.runner import Task, ThreadRunner
from lakebed.base.units import KIB
from lakebed.kernels.disk import real_disk
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.group_opener import open_group
from tests.fakes.stroma_source import FakeSource
from tests.stroma.groups import NAME, offsets, singles

MESSAGE_COUNT = 3000


@pytest.mark.parametrize("ack_level", ["after_fsync", "after_write"])
def test_threads_share_a_group_and_every_message_is_settled_once(
    tmp_path: Path, ack_level: str
) -> None:
    config = GroupConfig(ack_level=ack_level, compaction_bytes=4 * KIB, compaction_events=50)
    source = FakeSource()
    taken: list[int] = []
    errors: list[BaseException] = []

    def consume(group: PartitionGroup, batch: int) -> None:
        try:
            while grant := group.lease(batch, wait_s=5.0):
                numbers = offsets(grant)
                if not numbers:
                    return
                given_back = [n for n in numbers if n % 7 == 3 and grant.leased[0][2] == 1]
                if given_back:
                    group.nack(singles(given_back), epoch=grant.epoch)
                rest = [n for n in numbers if n not in given_back]
                group.ack(singles(rest), epoch=grant.epoch)
                taken.extend(rest)
                if group.lag() == 0 and source.end == MESSAGE_COUNT:
                    source.append(0)  # wakes the others, who find nothing
                    return
        except BaseException as error:  # noqa: BLE001 - shown by the test itself
            errors.append(error)

    with ThreadRunner() as runner:
        tasks: list[Task] = []
        group = open_group(
            real_disk(),
            tmp_path,
            NAME,
            source=source,
            runner=runner,
            config=config,
            wake=lambda: tasks[0].wake(),
        )
        tasks.append(runner.spawn("group", group.step))
        threads = [threading.Thread(target=consume, args=(group, n)) for n in (7, 40, 100)]
        for thread in threads:
            thread.start()
        for _ in range(MESSAGE_COUNT // 100):
            source.append(100)
        while group.lag() or group.describe().generation == 1:
            threads[0].join(0.01)
        group.close()  # ends those who still wait
        for thread in threads:
            thread.join()
        tasks[0].stop()
        assert [error for error in errors if "closed" not in str(error)] == []
        assert sorted(taken) == list(range(MESSAGE_COUNT))
        with open_group(
            real_disk(), tmp_path, NAME, source=source, runner=runner, config=config
        ) as group:
            described = group.describe()
            assert (described.acked_until, described.lag) == (MESSAGE_COUNT, 0)
            assert described.generation > 1
            assert described.problems == ()
