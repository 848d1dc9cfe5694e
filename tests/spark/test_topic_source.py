"""`lakebed.topic` and `lakebed.aof` in a real session: every column, nulls, codecs, filters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakebed.keratin.compression import Compression
from lakebed.keratin.record_batch import build
from lakebed.store.read_only import ReadOnlyStore
from tests.http_api.live_api import HOST, open_api
from tests.spark.feeds import SMALL, fill, retain, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("topics") / "store"
    with writing(root) as store:
        mixed = store.topic("mixed").partition(0)
        mixed.append_batch(
            [b"value", None, b"", b"\x00\xff"],
            keys=[b"key", b"gone", b"", None],
            headers=[[("a", b"1"), ("a", None)], [], [("b", b"")], []],
            timestamps_ms=[1_700_000_000_123, 0, 1, 2],
        ).result()
        for compression in Compression:
            batch = build(
                [b"packed", None],
                keys=[compression.name.encode(), None],
                headers=[[("codec", b"x")], []],
                timestamps_ms=[1000, 2000],
                compression=compression,
            )
            mixed.append_record_batch(batch).result()
        for partition in store.topic("events", partitions=3).partitions:
            fill(partition, 400)
        log = store.log("audit")
        for number in range(50):
            log.append_record(b"record %d" % number, ext_id=number, timestamp=number * 1000)
        log.flush()
    return root


def load(spark: SparkSession, root: Path, source: str = "topic", **options: Any) -> DataFrame:
    return spark.read.format(f"lakebed.{source}").options(path=str(root), **options).load()


def test_every_column_and_every_kind_of_null(spark: SparkSession, root: Path) -> None:
    found = load(spark, root, topic="mixed").selectExpr(
        "topic", "partition", "offset", "unix_micros(timestamp) AS at", "key", "value", "headers"
    )
    rows = [tuple(row) for row in found.orderBy("offset").limit(4).collect()]
    assert [row[:4] for row in rows] == [
        ("mixed", 0, 0, 1_700_000_000_123_000),
        ("mixed", 0, 1, 0),
        ("mixed", 0, 2, 1000),
        ("mixed", 0, 3, 2000),
    ]
    assert [row[4] for row in rows] == [b"key", b"gone", b"", None]
    assert [row[5] for row in rows] == [b"value", None, b"", b"\x00\xff"]
    headers = [[tuple(header) for header in row[6]] for row in rows]
    assert headers == [[("a", b"1"), ("a", None)], [], [("b", b"")], []]


def test_batches_of_every_codec_are_rows_as_all_others(spark: SparkSession, root: Path) -> None:
    found = load(spark, root, topic="mixed").where("offset >= 4").orderBy("offset").collect()
    assert [row["key"] for row in found[::2]] == [one.name.encode() for one in Compression]
    assert {row["value"] for row in found[::2]} == {b"packed"}
    assert {(row["key"], row["value"]) for row in found[1::2]} == {(None, None)}
    assert {tuple(map(tuple, row["headers"])) for row in found[::2]} == {(("codec", b"x"),)}


def test_what_a_frame_is_loaded_with_decides_what_is_read(spark: SparkSession, root: Path) -> None:
    def narrowed(*conditions: list[object]) -> DataFrame:
        filters = json.dumps(conditions)
        return load(spark, root, topic="events", partitionBytes="8KiB", filters=filters)

    assert load(spark, root, topic="events", partitionBytes="8KiB").rdd.getNumPartitions() >= 10
    few = narrowed(["partition", "=", 1], ["offset", ">=", 380])
    assert few.rdd.getNumPartitions() == 1
    assert few.count() == 20
    timed = narrowed(["timestamp", ">=", "1970-01-01T00:06:31Z"], ["key", "is null"])
    assert timed.rdd.getNumPartitions() <= 2
    assert timed.count() == 30


def test_every_query_of_a_frame_has_all_its_rows(spark: SparkSession, root: Path) -> None:
    frame = load(spark, root, topic="events", filters='[["offset", "<", 300]]')
    few, others = frame.where("partition = 1 AND offset >= 290"), frame.where("offset < 10")
    few.explain()
    assert frame.count() == 900
    assert few.count() == 10
    assert frame.count() == 900
    assert few.union(frame).union(others).count() == 10 + 900 + 30
    assert few.join(frame, "offset").count() == 30


def test_filters_of_queries_are_not_pushed(spark: SparkSession, root: Path) -> None:
    with pytest.raises(
        PySparkException, match="pushFilters is 'true': it must be omitted: it was removed"
    ):
        load(spark, root, topic="events", pushFilters="true").count()


def test_a_finished_query_leaves_no_pins_and_one_that_ended_early_short_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    with writing(root) as writer:
        for partition in writer.topic("events", partitions=2).partitions:
            fill(partition, 400)
    frame = load(spark, root, topic="events")
    assert frame.count() == frame.count() == 800
    with ReadOnlyStore(root) as store:
        assert store.pins.active_offsets() == []
        early = load(spark, root, topic="events", partitionBytes="8KiB")
        assert len(early.take(1)) == 1
        now_ms = store.runner.clock.wall_ns() // 1_000_000
        left_ms = [pin.expires_ms - now_ms for pin in store.pins.active_offsets()]
        assert left_ms
        assert max(left_ms) <= 60_000


@pytest.mark.parametrize("pin_s", [3600, 0])
def test_retention_during_a_query_leaves_what_it_reads(
    spark: SparkSession, tmp_path: Path, pin_s: int
) -> None:
    root = tmp_path / "store"
    with writing(root) as store:
        fill(store.topic("events").partition(0), 400)
    options: dict[str, Any] = {"partitionBytes": "20KiB", "pinSeconds": pin_s, "columns": "offset"}
    found = load(spark, root, topic="events", **options)
    rows = found.toLocalIterator()  # a task at a time, when its rows are asked for
    offsets = [next(rows).offset]
    (first,) = retain(root)
    assert (first > 200) == (not pin_s)
    if pin_s:
        assert [*offsets, *(row.offset for row in rows)] == [*range(400)]
    else:
        with pytest.raises(
            Exception, match=r"lakebed\.spark\.errors\.DataLost: events, partition 0"
        ):
            list(rows)


def test_a_frame_that_is_used_twice_has_all_its_rows(spark: SparkSession, root: Path) -> None:
    everything = load(spark, root, topic="events", partitionBytes="8KiB")
    few = everything.where("partition = 1 AND offset >= 380")
    assert few.count() == 20
    assert everything.count() == 1200
    assert everything.where("offset % 100 = 7 OR partition = 2").count() == 400 + 8
    assert few.union(everything.where("offset IN (3, 5) AND partition <> 0")).count() == 24


def test_columns_can_be_chosen_by_option_and_by_schema(spark: SparkSession, root: Path) -> None:
    chosen = load(spark, root, topic="events", columns="offset,value")
    assert chosen.columns == ["offset", "value"]
    assert chosen.agg({"offset": "sum"}).collect()[0][0] == 3 * sum(range(400))
    reader = spark.read.format("lakebed.topic").schema("value binary, offset bigint")
    given = reader.options(path=str(root), topic="events").load()
    assert given.where("offset = 7").first()["value"][:8] == b"00000007"  # type: ignore[index]


def test_damage_and_wrong_options_are_told_in_words(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"unknown option 'topik'.*did you mean topic"):
        load(spark, root, topik="events")
    with writing(tmp_path) as store:
        fill(store.topic("events").partition(0), 400)
    (path, *_) = sorted((tmp_path / "topics" / "events" / "0" / "segments").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=rf"{path.name}: at byte \d+"):
        load(spark, tmp_path, topic="events").count()


def test_a_log_is_a_table_of_records(spark: SparkSession, root: Path) -> None:
    found = load(spark, root, "aof", log="audit")
    assert found.where("ext_id < 5").selectExpr("sum(timestamp_ns)").collect()[0][0] == 10_000
    first = found.orderBy("record_id").first()
    assert first is not None
    assert (first["log"], first["segment"], first["payload"]) == ("audit", 0, b"record 0")
    assert found.where("segment > 0").count() == 0


def test_the_source_that_spark_finds_by_itself_is_any_of_them(
    spark: SparkSession, root: Path
) -> None:
    reader = spark.read.format("lakebed").options(path=str(root), topic="events")
    assert reader.option("source", "topic").load().count() == 1200


def test_workers_read_through_an_endpoint(spark: SparkSession, tmp_path: Path) -> None:
    with open_api(tmp_path, topic_config=SMALL) as live_api:
        fill(live_api.store.topic("events").partition(0), 500)
        reader = spark.read.format("lakebed.topic").option("topic", "events")
        found = reader.option("endpoint", f"http://{HOST}:{live_api.port}").load()
        assert found.where("offset >= 100").count() == 400
