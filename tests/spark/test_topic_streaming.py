"""Streams of topics as Spark's driver has them: how far each micro-batch goes, pins, restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from lakebed.base.errors import BadConfig, Corrupt, NotFound
from lakebed.spark.errors import DataLost
from lakebed.spark.sources.feed import Lane
from lakebed.spark.sources.progress import Progress, decode_progress, encode_progress
from lakebed.spark.sources.topic import TopicStreamReader
from lakebed.store.read_only import ReadOnlyStore
from tests.spark.feeds import SMALL, fill, numbers, retain, rows, topic_stream, writing

ALL = ReadAllAvailable()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with writing(tmp_path / "store") as store:
        for partition, count in zip(
            store.topic("events", partitions=3).partitions, (10, 100, 400), strict=True
        ):
            fill(partition, count)
    return tmp_path / "store"


def positions(offset: dict[str, Any]) -> list[int]:
    return [at for _, at in sorted(decode_progress(offset).positions.items())]


def stored(offset: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def micro_batch(
    reader: TopicStreamReader, start: dict[str, Any], limit: ReadLimit
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    end = reader.latestOffset(stored(start), limit)
    found = rows(reader, reader.partitions(stored(start), stored(end)))
    reader.commit(stored(end))
    return end, found


def pin_count(root: Path) -> int:
    with ReadOnlyStore(root) as store:
        return len(store.pins.active_offsets())


def test_a_stream_begins_with_what_is_there_and_goes_on_with_what_comes(root: Path) -> None:
    reader = topic_stream(root)
    start = reader.initialOffset()
    assert positions(start) == [0, 0, 0]
    end, found = micro_batch(reader, start, ALL)
    assert numbers(found) == [*range(10), *range(100), *range(400)]
    assert reader.latestOffset(stored(end), ALL) == end
    assert reader.partitions(end, end) == []
    with writing(root) as store:
        fill(store.topic("events").partition(1), 5)
        assert positions(reader.reportLatestOffset()) == [10, 105, 400]
        assert numbers(micro_batch(reader, end, ALL)[1]) == [*range(100, 105)]
    reader.stop()


def test_what_a_stream_begins_with_can_be_told(root: Path) -> None:
    for options, expected in (
        ({"startingOffsets": "latest"}, [10, 100, 400]),
        ({"startingOffsets": '{"0": 3, "1": -1}'}, [3, 100, 0]),
        ({"startingTimestamp": "51000"}, [10, 50, 50]),
    ):
        reader = topic_stream(root, **options)
        assert positions(reader.initialOffset()) == expected
        reader.stop()
    with pytest.raises(
        NotFound, match=r"events: partition 3 does not exist \(number of partitions: 3\)"
    ):
        topic_stream(root, startingOffsets='{"3": 1}').initialOffset()
    with pytest.raises(BadConfig, match="endingOffsets is only for a batch read"):
        topic_stream(root, endingOffsets="latest")


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ALL),
        ({"maxRowsPerTrigger": 7}, ReadMaxRows(7)),
        ({"maxBytesPerTrigger": "1MiB"}, ReadMaxBytes(1 << 20)),
        ({"maxBytesPerTrigger": "1MiB", "maxRowsPerTrigger": 7}, ReadMaxRows(7)),
    ],
    ids=str,
)
def test_the_limits_of_the_options_are_told_to_spark(
    root: Path, options: dict[str, object], limit: ReadLimit
) -> None:
    assert topic_stream(root, **options).getDefaultReadLimit() == limit


def test_a_trigger_takes_the_oldest_rows_of_all_partitions(root: Path) -> None:
    reader = topic_stream(root)
    at = reader.initialOffset()
    seen, steps = [], []
    while (end := reader.latestOffset(stored(at), ReadMaxRows(90))) != at:
        found = rows(reader, reader.partitions(stored(at), stored(end)))
        assert 0 < len(found) <= 90
        seen += [(row["partition"], row["offset"]) for row in found]
        steps.append(positions(end))
        at = end
    assert steps[:3] == [[10, 40, 40], [10, 85, 85], [10, 100, 160]]
    assert sorted(seen) == [(p, n) for p, count in enumerate((10, 100, 400)) for n in range(count)]
    reader.stop()


@pytest.mark.parametrize("limit", [ReadMaxRows(60), ReadMaxBytes(8000)], ids=str)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_skewed_partitions_advance_in_time_together(
    tmp_path: Path, limit: ReadLimit, is_sealed: bool
) -> None:
    with writing(tmp_path / "store", replace(SMALL, index_stride_bytes=512)) as store:
        for partition, step_ms in zip(
            store.topic("events", partitions=3).partitions, (8000, 1000, 100), strict=True
        ):
            times_ms = list(range(1000, 41_000, step_ms))
            partition.append_batch([b"x" * 80] * len(times_ms), timestamps_ms=times_ms).result()
            if is_sealed:
                partition.seal()
    reader = topic_stream(tmp_path / "store")
    at, newest, count = reader.initialOffset(), 0, 0
    while (end := reader.latestOffset(stored(at), limit)) != at:
        found = rows(reader, reader.partitions(stored(at), stored(end)))
        moments = [row["timestamp"].timestamp() for row in found]
        assert min(moments) >= newest, "nothing comes after what is newer"
        newest, count, at = max(moments), count + len(found), end
    assert count == 5 + 40 + 400
    reader.stop()


def test_a_stamp_from_the_future_waits_for_the_others_and_holds_up_nobody(tmp_path: Path) -> None:
    with writing(tmp_path / "store") as store:
        first, second = store.topic("events", partitions=2).partitions
        first.append_batch([b"x"] * 3, timestamps_ms=[1000, 9_000_000_000_000, 2000]).result()
        second.append_batch([b"x"] * 9, timestamps_ms=list(range(1000, 10_000, 1000))).result()
    reader = topic_stream(tmp_path / "store")
    at, steps = reader.initialOffset(), []
    while (end := reader.latestOffset(stored(at), ReadMaxRows(4))) != at:
        steps.append(positions(end))
        at = end
    assert steps == [[1, 3], [1, 7], [3, 9]]
    reader.stop()


def test_bytes_of_a_trigger_are_kept_to(root: Path) -> None:
    reader = topic_stream(root)
    at, total = reader.initialOffset(), 0
    while (end := reader.latestOffset(stored(at), ReadMaxBytes(6000))) != at:
        splits = reader.partitions(stored(at), stored(end))
        assert sum(one.size for one in splits) <= 6300
        total += len(rows(reader, splits))
        at = end
    assert total == 510
    reader.stop()


def test_both_limits_are_kept_to_if_both_were_asked_for(root: Path) -> None:
    reader = topic_stream(root, maxRowsPerTrigger=300, maxBytesPerTrigger="3000")
    start = reader.initialOffset()
    few = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert sum(positions(few)) < 30
    assert sum(positions(reader.latestOffset(start, ALL))) == 510  # Spark says so
    reader.stop()


def test_a_limit_that_is_less_than_a_message_still_moves_on(root: Path) -> None:
    reader = topic_stream(root)
    start = reader.initialOffset()
    assert positions(reader.latestOffset(start, ReadMaxBytes(1))) == [0, 0, 1]
    assert positions(reader.latestOffset(start, ReadMaxRows(1))) == [0, 0, 1]
    reader.stop()


def test_too_few_rows_are_waited_for(root: Path) -> None:
    reader = topic_stream(root)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMinRows(511)) == start
    assert positions(reader.latestOffset(start, ReadMinRows(510))) == [10, 100, 400]
    reader.stop()


def test_available_now_ends_with_what_was_there_when_it_began(root: Path) -> None:
    reader = topic_stream(root)
    reader.prepareForTriggerAvailableNow()
    at = reader.initialOffset()
    with writing(root) as store:
        fill(store.topic("events").partition(0), 50)
        found = []
        while (end := reader.latestOffset(stored(at), ReadMaxRows(200))) != at:
            found += rows(reader, reader.partitions(stored(at), stored(end)))
            at = end
    assert positions(at) == [10, 100, 400]
    assert len(found) == 510
    reader.stop()


def test_a_micro_batch_is_pinned_until_it_is_committed(root: Path) -> None:
    reader = topic_stream(root)
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(90))
    reader.partitions(stored(start), stored(middle))
    assert pin_count(root) == 3
    end = reader.latestOffset(stored(middle), ALL)
    reader.partitions(stored(middle), stored(end))
    reader.commit(stored(middle))
    assert pin_count(root) == 2
    reader.stop()
    assert pin_count(root) == 2  # a restart reads it again
    again = topic_stream(root)
    assert len(rows(again, again.partitions(stored(middle), stored(end)))) == 420
    again.commit(stored(end))
    again.stop()
    assert pin_count(root) == 2


def test_what_retention_took_from_a_stream_is_an_error_or_skipped(root: Path) -> None:
    reader = topic_stream(root)
    start = reader.initialOffset()
    first = retain(root)[2]
    assert first > 0
    lenient = topic_stream(root, failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    with pytest.raises(DataLost, match="events, partition 2"):
        reader.latestOffset(start, ALL)
    with pytest.raises(DataLost, match="events, partition 2"):
        reader.partitions(start, end)
    assert pin_count(root) == 0
    reader.stop()
    few = lenient.latestOffset(start, ReadMaxRows(60))
    assert positions(few) == [10, 50, first], "what is gone takes no room"
    found = rows(lenient, lenient.partitions(start, end))
    assert numbers(found) == [*range(10), *range(100), *range(first, 400)]
    lenient.stop()


def test_a_topic_that_was_made_again_is_noticed(root: Path) -> None:
    reader = topic_stream(root)
    end, _ = micro_batch(reader, reader.initialOffset(), ALL)
    with writing(root) as store:
        store.topics.delete("events")
        fill(store.topic("events", partitions=3).partition(0), 700)
    with pytest.raises(DataLost, match="deleted and created again after the stream's checkpoint"):
        reader.latestOffset(stored(end), ALL)
    reader.stop()
    lenient = topic_stream(root, failOnDataLoss="false")
    _, found = micro_batch(lenient, end, ALL)
    assert numbers(found) == [*range(700)]
    lenient.stop()


def test_partitions_and_topics_that_are_new_are_read_from_their_beginning(root: Path) -> None:
    reader = topic_stream(root)
    begun = decode_progress(reader.initialOffset())
    old = Progress(begun.identities, {Lane("events", 0): 7})
    with writing(root) as store:
        fill(store.topic("more").partition(0), 3)
    both = topic_stream(root, topic="", topics="events,more")
    end, found = micro_batch(both, encode_progress(old), ALL)
    assert numbers(found) == [7, 8, 9, *range(100), *range(400), 0, 1, 2]
    assert positions(end) == [10, 100, 400, 3]
    both.stop()
    reader.stop()


def test_a_checkpoint_of_something_else_is_refused(root: Path) -> None:
    reader = topic_stream(root)
    for wrong in ({}, {"version": 2, "lakebed": {}}, {"version": 1, "lakebed": {"a": 1}}):
        with pytest.raises(Corrupt, match="the stream's checkpoint"):
            reader.latestOffset(wrong, ALL)
