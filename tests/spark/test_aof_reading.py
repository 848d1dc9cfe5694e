"""Planning, reading and streaming logs as Spark's workers and driver do it, in every tier."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from lakebed.aof.config import AofConfig
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import Corrupt, InputError, NotFound
from lakebed.base.units import KIB
from lakebed.host.store import Store
from lakebed.spark.errors import DataLost
from lakebed.store.read_only import ReadOnlyStore
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.spark.feeds import log_reader, log_stream, rows, writing

CONFIG = AofConfig(segment_bytes=64 * KIB)
COUNT = 500
SECOND_NS = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of some segments; the last one is open."""
    with writing(tmp_path / "store", config=CONFIG) as store:
        fill(store, COUNT)
        store.log("empty")
    return tmp_path / "store"


def fill(store: Store, count: int, *, first: int = 0) -> None:
    log = store.log("audit")
    for number in range(first, first + count):
        log.append_record_with_timeout(
            b"%08d" % number + b"x" * 492, 10, ext_id=number, timestamp=(number + 1) * SECOND_NS
        )
    log.flush()


def numbers(found: list[dict[str, Any]]) -> list[int]:
    return [int(row["payload"][:8]) for row in found]


def test_everything_is_read_by_default(root: Path) -> None:
    found = rows(log_reader(root))
    assert numbers(found) == [*range(COUNT)]
    assert [row["ext_id"] for row in found] == [*range(COUNT)]
    assert [row["timestamp_ns"] for row in found] == [(n + 1) * SECOND_NS for n in range(COUNT)]
    assert {row["log"] for row in found} == {"audit"}
    ids = [RecordId(row["record_id"]) for row in found]
    assert ids == sorted(ids)
    assert [row["segment"] for row in found] == [one.segment_index for one in ids]
    assert len({row["segment"] for row in found}) >= 4


@pytest.mark.parametrize("bytes_max", ["1KiB", "70KiB", "64MiB"])
def test_however_it_is_split_each_record_is_read_once(root: Path, bytes_max: str) -> None:
    reader = log_reader(root, partitionBytes=bytes_max)
    splits = reader.partitions()
    assert len(splits) == 1 if bytes_max == "64MiB" else len(splits) >= 4
    assert numbers(rows(reader, splits)) == [*range(COUNT)]


def second_segment(root: Path) -> tuple[int, list[int]]:
    found = [row for row in rows(log_reader(root)) if row["segment"] == 1]
    return found[5]["record_id"], numbers(found)


@pytest.mark.parametrize("kind", ["segment", "record_id", "time", "before"])
def test_filters_leave_less_to_be_read(root: Path, kind: str) -> None:
    record_id, inside = second_segment(root)
    filters: dict[str, Filter] = {
        "segment": EqualTo(("segment",), 1),
        "record_id": EqualTo(("record_id",), record_id),
        "time": GreaterThanOrEqual(("timestamp_ns",), 495 * SECOND_NS),
        "before": LessThan(("record_id",), record_id),
    }
    whole = log_reader(root).partitions()
    reader = log_reader(root, filters[kind])
    splits = reader.partitions()
    found = numbers(rows(reader, splits))
    wanted = {
        "segment": inside,
        "record_id": [inside[5]],
        "time": [*range(494, COUNT)],
        "before": [*range(inside[5])],
    }[kind]
    assert set(wanted) <= set(found)
    assert sum(one.size for one in splits) < 0.5 * sum(one.size for one in whole)


def test_a_read_begins_and_ends_where_it_is_told(root: Path) -> None:
    record_id, inside = second_segment(root)
    text = str(RecordId(record_id))
    begun = log_reader(root, startingOffsets=json.dumps({"audit": text}))
    assert numbers(rows(begun)) == [*range(inside[5], COUNT)]
    ended = log_reader(root, endingOffsets=json.dumps({"audit": text}))
    assert numbers(rows(ended)) == [*range(inside[5])]
    timed = log_reader(root, startingTimestamp="10000", endingTimestamp="12000")
    assert numbers(rows(timed)) == [9, 10]
    with pytest.raises(InputError, match="not a record id"):
        log_reader(root, startingOffsets='{"audit": "soon"}').partitions()


def test_an_empty_log_has_no_rows_and_one_that_is_not_there_is_told(root: Path) -> None:
    assert rows(log_reader(root, log="empty")) == []
    with pytest.raises(NotFound, match="no log other; existing logs: audit, empty"):
        log_reader(root, log="other").partitions()


@pytest.mark.parametrize("warm", [False, True], ids=["warm", "cold"])
def test_segments_of_colder_tiers_are_read_where_they_are(root: Path, warm: bool) -> None:
    with writing(root, config=CONFIG) as store:
        log = store.log("audit")
        log.seal_current_segment()
        moved = log.tiers.upload()
        log.tiers.evict(warm=warm)
        assert len(moved) >= 4
    reader = log_reader(root, partitionBytes="70KiB")
    splits = reader.partitions()
    assert len(splits) >= 4
    assert numbers(rows(reader, splits)) == [*range(COUNT)]
    with ReadOnlyStore(root) as store:
        tiers = {info.tier for info in store.log("audit").segments()}
        assert (2 if warm else 1) in tiers


def test_the_segments_of_a_plan_are_pinned(root: Path) -> None:
    _, inside = second_segment(root)
    for path in (root / "pins").iterdir():
        path.unlink()
    reader = log_reader(root, EqualTo(("segment",), 1))
    splits = reader.partitions()
    with ReadOnlyStore(root) as store:
        (pin,) = store.pins.active()
        assert (pin.log, pin.start, pin.end) == ("audit", 1, 2)
    assert numbers(rows(reader, splits)) == inside


def test_a_finished_query_leaves_no_pins(root: Path) -> None:
    reader = log_reader(root)
    splits = reader.partitions()
    with ReadOnlyStore(root) as store:
        assert store.pins.active()
        assert len(rows(reader, splits)) == COUNT
        assert store.pins.active() == []


def test_what_is_gone_is_an_error_or_skipped(root: Path) -> None:
    strict = log_reader(root, pinSeconds=0)
    lenient = log_reader(root, pinSeconds=0, failOnDataLoss="false", partitionBytes="70KiB")
    splits, few = strict.partitions(), lenient.partitions()
    (first, *_) = sorted((root / "aof" / "audit" / "segments").glob("*.seg"))
    first.unlink()
    with pytest.raises(DataLost, match="audit"):
        rows(strict, splits)
    left = numbers(rows(lenient, few))
    assert left == [*range(left[0], COUNT)]
    assert left[0] > 0


def test_damage_is_an_error_that_says_where(root: Path) -> None:
    (path, *_) = sorted((root / "aof" / "audit" / "segments").glob("*.seg"))
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=path.name):
        rows(log_reader(root))


@pytest.mark.parametrize("limit", [ReadMaxRows(70), ReadMaxBytes(30_000)], ids=str)
def test_a_stream_keeps_to_its_limits_and_reads_each_record_once(root: Path, limit: Any) -> None:
    reader = log_stream(root)
    at, found = reader.initialOffset(), []
    while (end := reader.latestOffset(json.loads(json.dumps(at)), limit)) != at:
        some = numbers(rows(reader, reader.partitions(at, end)))
        assert 50 <= len(some) <= 70 or some[-1] == COUNT - 1
        found += some
        reader.commit(end)
        at = end
    assert found == [*range(COUNT)]
    with writing(root, config=CONFIG) as store:
        assert store.pins.active() == []
        fill(store, 200, first=COUNT)
        end = reader.latestOffset(at, ReadAllAvailable())
        assert numbers(rows(reader, reader.partitions(at, end))) == [*range(COUNT, COUNT + 200)]
    reader.stop()


def test_a_limited_stream_whose_start_is_gone_is_an_error_or_goes_on(root: Path) -> None:
    strict = log_stream(root)
    start = strict.initialOffset()
    (first, *_) = sorted((root / "aof" / "audit" / "segments").glob("*.seg"))
    first.unlink()
    for limit in (ReadMaxRows(70), ReadMaxBytes(30_000), ReadAllAvailable()):
        with pytest.raises(DataLost, match="log audit: the range from 0:64"):
            strict.latestOffset(start, limit)
    strict.stop()
    lenient = log_stream(root, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadMaxRows(70))
    left = numbers(rows(lenient, lenient.partitions(start, end)))
    assert left == [*range(left[0], left[0] + 70)]
    assert left[0] > 0
    lenient.stop()


def remove_sealed(root: Path) -> None:
    for path in sorted((root / "aof" / "audit" / "segments").glob("*.seg"))[:-1]:
        path.unlink()


def read_to_the_end(root: Path) -> dict[str, Any]:
    """The checkpoint of a stream that did."""
    reader = log_stream(root)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.stop()
    return cast("dict[str, Any]", json.loads(json.dumps(end)))


@pytest.mark.parametrize("more", [0, 5], ids=["nothing is missed", "something is missed"])
def test_a_stream_goes_on_behind_a_segment_that_it_had_read_to_its_end(
    root: Path, more: int
) -> None:
    start = read_to_the_end(root)
    with writing(root, config=CONFIG) as store:
        fill(store, more, first=COUNT)
        store.log("audit").seal_current_segment()
        fill(store, 20, first=COUNT + more)
    remove_sealed(root)
    reader = log_stream(root)
    if more:
        with pytest.raises(DataLost, match="log audit: the range from"):
            reader.latestOffset(start, ReadAllAvailable())
    else:
        end = reader.latestOffset(start, ReadMaxRows(15))
        found = numbers(rows(reader, reader.partitions(start, end)))
        last = reader.latestOffset(end, ReadAllAvailable())
        found += numbers(rows(reader, reader.partitions(end, last)))
        assert found == [*range(COUNT, COUNT + 20)]
    reader.stop()


def test_a_checkpoint_that_does_not_tell_where_its_segment_began_is_taken_for_lost(
    root: Path,
) -> None:
    start = read_to_the_end(root)
    assert start["lakebed"]["audit"].pop("bases")
    with writing(root, config=CONFIG) as store:
        store.log("audit").seal_current_segment()
        fill(store, 20, first=COUNT)
    reader = log_stream(root)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert numbers(rows(reader, reader.partitions(start, end))) == [*range(COUNT, COUNT + 20)]
    remove_sealed(root)
    with pytest.raises(DataLost, match="log audit: the range from"):
        reader.latestOffset(start, ReadAllAvailable())
    reader.stop()


def test_times_in_the_upper_half_of_their_range_are_left_out_by_no_filter(root: Path) -> None:
    late_ns = (1 << 63) + SECOND_NS
    with writing(root, config=CONFIG) as store:
        store.log("late").append_records([b"late"], timestamps=[late_ns])
        store.log("late").flush()
    for one in (LessThan(("timestamp_ns",), 0), LessThan(("timestamp_ns",), SECOND_NS)):
        [row] = rows(log_reader(root, one, log="late"))
        assert row["timestamp_ns"] == late_ns - (1 << 64), "as Spark sees it, it is less"


@pytest.fixture
def live_api(root: Path) -> Iterator[LiveApi]:
    with open_api(root.parent, config=CONFIG) as opened:
        yield opened


def test_an_endpoint_gives_the_same_rows(root: Path, live_api: LiveApi) -> None:
    endpoint = f"http://{HOST}:{live_api.port}"
    there = log_reader("", endpoint=endpoint, partitionBytes="70KiB")
    splits = there.partitions()
    assert len(splits) >= 4
    assert len(live_api.store.pins.active()) == 1
    assert rows(there, splits) == rows(log_reader(root))
    with pytest.raises(NotFound, match="there is no log other"):
        log_reader("", endpoint=endpoint, log="other").partitions()
    assert "other" not in live_api.store.logs()


def test_a_stream_goes_through_an_endpoint(root: Path, live_api: LiveApi) -> None:
    reader = log_stream("", endpoint=f"http://{HOST}:{live_api.port}")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(100))
    assert numbers(rows(reader, reader.partitions(start, end))) == [*range(100)]
    here = log_stream(root)
    assert here.latestOffset(start, ReadMaxRows(100)) == end, "with all that it tells of it"
    here.stop()
    reader.stop()


def test_a_trigger_takes_the_oldest_records_of_all_logs(tmp_path: Path) -> None:
    with writing(tmp_path / "store", config=CONFIG) as store:
        for name, step in (("dense", 1), ("sparse", 20)):
            log = store.log(name)
            times = [(number + 1) * step * SECOND_NS for number in range(200 // step)]
            log.append_records([b"x" * 100] * len(times), timestamps=times)
            log.flush()
    reader = log_stream(tmp_path / "store", log="", logs="dense,sparse")
    at, newest, count = reader.initialOffset(), 0, 0
    while (end := reader.latestOffset(at, ReadMaxRows(50))) != at:
        found = rows(reader, reader.partitions(at, end))
        times = [row["timestamp_ns"] for row in found]
        assert len(times) <= 50
        assert min(times) >= newest, "nothing comes after what is newer"
        newest, count, at = max(times), count + len(found), end
    assert count == 210
    reader.stop()
