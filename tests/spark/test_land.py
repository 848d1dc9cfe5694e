"""`land` in a real session: topics and logs into tables of a node's bucket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from lakebed.base.errors import InputError
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.land import land
from lakebed.spark.jobs.report import Report
from tests.spark.lands import Lake, started_lake
from tests.spark.table_locations import delta, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with started_lake(tmp_path_factory.mktemp("lake")) as started:
        yield started


class Watching:
    """Waits until so many rows were told."""

    def __init__(self, wanted: int = 0) -> None:
        self.is_reached = threading.Event()
        self.told: list[int] = []
        self._wanted = wanted

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None: ...

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        self.told.append(done)
        if done >= self._wanted:
            self.is_reached.set()

    def report_line(self, text: str) -> None: ...


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_raw_messages_of_two_topics_land_in_two_tables_by_hour_and_once(
    spark: SparkSession, lake: Lake
) -> None:
    first, second = lake.new_topic(partitions=2), lake.new_topic()
    lake.add(
        first,
        *[b"a", b"", None],
        keys=[b"k", None, b""],
        headers=[[("h", b"1")], [], []],
        timestamps_ms=[0, HOUR_MS, 25 * HOUR_MS],
    )
    lake.add(first, b"b", partition=1, timestamps_ms=[HOUR_MS])
    lake.add(second, b"c")
    chosen = lake.config(first, second, time_partition="hour")
    watching = Watching()
    report = land(spark, chosen, watching)
    assert (report.row_count, report.facts["dead_letters"], report.facts["batches"]) == (5, 0, 2)
    assert report.size_bytes
    assert watching.told[-1] == 5
    rows = lake.rows(first)
    assert columns(rows, "topic", "partition", "offset") == [
        (first, 0, 0),
        (first, 0, 1),
        (first, 0, 2),
        (first, 1, 0),
    ]
    assert columns(rows, "key", "value", "hour") == [
        (b"k", b"a", 0),
        (None, b"", 1),
        (b"", None, 1),
        (None, b"b", 1),
    ]
    assert [str(row["day"]) for row in rows] == ["1970-01-01"] * 2 + ["1970-01-02", "1970-01-01"]
    assert rows[0]["headers"] == [{"name": "h", "value": b"1"}]
    assert columns(lake.rows(second), "value") == [(b"c",)]
    paths = [one.removeprefix(f"tables/{first}/") for one in lake.keys(f"tables/{first}/")]
    assert sorted({one.rpartition("/")[0] for one in paths} - {"_delta_log"}) == [
        "day=1970-01-01/hour=0",
        "day=1970-01-01/hour=1",
        "day=1970-01-02/hour=1",
    ]
    lake.add(first, b"later", timestamps_ms=[0])
    assert land(spark, chosen).row_count == 1
    assert len(lake.rows(first)) == 5


def test_json_is_inferred_evolves_and_what_is_no_row_is_a_dead_letter(
    spark: SparkSession, lake: Lake
) -> None:
    topic = lake.new_topic(partitions=2)
    keys = [None, b"gone", None, None]
    lake.add(topic, {"id": 1, "price": 1}, None, b"oops", {"id": 2, "deep": {"x": [1]}}, keys=keys)
    lake.add(topic, {"id": 3, "price": 2.5}, {"id": None}, {"id": "three"}, partition=1)
    chosen = lake.config(topic, values="json")
    report = land(spark, chosen)
    facts = report.facts
    assert (report.row_count, facts["rescued"], facts["dead_letters"]) == (6, 1, 1)
    rows = lake.rows(topic)
    assert columns(rows, "_partition", "_offset", "id", "price", "deep") == [
        (0, 0, 1, 1.0, None),
        (0, 1, None, None, None),
        (0, 3, 2, None, {"x": [1]}),
        (1, 0, 3, 2.5, None),
        (1, 1, None, None, None),
        (1, 2, None, None, None),
    ]
    assert rows[-1]["_rescued"] == '{"id":"three"}'
    dead = lake.dead_letters(topic)
    assert columns(dead, "topic", "partition", "offset", "value") == [
        (topic, 0, 2, b"oops"),
    ]
    assert all(row["error"] and row["timestamp"] for row in dead)
    lake.add(topic, {"id": 4, "new": True, "deep": {"y": "z"}}, {"id": 5, "new": "no"})
    report = land(spark, chosen)
    assert (report.row_count, report.facts["rescued"]) == (2, 1)
    by_id = {row["id"]: row for row in lake.rows(topic)}
    assert (by_id[4]["new"], by_id[4]["deep"]) == (True, {"x": None, "y": "z"})
    assert (by_id[5]["new"], by_id[5]["_rescued"]) == (None, '{"new":"no"}')


def test_a_given_schema_must_fit_the_table(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    chosen = lake.config(topic, values="json", schema="id INT, at TIMESTAMP")
    lake.add(topic, {"id": 1, "at": "2026-01-31T12:00:00Z", "more": 1}, {"id": 2**31})
    report = land(spark, chosen)
    assert (report.row_count, report.facts["rescued"]) == (2, 1)
    assert set(lake.rows(topic)[0]) >= {"id", "at", "_key"}
    assert columns(lake.rows(topic), "id", "_rescued") == [(1, None), (None, '{"id":2147483648}')]
    with pytest.raises(InputError, match="id is int, and here string"):
        land(spark, lake.config(topic, values="json", schema="id STRING"))


def test_a_topic_that_is_empty_or_begins_later(spark: SparkSession, lake: Lake) -> None:
    topic, cut = lake.new_topic(), lake.new_topic(segment_bytes=64 * 1024)
    chosen = lake.config(topic, cut, values="json")
    for number in range(200):
        lake.add(cut, {"n": number, "text": "x" * 1000})
    lake.store.topic(cut).partition(0).truncate_before(150)
    assert land(spark, chosen).row_count == 50
    assert lake.rows(topic) == []
    assert columns(lake.rows(cut), "n") == [(number,) for number in range(150, 200)]
    lake.add(topic, {"n": 1})
    assert land(spark, chosen).row_count == 1
    assert columns(lake.rows(topic), "n") == [(1,)]


@pytest.mark.slow
def test_a_late_start_through_an_endpoint_takes_what_comes_then(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    topic = lake.new_topic()
    lake.add(topic, b"before")
    node = lake.node
    backend = Backend(
        endpoint=node.http_url, access_key=node.access_key, secret_key=node.secret_key
    )
    chosen = lake.config(topic, source=backend, starting_offsets="latest", checkpoint=str(tmp_path))
    assert land(spark, chosen).row_count == 0
    lake.add(topic, b"behind")
    assert land(spark, chosen).row_count == 1
    assert columns(lake.rows(topic), "value") == [(b"behind",)]
    assert list(tmp_path.iterdir()), "the checkpoint is where it was wanted"


def test_a_log_lands_in_plain_parquet_files(spark: SparkSession, lake: Lake) -> None:
    log = lake.store.log("audit")
    log.append_records([b'{"who": "a"}', b"bad", b'{"who": "b", "n": 1}'])
    chosen = lake.config(logs=("audit",), values="json", table_format="parquet")
    report = land(spark, chosen)
    assert (report.row_count, report.facts["dead_letters"]) == (2, 1)
    assert columns(lake.parquet_rows("audit"), "_log", "who", "n") == [
        ("audit", "a", None),
        ("audit", "b", 1),
    ]
    (dead,) = lake.parquet_rows("audit_dead_letters")
    assert (dead["topic"], dead["partition"], dead["key"], dead["value"]) == (
        "audit",
        0,
        None,
        b"bad",
    )
    assert land(spark, chosen).row_count == 0
    assert len(lake.parquet_rows("audit")) == 2


@pytest.mark.slow
def test_small_files_are_joined_while_somebody_reads(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    for number in range(6):
        lake.add(topic, *[b"%d" % one for one in range(number * 10, number * 10 + 10)])
    chosen = lake.config(
        topic,
        batch_rows_max=20,
        optimize_batches=1,
        optimizes_at_end=True,
        vacuum_retention_h=168.0,
    )
    place = lake.place(f"lake/tables/{topic}")
    counts: list[int] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            if lake.keys(f"tables/{topic}/_delta_log/"):
                counts.append(len(rows_of(place)))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        report = land(spark, chosen)
    finally:
        is_done.set()
        reader.join()
    assert report.facts["batches"] == 3
    assert counts == sorted(counts)
    assert set(counts) <= {0, 20, 40, 60}, "whole batches"
    assert counts
    table = delta(place)
    assert len(table.file_uris()) == 1
    assert {one["operation"] for one in table.history()} >= {"WRITE", "OPTIMIZE"}
    assert sorted(int(row["value"]) for row in rows_of(place)) == list(range(60))


def test_a_stream_goes_on_until_it_is_stopped(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    lake.add(topic, b"1", b"2")
    watching, reports = Watching(wanted=3), list[Report]()
    chosen = lake.config(topic, is_stream=True, interval_s=0.0)
    thread = threading.Thread(target=lambda: reports.append(land(spark, chosen, watching)))
    thread.start()
    lake.add(topic, b"3")
    while not watching.is_reached.wait(1):
        assert thread.is_alive()
    for query in spark.streams.active:
        query.stop()
    thread.join()
    assert reports[0].row_count == 3
    assert columns(lake.rows(topic), "value") == [(b"1",), (b"2",), (b"3",)]


@pytest.mark.slow
def test_a_topic_that_was_made_again_ends_the_job(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    lake.add(topic, b"1", b"2")
    chosen = lake.config(topic)
    land(spark, chosen)
    lake.store.topics.delete(topic)
    lake.store.topics.create(topic)
    lake.add(topic, b"3")
    with pytest.raises(PySparkException, match="deleted and made again"):
        land(spark, chosen)
    assert spark.streams.active == []
    assert columns(lake.rows(topic), "value") == [(b"1",), (b"2",)]


def test_a_bucket_that_does_not_exist_is_created_only_on_request(
    spark: SparkSession, lake: Lake
) -> None:
    topic = lake.new_topic()
    lake.add(topic, b"1")
    mistyped = lake.config(topic, table="laek/{name}")
    with pytest.raises(InputError, match="there is no bucket laek"):
        land(spark, mistyped)
    assert "laek" not in [one.name for one in lake.store.buckets()]
    assert land(spark, lake.config(topic, table="new/{name}", creates_bucket=True)).row_count == 1
