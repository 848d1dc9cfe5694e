"""What must hold of a session elsewhere whose tasks cannot see the store's files, whichever it is.

Each check is of one store, which other checks write to as well: under names of their own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lakebed.spark.jobs.report import Report
from tests.spark import scenes
from tests.spark.cluster import Driver
from tests.spark.far_stores import BUCKET, MESSAGES, RECORDS, Far, make_store, record
from tests.spark.hidden import HiddenFolder
from tests.spark.scenes import Rows


def check_nothing_is_seen(driver: Driver, far: Far) -> None:
    seen = driver.run(scenes.what_tasks_see, far.path)
    assert len(seen) == 2
    assert {*seen} <= {"PermissionError", "FileNotFoundError"}
    with pytest.raises(RuntimeError, match=r"no such root .* read it by the option endpoint"):
        driver.run(scenes.count_by_path, far)


def check_topics(driver: Driver, far: Far) -> None:
    found = driver.run(scenes.messages, far, "events")
    assert sorted(row[:2] for row in found) == [(p, n) for p in (0, 1) for n in range(MESSAGES)]
    assert all(row[3].startswith(b"%08d" % row[1]) for row in found)
    assert driver.run(scenes.filtered_messages, far) == [(1, n) for n in range(590, MESSAGES)]


def check_logs(driver: Driver, far: Far) -> None:
    found = driver.run(scenes.records, far)
    assert sorted(row[1:] for row in found) == [(n, record(n)) for n in range(RECORDS)]


def check_objects(driver: Driver, far: Far) -> None:
    assert driver.run(scenes.objects, far) == [(f"objects/{n}", n) for n in range(5)]


def check_messages_are_written_once(driver: Driver, far: Far, staging_bucket: str) -> None:
    topic = f"written{staging_bucket}"
    driver.run(scenes.write_messages, far, topic, staging_bucket)
    found = stored(far, topic)
    expected = {b"%d" % n: None if n % 10 == 0 else b"%d" % n for n in range(1000)}
    assert len(found) == 1000
    assert {row[2]: row[3] for row in found} == expected


def check_a_stream_between_topics(driver: Driver, far: Far, checkpoint: Path) -> None:
    driver.run(scenes.stream_messages, far, "streamed", str(checkpoint))
    assert stored(far, "streamed") == stored(far, "events")


def check_tables(driver: Driver, far: Far) -> None:
    table = f"{BUCKET}/tables/batch"
    driver.run(scenes.write_table, far, table)
    found = driver.run(scenes.table_rows, far, table)
    assert sorted(found) == [(n, n % 3) for n in range(1000)]


def check_a_stream_to_a_table(driver: Driver, far: Far, checkpoint: Path) -> None:
    table = f"{BUCKET}/tables/stream"
    driver.run(scenes.stream_records_to_table, far, table, str(checkpoint))
    found = driver.run(scenes.table_rows, far, table)
    assert sorted(found) == [(n, record(n)) for n in range(RECORDS)]


# Jobs.


def check_land(driver: Driver, far: Far, checkpoint: Path) -> None:
    report: Report = driver.run(scenes.run_land, far, str(checkpoint))
    assert report.row_count == 2 * MESSAGES
    again: Report = driver.run(scenes.run_land, far, str(checkpoint))
    assert again.row_count == 0
    landed = driver.run(scenes.landed_rows, far)
    assert landed == [(p, n, value) for p, n, _, value in stored(far, "events")]


def check_verify(driver: Driver, far: Far) -> None:
    report: Report = driver.run(scenes.run_verify, far)
    assert report.is_good, report.lines
    assert report.facts["problems"] == report.facts["unchecked"] == 0
    with far.store() as store:
        topics = [store.topics.open(name) for name in store.topics.names()]
        partitions = [partition for topic in topics for partition in topic.partitions]
        segments = len(store.open_log("audit").segments())
        segments += sum(len(partition.segments()) for partition in partitions)
    assert (report.facts["topics"], report.facts["logs"]) == (len(topics), 1)
    assert report.facts["segments"] == segments
    assert report.row_count >= 2 * MESSAGES + RECORDS  # what is stored as batches counts as such


def check_replay(driver: Driver, far: Far) -> None:
    first, second = driver.run(scenes.run_replay, far, "replayed")
    assert (first.row_count, second.row_count) == (RECORDS, 0)
    assert second.facts["done_before"] is True
    values = sorted(row[3] for row in stored(far, "replayed"))
    assert values == [record(n) for n in range(RECORDS)]


def check_transfer(driver: Driver, far: Far) -> None:
    there, back = driver.run(scenes.run_transfer, far, "imported")
    assert there.row_count == back.row_count == 2 * MESSAGES
    assert there.facts["files"] == back.facts["files"]
    assert stored(far, "imported") == stored(far, "events")


def check_tier_history(driver: Driver, hidden: HiddenFolder) -> None:
    """Of another store, whose files everybody may read: the HTTP API has no manifest logs."""
    root = hidden.path.parent / "readable"
    make_store(root)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    report: Report = driver.run(scenes.run_tier_history, str(root))
    assert report.is_good
    assert any("audit" in line for line in report.lines), report.lines


def stored(far: Far, topic: str) -> Rows:
    """What the node says, in order: partition, offset, key, value."""
    with far.store() as store:
        return [
            (partition.number, message.offset, message.key, message.value)
            for partition in store.topics.open(topic).partitions
            for message in partition.scan_from(0)
        ]
