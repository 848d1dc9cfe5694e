"""Planning and reading topics as Spark's workers do it: ranges, pins, loss, damage."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
)

from lakebed.base.errors import BadConfig, Corrupt, InputError, LakebedError, NotFound
from lakebed.http_api.key_guard import KeyGuard
from lakebed.seglake.key_ring import KeyRing
from lakebed.spark.errors import DataLost
from lakebed.store.pins import Pins
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.spark.feeds import (
    SMALL,
    fill,
    numbers,
    retain,
    rows,
    topic_reader,
    travelled,
    writing,
)

LAST = [*range(595, 600)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A topic of two partitions with 600 messages each, in several segments."""
    with writing(tmp_path / "store") as store:
        topic = store.topic("events", partitions=2)
        for partition in topic.partitions:
            fill(partition, 600)
        store.topic("empty", partitions=3)
    return tmp_path / "store"


def pin_count(root: Path) -> int:
    with ReadOnlyStore(root) as store:
        return len(store.pins.active_offsets())


def test_everything_is_read_by_default(root: Path) -> None:
    found = rows(topic_reader(root))
    assert numbers(found) == [*range(600), *range(600)]
    assert [row["partition"] for row in found] == [0] * 600 + [1] * 600
    assert [row["offset"] for row in found] == numbers(found)
    assert {row["topic"] for row in found} == {"events"}
    assert found[3]["timestamp"] == datetime.fromtimestamp(4, UTC)
    assert {row["key"] for row in found} == {None}
    assert all(row["headers"] == [] for row in found)


@pytest.mark.parametrize("bytes_max", ["1KiB", "20KiB", "64MiB"])
def test_however_it_is_split_each_message_is_read_once(root: Path, bytes_max: str) -> None:
    reader = topic_reader(root, partitionBytes=bytes_max)
    splits = reader.partitions()
    assert len(splits) == {"1KiB": len(splits), "20KiB": 8, "64MiB": 1}[bytes_max]
    assert bytes_max != "1KiB" or len(splits) > 100
    assert numbers(rows(reader, splits)) == [*range(600), *range(600)]


def test_splits_read_about_as_much_as_was_planned(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = topic_reader(root, partitionBytes="20KiB")
    splits = reader.partitions()
    assert max(one.size for one in splits) < 1.3 * min(one.size for one in splits)
    with caplog.at_level(logging.INFO, logger="lakebed.spark"):
        for one in splits:
            rows(reader, [one])
    read = [fact for fact in facts(caplog, "spark_read") if fact["rows"]]
    assert sum(fact["rows"] for fact in read) == 1200
    total = sum(one.size for one in splits)
    assert total <= sum(fact["bytes"] for fact in read) <= total * 1.1


def facts(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    found: list[Any] = [one for one in caplog.records if getattr(one, "event", "") == name]
    return [one.facts for one in found]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


@pytest.mark.parametrize(
    ("filters", "expected", "share_max"),
    [
        ([EqualTo(("partition",), 1)], [*range(600)], 0.51),
        ([GreaterThanOrEqual(("offset",), 595), EqualTo(("partition",), 0)], LAST, 0.02),
        ([LessThan(("offset",), 5)], [*range(5), *range(5)], 0.02),
        ([In(("partition",), (0, 7)), In(("offset",), (3, 9))], [3, 9], 0.02),
        ([GreaterThanOrEqual(("timestamp",), at(591))], [*range(590, 600)] * 2, 0.03),
        ([EqualTo(("topic",), "other")], [], 0.0),
        ([LessThan(("offset",), -4)], [], 0.0),
    ],
    ids=["partition", "offset", "first", "some", "time", "topic", "none"],
)  # fmt: skip
def test_filters_leave_less_to_be_read(
    root: Path, filters: list[Filter], expected: list[int], share_max: float
) -> None:
    whole = topic_reader(root, partitionBytes="4KiB").partitions()
    reader = topic_reader(root, *filters, partitionBytes="4KiB")
    splits = reader.partitions()
    assert numbers(rows(reader, splits)) == expected
    assert sum(one.size for one in splits) <= share_max * sum(one.size for one in whole)
    assert len(splits) < len(whole)


def test_a_time_that_ends_leaves_out_batches_and_no_message_that_is_late(tmp_path: Path) -> None:
    with writing(tmp_path / "store") as store:
        partition = store.topic("events").partition(0)
        fill(partition, 500, first_ms=1000)
        partition.append_batch([b"%08d" % 500], timestamps_ms=[2000]).result()
    reader = topic_reader(tmp_path / "store", LessThan(("timestamp",), at(10)))
    found = numbers(rows(reader))
    assert {*range(9), 500} <= set(found)  # Spark filters the rest


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"events": {"0": 595, "1": -1}}'}, [*range(595, 600)]),
        ({"startingOffsets": '{"0": 598}', "endingOffsets": '{"1": 2}'}, [598, 599, 0, 1]),
        ({"startingOffsets": "latest"}, []),
        ({"endingOffsets": "earliest"}, []),
        ({"startingTimestamp": "598500"}, [598, 599] * 2),
        ({"endingTimestamp": "1970-01-01T00:00:03Z"}, [0, 1, 0, 1]),
        ({"startingTimestamp": "3000", "endingOffsets": '{"0": 4, "1": 0}'}, [2, 3]),
    ],
    ids=str,
)
def test_a_read_begins_and_ends_where_it_is_told(
    root: Path, options: dict[str, str], expected: list[int]
) -> None:
    assert numbers(rows(topic_reader(root, **options))) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "soon"}, "startingOffsets"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "is not an offset|is not a partition number"),
        ({"startingOffsets": '{"0": 1.5}'}, "is not an offset or record id"),
        ({"startingOffsets": "[]"}, "not a JSON object"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "only one of"),
        ({"columns": "offset,colour"}, "column 'colour' does not exist"),
        ({"maxRowsPerTrigger": "5"}, "is only for a stream"),
        ({"topics": "a,b"}, "only one of the options topic or topics"),
        ({"topic": "", "topics": ",", "startingOffsets": "[1]"}, "one or more names of topics"),
    ],
    ids=str,
)
def test_options_that_are_wrong_are_told(root: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        topic_reader(root, **options)


def test_some_columns_cost_only_themselves(root: Path) -> None:
    (row, *_) = rows(topic_reader(root, columns="value,offset"))
    assert list(row) == ["value", "offset"]


def test_several_topics_are_read_together(root: Path) -> None:
    reader = topic_reader(root, topic="", topics="empty,events")
    assert len(rows(reader)) == 1200


def test_an_empty_topic_has_no_rows(root: Path) -> None:
    reader = topic_reader(root, topic="empty")
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []  # what Spark makes of no splits


def test_a_topic_that_is_not_there_is_told_with_those_that_are(root: Path) -> None:
    with pytest.raises(NotFound, match="no topic other; existing topics: empty, events"):
        topic_reader(root, topic="other").partitions()


# Pins and loss.


def test_retention_leaves_what_a_query_is_going_to_read(root: Path) -> None:
    reader = topic_reader(root)
    splits = reader.partitions()
    assert pin_count(root) == 2
    assert retain(root) == [0, 0]
    assert numbers(rows(reader, splits)) == [*range(600), *range(600)]


def test_only_the_range_that_is_read_is_pinned(root: Path) -> None:
    reader = topic_reader(root, GreaterThanOrEqual(("offset",), 400))
    splits = reader.partitions()
    starts = retain(root)
    assert all(0 < start <= 400 for start in starts)
    assert numbers(rows(reader, splits)) == [*range(400, 600)] * 2


def test_without_a_pin_what_is_gone_is_an_error_or_skipped(root: Path) -> None:
    strict = topic_reader(root, pinSeconds=0)
    lenient = topic_reader(root, pinSeconds=0, failOnDataLoss="false")
    splits = strict.partitions()
    assert pin_count(root) == 0
    starts = retain(root)
    assert min(starts) > 0
    with pytest.raises(DataLost, match=r"was removed before it was read; .* failOnDataLoss=false"):
        rows(strict, splits)
    left = [*range(starts[0], 600), *range(starts[1], 600)]
    assert numbers(rows(lenient, splits)) == left
    assert numbers(rows(topic_reader(root))) == left  # earliest is what is there


def test_offsets_that_are_gone_or_not_there_yet_are_an_error_or_skipped(root: Path) -> None:
    (start, _) = retain(root)
    for asked in ({"startingOffsets": '{"0": 3}'}, {"endingOffsets": '{"0": 700}'}):
        with pytest.raises(DataLost, match="failOnDataLoss=false"):
            topic_reader(root, **asked).partitions()
        assert pin_count(root) == 0
        lenient = topic_reader(root, EqualTo(("partition",), 0), failOnDataLoss="false", **asked)
        assert numbers(rows(lenient)) == [*range(start, 600)]
        for path in (root / "pins").iterdir():
            path.unlink()


def retain_before_pinning(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Retention is faster than a plan: where the partitions begin when it is pinned."""
    starts: list[int] = []
    pin_ranges = Pins.pin_ranges

    def pin_later(pins: Pins, *arguments: Any, **named: Any) -> Any:
        starts.extend(retain(root))
        return pin_ranges(pins, *arguments, **named)

    monkeypatch.setattr(Pins, "pin_ranges", pin_later)
    return starts


@pytest.mark.parametrize("first", [0, 5])
def test_what_was_asked_for_and_goes_before_it_is_pinned_is_missed(
    root: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = topic_reader(root, startingOffsets=f'{{"0": {first}, "1": {first}}}')
    starts = retain_before_pinning(root, monkeypatch)
    with pytest.raises(DataLost, match=f"the range from {first} up to"):
        reader.partitions()
    assert min(starts) > first
    assert pin_count(root) == 0


def test_where_a_topic_begins_is_not_missed_if_it_goes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = topic_reader(root)
    starts = retain_before_pinning(root, monkeypatch)
    splits = reader.partitions()
    assert min(starts) > 0
    monkeypatch.undo()
    assert numbers(rows(reader, splits)) == [n for start in starts for n in range(start, 600)]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_an_offset_of_a_partition_that_there_is_not_is_told(root: Path, option: str) -> None:
    with pytest.raises(
        NotFound, match=r"events: there is no partition 7 \(the topic or log has 2\)"
    ):
        topic_reader(root, **{option: '{"7": 40}'}).partitions()


def test_a_task_renews_the_pin_and_makes_one_if_it_is_gone(root: Path) -> None:
    reader = topic_reader(root)
    (split,) = map(travelled, reader.partitions())
    with ReadOnlyStore(root) as store:
        before = expiring(store, split.pin_ids)
        batches = reader.read(split)
        next(batches)
        after = {pin.pin_id: pin.expires_ms for pin in store.pins.active_offsets()}
        assert after.keys() == before.keys()
        assert all(after[one] > before[one] for one in before)
        store.pins.release_all(before)
        batches = reader.read(split)
        next(batches)
        own = sorted(
            (pin.topic, pin.partition, pin.start, pin.end) for pin in store.pins.active_offsets()
        )
        assert own == [("events", 0, 0, 600), ("events", 1, 0, 600)]
        assert sum(batch.num_rows for batch in batches) > 0
        assert store.pins.active_offsets() == []


def test_a_task_renews_what_is_pinned_for_tasks_that_have_not_begun(root: Path) -> None:
    reader = topic_reader(root, partitionBytes="1KiB")
    first, *others = reader.partitions()
    assert {piece.lane.number for piece in first.pieces} == {0}
    assert {piece.lane.number for piece in others[-1].pieces} == {1}
    with ReadOnlyStore(root) as store:
        before = expiring(store, first.pin_ids)
        assert rows(reader, [first])
        after = {pin.pin_id: pin.expires_ms for pin in store.pins.active_offsets()}
        assert len(after) == 2
        assert all(after[one] > before[one] for one in after)


def test_a_finished_query_leaves_no_pins(root: Path) -> None:
    reader = topic_reader(root)
    assert len(rows(reader)) == 1200
    assert pin_count(root) == 0
    again = reader.partitions()
    assert len(rows(reader, again)) == len(rows(reader, again)) == 1200
    assert pin_count(root) == 0, "a plan that is used again pins for itself"


def test_what_a_query_has_begun_to_read_is_pinned_for_a_minute_at_a_time(root: Path) -> None:
    reader = topic_reader(root, partitionBytes="1KiB")
    splits = reader.partitions()
    batches = reader.read(travelled(splits[0]))
    next(batches)
    with ReadOnlyStore(root) as store:
        now_ms = store.runner.clock.wall_ns() // 1_000_000
        expiries = [pin.expires_ms for pin in store.pins.active_offsets()]
        assert len(expiries) == 2
        assert all(now_ms < one <= now_ms + 60_000 for one in expiries), "if all is killed here"
    assert all(batch.num_rows for batch in batches)


def test_a_task_that_is_held_up_keeps_its_pins(root: Path) -> None:
    reader = topic_reader(root, pinSeconds="6")
    (split,) = reader.partitions()
    batches = reader.read(travelled(split))
    next(batches)
    with ReadOnlyStore(root) as store:
        first = max(pin.expires_ms for pin in store.pins.active_offsets())
        while True:  # nobody takes rows meanwhile
            expiries = [pin.expires_ms for pin in store.pins.active_offsets()]
            assert len(expiries) == 2
            if min(expiries) > first:
                break
    assert all(batch.num_rows for batch in batches)


def expiring(store: ReadOnlyStore, pin_ids: Sequence[str]) -> dict[str, int]:
    """Let them expire soon: when."""
    return {one: store.pins.renew(one, duration_ms=10_000).expires_ms for one in pin_ids}


def test_a_topic_that_was_made_again_is_not_taken_for_the_one_that_was_planned(root: Path) -> None:
    reader = topic_reader(root)
    splits = reader.partitions()
    with writing(root) as store:
        store.topics.delete("events")
        for partition in store.topic("events", partitions=2).partitions:
            fill(partition, 600)
    with pytest.raises(DataLost, match="deleted and created again"):
        rows(reader, splits)


def test_damage_is_an_error_that_says_where(root: Path) -> None:
    (path, *_) = sorted((root / "topics" / "events" / "0" / "segments").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=path.name):
        rows(topic_reader(root))


def test_a_read_beside_a_writer_ends_where_it_was_planned(root: Path) -> None:
    with writing(root) as store:
        partition = store.topic("events").partition(0)
        fill(partition, 10)
        reader = topic_reader(root, EqualTo(("partition",), 0))
        splits = reader.partitions()
        fill(partition, 500)
        assert numbers(rows(reader, splits)) == [*range(610)]
        assert len(rows(topic_reader(root, EqualTo(("partition",), 0)))) == 1110


# Over HTTP.


@pytest.fixture
def live_api(root: Path) -> Iterator[LiveApi]:
    def guard(store: Store) -> KeyGuard:
        return KeyGuard(KeyRing(None, store.lake.keys), clock=store.runner.clock)

    with open_api(root.parent, make_guard=guard, topic_config=SMALL) as opened:
        yield opened


def through(live_api: LiveApi) -> dict[str, Any]:
    key = live_api.store.lake.keys.create(label="spark")
    return {
        "endpoint": f"http://{HOST}:{live_api.port}",
        "accessKey": key.info.access_key,
        "secretKey": key.secret,
    }


def test_an_endpoint_gives_the_same_rows(root: Path, live_api: LiveApi) -> None:
    there = topic_reader("", partitionBytes="20KiB", **through(live_api))
    splits = there.partitions()
    assert len(splits) == 8
    assert len(live_api.store.pins.active_offsets()) == 2
    assert rows(there, splits) == rows(topic_reader(root))
    some = topic_reader("", GreaterThanOrEqual(("timestamp",), at(591)), **through(live_api))
    assert numbers(rows(some)) == [*range(590, 600)] * 2


def test_an_endpoint_wants_its_keys(root: Path, live_api: LiveApi) -> None:
    options = through(live_api) | {"secretKey": "wrong"}
    with pytest.raises(LakebedError, match="access key"):
        topic_reader("", **options).partitions()
    with pytest.raises(BadConfig, match="set both options accessKey and secretKey"):
        topic_reader("", **(through(live_api) | {"secretKey": ""}))


def test_damage_behind_an_endpoint_is_an_error(root: Path, live_api: LiveApi) -> None:
    (path, *_) = sorted((root / "topics" / "events" / "0" / "segments").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt):
        rows(topic_reader("", **through(live_api)))


def test_a_query_stops_at_lost_messages_until_the_loss_is_acknowledged(root: Path) -> None:
    (path, *_) = sorted((root / "topics" / "events" / "0" / "segments").glob("*.log"))
    path.unlink()
    with open_api(root.parent, topic_config=SMALL) as live_api:
        assert len(live_api.store.topic("events").partitions) == 2
        [record] = live_api.store.damage.list()
        readers = [
            topic_reader(root),
            topic_reader("", endpoint=f"http://{HOST}:{live_api.port}"),
        ]
        for reader in readers:
            with pytest.raises(Corrupt, match="lakebed damage acknowledge"):
                rows(reader)
        live_api.store.damage.acknowledge(record.id)
        for reader in readers:
            assert numbers(rows(reader)) == [*range(record.next_offset or 0, 600), *range(600)]
