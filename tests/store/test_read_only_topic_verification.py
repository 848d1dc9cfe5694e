"""Verifying a topic beside a writer that removes and replaces segments meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.partition import Partition
from lakebed.store.store import Store
from lakebed.store.topic_verification import TopicReport, verify_topic

pytestmark = pytest.mark.thorough

CONFIG = TopicConfig(segment_bytes=16 * KIB, reserve_bytes=0)


def verified(root: Path) -> TopicReport:
    with Store.open(root, read_only=True) as store:
        return verify_topic(
            store.disk, store.root, "orders", runner=store.runner, progress=lambda *_: None
        )


def remove(partition: Partition) -> None:
    """The older half goes."""
    partition.truncate_before((partition.start_offset() + partition.high_watermark()) // 2)


def roll(partition: Partition) -> None:
    partition.seal()


@pytest.mark.parametrize("disturb", [remove, roll])
def test_what_a_writer_does_meanwhile_is_no_damage(
    tmp_path: Path, disturb: Callable[[Partition], None]
) -> None:
    ended = threading.Event()
    with Store.open(tmp_path, topic_config=CONFIG) as store:
        partition = store.topic("orders").partition(0)

        def work() -> None:
            try:
                for number in range(150):
                    partition.append_batch([b"%d" % number * 500]).result()
                    if number % 5 == 4:
                        disturb(partition)
            finally:
                ended.set()

        worker = threading.Thread(target=work)
        worker.start()
        reports = []
        while not ended.is_set():
            reports.append(verified(tmp_path))
        worker.join()
        reports.append(verified(tmp_path))
    assert [report.problems for report in reports] == [()] * len(reports)
    assert [report.lost for report in reports] == [()] * len(reports)


def test_a_compacted_topic_is_whole(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=16 * KIB, reserve_bytes=0, compact=True)
    with Store.open(tmp_path, topic_config=config) as store:
        topic = store.topic("orders")
        for number in range(100):
            topic.append_batch([b"%d" % number * 300], key=b"%d" % (number % 3)).result()
            if number % 10 == 9:
                assert verified(tmp_path).problems == ()
        topic.partition(0).seal()
    report = verified(tmp_path)
    assert (report.problems, report.lost) == ((), ())
