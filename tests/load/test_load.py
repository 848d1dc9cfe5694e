"""Load held: everything at once on one node, with faults; nothing is lost, and nothing grows.

What is asked follows from a seed, which is printed; `LAKEBED_CASE` gives another one. The longer
form takes `LAKEBED_LOAD_SECONDS`, or half an hour.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.behaviour.fraying import FrayingProxy, fraying
from tests.load.faults import ORDER, Faults
from tests.load.log_traffic import LogTraffic
from tests.load.memory import Memory
from tests.load.messages import PARTITIONS
from tests.load.node import BUCKET, Node
from tests.load.s3_traffic import S3Worker, check_objects
from tests.load.spark_traffic import SparkTraffic
from tests.load.topic_traffic import TopicTraffic
from tests.load.traffic import Traffic

pytestmark = [pytest.mark.process, pytest.mark.spark]

SHORT_S: Final = 60.0
LONG_S: Final = float(os.environ.get("LAKEBED_LOAD_SECONDS", "1800"))
ENDING_S: Final = 600
FRAYED_BYTES_MAX: Final = 20_000  # that a connection of one producer lasts, either way
S3_WORKERS: Final = 2
CONSUMERS: Final = 2
LANDINGS_MIN: Final = 3


class Load:
    """All of the traffic on one node."""

    def __init__(self, node: Node, folder: Path, stack: contextlib.ExitStack, *, seed: int) -> None:
        store = stack.enter_context(node.connect())
        self._proxy = stack.enter_context(fraying(_proxy(node, seed)))
        frayed = stack.enter_context(node.connect("http://{}:{}".format(*self._proxy.address)))
        s3 = node.s3()
        s3.create_bucket(Bucket=BUCKET)
        s3.close()
        self._node = node
        self.traffic = Traffic()
        self.s3 = [S3Worker(node, self.traffic, one, seed=seed) for one in range(S3_WORKERS)]
        self.log = LogTraffic(store, self.traffic, seed=seed)
        self.topic = TopicTraffic(store, self.traffic, seed=seed)
        self.faults = Faults(node, self.topic, self.traffic, seed=seed)
        self.spark = SparkTraffic(node, self.topic, self.traffic, folder)
        self._producers = {"steady": store, "frayed": frayed}
        stack.callback(self.close)

    def run(self, seconds: float) -> int:
        """How many operations there were; `failures` are told at once."""
        start = self.traffic.start
        start("spark", self.spark.run)
        for number, worker in enumerate(self.s3):
            start(f"s3 {number}", worker.run)
        for work in (self.log.append, self.log.follow, self.log.move, self.faults.run):
            start(work.__qualname__, work)
        for name, store in self._producers.items():
            start(name, partial(self.topic.produce, name, store))
        for number in range(PARTITIONS):
            start(f"follow {number}", partial(self.topic.follow, number))
        for number in range(CONSUMERS):
            start(f"settle {number}", partial(self.topic.settle, number))
        return self.traffic.hold(seconds, is_enough=self._is_enough)

    def finish(self) -> None:
        """First those who give, then those who take; what they took is the rest then."""
        self.traffic.end()
        self.traffic.join(besides="spark")
        assert not self.traffic.failures, "\n".join(self.traffic.failures)
        self.spark.end()
        self.topic.finish()
        self.log.finish()
        self.traffic.join()
        assert not self.traffic.failures, "\n".join(self.traffic.failures)

    def check(self) -> Iterator[str]:
        """All ledgers; a line for each."""
        acknowledged = dict(self.faults.acknowledged)
        for worker in self.s3:
            acknowledged |= worker.ledger
        s3 = self._node.s3()
        objects = check_objects(s3, acknowledged=acknowledged, perhaps=self.faults.perhaps)
        s3.close()
        done = {kind: sum(one.done[kind] for one in self.s3) for kind in self.s3[0].done}
        yield f"{objects} objects after {done}"
        messages, rows = self.topic.check(), self.spark.check(self.topic.stored)
        again = f"given back {self.topic.given_back}, came again {self.topic.came_again}"
        yield f"{messages} messages settled ({again}), {rows} rows in the table"
        yield f"{self.spark.landings} landings, {self.spark.reads} reads by Spark"
        left = self.log.check()
        yield f"{self.log.count} records, the last {left} kept; by hand {self.log.moved}"
        yield f"{self.log.cold_reads} records read from Tier 2"
        yield f"faults: {dict(self.faults.done)}; connections cut: {self._proxy.cuts}"

    def _is_enough(self) -> bool:
        """All faults were there, and Spark came to land beside the rest: also on a slow machine."""
        are_all_done = self.faults.done.keys() == set(ORDER) and all(self._proxy.cuts.values())
        return are_all_done and self.spark.landings >= LANDINGS_MIN and self.log.cold_reads > 0

    def close(self) -> None:
        self.traffic.end()
        self.spark.kill()
        self.traffic.join()
        self.spark.close()
        self.faults.close()
        for worker in self.s3:
            worker.close()


def hold(folder: Path, seconds: float) -> None:
    seed = int(os.environ.get("LAKEBED_CASE", "1"))
    print(f"LAKEBED_CASE={seed}, {seconds:.0f} s")
    with Node(folder) as node:
        with contextlib.ExitStack() as stack:
            load = Load(node, folder, stack, seed=seed)
            with Memory(node.pid) as memory:
                print(load.run(seconds), "operations")
            load.finish()
            for line in load.check():
                print(line)
        assert node.stop() == 0
    events = node.events()
    print(dict(events))
    print("its own by time:", memory.course())
    for trend in memory.trends():
        print(trend)
    assert events["info", "settings_reloaded"] == 1
    assert not [event for level, event in events if level == "error"]
    assert node.verify()["ok"]
    assert not [str(trend) for trend in memory.trends() if not trend.is_flat]


def _proxy(node: Node, seed: int) -> FrayingProxy:
    """Before the node's HTTP port, for who has no luck with connections."""
    place = urlsplit(node.http_url)
    return FrayingProxy(
        (place.hostname or "", place.port or 0),
        ("127.0.0.1", 0),
        random=Random(f"fraying {seed}"),
        bytes_max=FRAYED_BYTES_MAX,
    )


@pytest.mark.timeout(SHORT_S + ENDING_S)
def test_a_minute_of_everything_at_once_loses_nothing_and_grows_nothing(tmp_path: Path) -> None:
    hold(tmp_path, SHORT_S)


@pytest.mark.slow
@pytest.mark.timeout(LONG_S + ENDING_S)
def test_load_is_held(tmp_path: Path) -> None:
    hold(tmp_path, LONG_S)
