"""A stream into a topic whose driver is killed, and started again: each message is there once.

Whenever a batch is computed again its rows go to other partitions, so what was decided must count.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.spark.killed_streams import KilledStream
from tests.spark.sinks import BY_CHANCE, POINTS, all_values, make_topic, staged_names

pytestmark = [pytest.mark.spark, pytest.mark.process]


class TopicStream(KilledStream):
    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        make_topic(self.root, "t", 3)
        options = {"path": str(self.root), "topic": "t"}
        super().__init__(folder, "dying.topic", options, columns=("value", BY_CHANCE))

    def check(self) -> None:
        assert all_values(self.root, "t") == [line.encode() for line in self.lines]
        assert staged_names(self.root) == []


@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed_leaves_each_message_once(tmp_path: Path) -> None:
    stream = TopicStream(tmp_path)
    for point, passes in (("half", 0), ("done", 1)):
        stream.add_batches(1)
        stream.run_until_killed(point, passes=passes)
    stream.add_batches(1)
    stream.run_to_the_end()
    stream.check()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_leave_each_message_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("LAKEBED_CASE", "1"))
    print(f"LAKEBED_CASE={seed}")
    random = Random(seed)
    stream = TopicStream(tmp_path)
    points = POINTS[1:]
    for number in range(20):
        point = points[number] if number < len(points) else random.choice(points)
        # The batch that was killed last is repeated first.
        passes = random.randint(0, 2)
        stream.add_batches(passes + (number == 0))
        stream.run_until_killed(point, passes=passes)
    stream.add_batches(1)
    stream.run_to_the_end()
    stream.check()
