"""`land --widen` and `--retry-dead-letters`: what did not fit becomes part of the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from lakebed.base.errors import Busy, InputError
from lakebed.spark.jobs.land import dead_letter_retry, land
from lakebed.spark.jobs.land.config import LandConfig, Landing
from lakebed.spark.jobs.land.data_source import LandedFiles, LandingWriter, SourceOptions
from lakebed.spark.jobs.land.dead_letter_retry import retry_dead_letters
from lakebed.spark.jobs.land.rows import DEAD_LETTER
from lakebed.spark.jobs.land.target import target_of
from lakebed.spark.jobs.land.task import TaskFiles
from lakebed.spark.jobs.land.wider_columns import widened, wider_types
from lakebed.spark.tables import commit
from lakebed.spark.tables.snapshot import UnsupportedTable
from lakebed.spark.tables.upkeep import optimize
from tests.spark.lands import Lake, by_offset, messages, started_lake
from tests.spark.table_locations import delta, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with started_lake(tmp_path_factory.mktemp("lake")) as started:
        yield started


def cells(lake: Lake, topic: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in lake.rows(topic)]


def test_a_float_after_whole_numbers_is_kept_and_then_widens_the_column(
    spark: SparkSession, lake: Lake
) -> None:
    topic = lake.new_topic()
    lake.add(topic, {"n": 10, "m": 1})
    config = lake.config(topic, values="json", time_partition="day")
    land(spark, config)
    lake.add(topic, {"n": 10.5, "m": 2}, {"n": "ten"}, {"n": 11})
    assert land(spark, config).facts["rescued"] == 2
    assert cells(lake, topic, "n", "m", "_rescued") == [
        (10, 1, None),
        (None, 2, '{"n":10.5}'),
        (None, None, '{"n":"ten"}'),
        (11, None, None),
    ]
    place = lake.place(f"lake/tables/{topic}")
    before = delta(place).version()
    wider = lake.config(topic, values="json", time_partition="day", widens=True)
    lake.add(topic, {"n": 0.5})
    report = land(spark, wider)
    assert (report.facts["columns_widened"], report.facts["rescued"]) == (["n"], 0)
    assert delta(place).version() == before + 2, "one commit widens, and one lands"
    assert cells(lake, topic, "n", "m", "_rescued") == [
        (10.0, 1, None),
        (10.5, 2, None),
        (None, None, '{"n":"ten"}'),
        (11.0, None, None),
        (0.5, None, None),
    ]
    assert land(spark, wider).facts["columns_widened"] == []


def test_a_column_that_would_lose_digits_is_not_widened(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    lake.add(topic, {"n": 2**53 + 1})
    land(spark, lake.config(topic, values="json"))
    lake.add(topic, {"n": 0.5})
    land(spark, lake.config(topic, values="json"))
    with pytest.raises(InputError, match="cannot hold exactly"):
        land(spark, lake.config(topic, values="json", widens=True))
    assert cells(lake, topic, "n", "_rescued") == [(2**53 + 1, None), (None, '{"n":0.5}')]


def test_only_columns_of_whole_numbers_are_widened() -> None:
    schema = StructType([StructField("a", LongType()), StructField("b", DoubleType())])
    texts = ['{"a":true,"b":"x","c":1.5}', '{"a":9223372036854775808}', '{"a":null}']
    assert wider_types(schema, texts) == {}
    assert wider_types(schema, [*texts, '{"a":1e3}']) == {"a": DoubleType()}


def test_numbers_beyond_a_double_stay_rescued_and_hold_up_no_others() -> None:
    digits = "1" + "0" * 400
    texts = ['{"n":1e400}', f'{{"n":{digits}}}', '{"n":10.5}']
    schema = StructType([StructField("n", LongType()), StructField("_rescued", StringType())])
    assert wider_types(schema, texts) == {"n": DoubleType()}
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None] * 3, pa.int64()), pa.array(texts)], names=["n", "_rescued"]
    )
    wider = StructType([StructField("n", DoubleType()), schema["_rescued"]])
    rows = widened(batch, wider, ["n"], "_rescued").to_pydict()
    assert rows == {"n": [None, None, 10.5], "_rescued": [*texts[:2], None]}


def bury(lake: Lake, config: LandConfig, *values: bytes, first: int, batch: int) -> None:
    """Have dead letters, as a release wrote them that did not know better."""
    landing = config.landings()[0]
    target = target_of(landing, lake.s3, is_dead=True)
    letters = messages(*values, first=first).append_column(
        "error", pa.array(["wrong"] * len(values))
    )
    files = target.open_files(target.agree(_letter_schema(), is_given=False))
    files.write(letters)
    task = TaskFiles([], files.finish(), _letter_schema().json())
    writer = LandingWriter(landing, SourceOptions({}, lake.s3))
    writer.commit([LandedFiles([msgspec.json.encode(task)], "old")], batch)


def _letter_schema() -> StructType:
    from lakebed.spark.jobs.land.rows import spark_schema

    return spark_schema(DEAD_LETTER)


def dead_offsets(lake: Lake, topic: str) -> list[int]:
    rows = rows_of(lake.place(f"lake/tables/{topic}_dead_letters"))
    return [row["offset"] for row in by_offset(rows)]


def test_dead_letters_that_are_rows_by_now_are_landed_once(spark: SparkSession, lake: Lake) -> None:
    topic = lake.new_topic()
    config = lake.config(topic, values="json", retries_dead_letters=True)
    bury(lake, config, b'{"id": 7}', b"oops", b'{"id": "x"}', first=100, batch=0)
    lake.add(topic, {"id": 1})
    report = land(spark, config)
    assert (report.facts["dead_letters_landed"], report.row_count) == (2, 1)
    assert cells(lake, topic, "_offset", "id", "_rescued") == [
        (0, 1, None),
        (100, 7, None),
        (102, None, '{"id":"x"}'),
    ]
    assert dead_offsets(lake, topic) == [101]
    assert land(spark, config).facts["dead_letters_landed"] == 0
    assert dead_offsets(lake, topic) == [101]


@pytest.mark.parametrize("killed_at", ["_commit_rows", "_take_out", "_remove_decision"])
def test_a_retry_that_is_killed_is_finished_by_the_next_and_new_letters_stay(
    lake: Lake, killed_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"retried{killed_at}"
    config = lake.config(topic, values="json")
    landing = config.landings()[0]
    bury(lake, config, b'{"id": 7}', b"oops", first=100, batch=0)
    decide = dead_letter_retry._decide

    def dying(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def decide_and_die(*arguments: Any) -> None:
        decide(*arguments)
        monkeypatch.setattr(dead_letter_retry, killed_at, dying)

    monkeypatch.setattr(dead_letter_retry, "_decide", decide_and_die)
    with pytest.raises(KeyboardInterrupt):
        retry_dead_letters(landing, lake.s3)
    monkeypatch.undo()
    bury(lake, config, b"also no", first=200, batch=1)
    optimize(lake.place(landing.dead_letters))
    assert retry_dead_letters(landing, lake.s3) == 1
    assert cells(lake, topic, "_offset", "id") == [(100, 7)]
    assert dead_offsets(lake, topic) == [101, 200]
    assert retry_dead_letters(landing, lake.s3) == 0
    assert lake.keys(f"_land/tables/{topic}_dead_letters") == []


def started_retry(lake: Lake, landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a retry that dies after it is recorded, before its first commit."""

    def dying(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dead_letter_retry, "_commit_rows", dying)
        with pytest.raises(KeyboardInterrupt):
            retry_dead_letters(landing, lake.s3)


def test_a_retry_that_other_writers_hold_up_keeps_its_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.new_topic()
    config = lake.config(topic, values="json")
    landing = config.landings()[0]
    bury(lake, config, b'{"id": 7}', b"oops", first=100, batch=0)
    with monkeypatch.context() as patch:
        patch.setattr(commit, "ATTEMPTS_MAX", 0)
        with pytest.raises(Busy):
            retry_dead_letters(landing, lake.s3)
    assert dead_offsets(lake, topic) == [100, 101]
    assert retry_dead_letters(landing, lake.s3) == 1
    assert cells(lake, topic, "_offset", "id") == [(100, 7)]
    assert dead_offsets(lake, topic) == [101]


def test_a_retry_that_the_table_refuses_leaves_the_dead_letters(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lake.new_topic()
    config = lake.config(topic, values="json")
    landing = config.landings()[0]
    bury(lake, config, b'{"id": 7}', b"oops", first=100, batch=0)
    started_retry(lake, landing, monkeypatch)
    data = [key for key in lake.keys(f"tables/{topic}") if key.endswith(".parquet")]
    assert data, "the rows of the retry were written"
    with monkeypatch.context() as patch:
        patch.setattr(commit, "check_writable", refuse)
        with pytest.raises(UnsupportedTable):
            retry_dead_letters(landing, lake.s3)
    assert lake.keys(f"_land/tables/{topic}_dead_letters") == []
    assert dead_offsets(lake, topic) == [100, 101]
    assert retry_dead_letters(landing, lake.s3) == 1
    assert cells(lake, topic, "_offset", "id") == [(100, 7)]


def refuse(_: Any) -> None:
    raise UnsupportedTable("the table has a constraint")
