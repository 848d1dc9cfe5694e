"""What must hold of a session elsewhere whose tasks cannot see the store's files, whichever it is.

Each check is of one store, which other checks write to as well: under names of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.manifest.format import MANIFEST_ITSELF
from lakebed.spark.jobs.report import Report
from tests.spark import scenes
from tests.spark.cluster import Driver
from tests.spark.far_stores import BUCKET, MESSAGES, RECORDS, Far, record
from tests.spark.scenes import Rows


def check_nothing_is_seen(driver: Driver, far: Far) -> None:
    seen = driver.run(scenes.what_tasks_see, far.path)
    assert len(seen) == 2
    assert {*seen} <= {"PermissionError", "FileNotFoundError"}
    with pytest.raises(RuntimeError, match=r"no such root .* set the option endpoint"):
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


def check_manifest_logs(driver: Driver, far: Far) -> None:
    expected = recorded(far)
    assert sorted(driver.run(scenes.manifest_records, far)) == expected
    with far.store() as store:
        residency = store.open_log("audit").tiers.residency()
    now = [(one.segment_id, *(tier in one.tiers for tier in range(3))) for one in residency]
    states = driver.run(scenes.manifest_states, far)
    assert sorted(states[:-1]) == now
    assert states[-1] == (0, True, False, False), "its first record opened the first segment"


def check_object_views(driver: Driver, far: Far) -> None:
    with far.store() as store:
        bucket = store.bucket(BUCKET)
        known = [bucket.head(f"objects/{number}") for number in range(5)]
    versions, manifests, chunks = driver.run(scenes.object_views, far)
    assert [row[:4] for row in versions] == [(o.key, o.version_id, o.size, True) for o in known]
    assert all(row[4] for row in versions)
    assert manifests == [(o.key, o.version_id, o.size, min(o.size, 1), None) for o in known]
    assert chunks == [(o.key, o.version_id, 0, o.size, None) for o in known if o.size]


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


def check_tier_history(driver: Driver, far: Far) -> None:
    report: Report = driver.run(scenes.run_tier_history, far)
    assert report.is_good, report.lines
    assert report.row_count == sum(row[4] is not None for row in recorded(far))
    assert (report.facts["logs"], report.facts["uploads"], report.facts["hydrations"]) == (1, 2, 0)
    stays = [line.split() for line in report.lines if line.startswith("audit")]
    with far.store() as store:
        residency = store.open_log("audit").tiers.residency()
    # Of each tier: how many stays ended, and how many go on.
    in_tier0 = sum(0 in one.tiers for one in residency)
    expected = [("0", "2", str(in_tier0)), ("1", "1", "1"), ("2", "0", "2")]
    assert [tuple(stay[1:4]) for stay in stays[:3]] == expected, report.lines


def recorded(far: Far) -> Rows:
    """What the node has in the manifest log: number, chunk, byte, type, segment."""
    with far.store() as store:
        found = store.manifest_log("audit")
        assert found is not None
        return [
            (
                number,
                *position,
                record.type_name,
                None if record.segment_id == MANIFEST_ITSELF else record.segment_id,
            )
            for number, (position, record) in enumerate(found.reader.records())
        ]


def stored(far: Far, topic: str) -> Rows:
    """What the node says, in order: partition, offset, key, value."""
    with far.store() as store:
        return [
            (partition.number, message.offset, message.key, message.value)
            for partition in store.topics.open(topic).partitions
            for message in partition.scan_from(0)
        ]
