"""Spark over the store, beside Spark's own Parquet and beside rows that Python makes one by one.

All three read the same rows, all columns of them, into Spark's sink that keeps nothing. Parquet is
compressed as Spark does by default; the store's rows are not. `local[2]`, one session for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.aof_stores import SCRATCH, scratch_folder
from bench.objects_stores import BUCKET, fill_metadata
from bench.row import Contestant, Row, Run, Unavailable
from lakebed.base.units import MIB
from lakebed.host.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET = "Spark's Parquet"
TUPLES = "tuples from Python"
OPTIONS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # 96 bits are no number to others
}
_FILL_RECORDS = 10_000

Fill = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much there is to read, and where."""

    scratch: Path = SCRATCH
    row_count: int = 2_000_000
    object_count: int = 200_000
    object_bytes: int = 16 * MIB
    value_bytes: int = 100
    partitions: int = 2


FULL = Work()


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(FULL, scratch=scratch, row_count=3_000, object_count=300, object_bytes=10_000)


def rows(work: Work = FULL) -> Iterator[Row]:
    size = work.value_bytes
    yield scan_row(f"spark/scan a topic/{size} B values", work, _topic(work))
    yield scan_row(f"spark/scan a log/{size} B records", work, _log(work))
    yield scan_row("spark/scan the objects of a bucket", work, _objects(work))


@dataclass(frozen=True)
class Source:
    """One of ours: how it is filled and asked for."""

    name: str
    row_count: int
    fill: Fill
    options: dict[str, str]
    payload_bytes: int = 0  # of a row


def _topic(work: Work) -> Source:
    fill = partial(fill_topic, work=work)
    return Source("lakebed.topic", work.row_count, fill, {"topic": "events"}, work.value_bytes)


def _log(work: Work) -> Source:
    fill = partial(fill_log, work=work)
    return Source("lakebed.aof", work.row_count, fill, {"log": "events"}, work.value_bytes)


def _objects(work: Work) -> Source:
    return Source(
        "lakebed.objects", work.object_count, partial(fill_objects, work=work), {"bucket": BUCKET}
    )


def scan_row(name: str, work: Work, source: Source) -> Row:
    return Row(
        name=name,
        unit="rows",
        baseline=PARQUET,
        note=f"{source.row_count:,} rows, all columns{_rate_of_bytes(source)}",
        contestants=[
            Contestant(source.name, partial(_scan_ours, work, source)),
            Contestant(PARQUET, partial(_scan_parquet, work, source)),
            Contestant(TUPLES, partial(_scan_tuples, work, source)),
        ],
    )


def _rate_of_bytes(source: Source) -> str:
    if not source.payload_bytes:
        return ""
    return f"; 1 M rows/s is {source.payload_bytes} MB/s of values, keys and the rest not counted"


def session() -> SparkSession:
    """The one session of the process."""
    from lakebed.spark import session as start
    from lakebed.spark.errors import SparkUnavailable

    try:
        return start(**OPTIONS)
    except SparkUnavailable as error:
        raise Unavailable(str(error)) from error


def drain(frame: DataFrame) -> None:
    """Make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


# The contestants.


@contextmanager
def _filled(work: Work, source: Source) -> Iterator[tuple[Path, DataFrame]]:
    spark = session()
    with scratch_folder(work.scratch) as root:
        source.fill(root)
        reader = spark.read.format(source.name).options(path=str(root), **source.options)
        yield root, reader.load()


@contextmanager
def _scan_ours(work: Work, source: Source) -> Iterator[Run]:
    with _filled(work, source) as (_, frame):
        yield _draining(frame, source)


@contextmanager
def _scan_parquet(work: Work, source: Source) -> Iterator[Run]:
    with _filled(work, source) as (root, frame):
        place = str(root.with_name("parquet"))
        frame.write.parquet(place)
        yield _draining(session().read.parquet(place), source)


@contextmanager
def _scan_tuples(work: Work, source: Source) -> Iterator[Run]:
    """The same rows, kept as Parquet and given as one tuple each by a data source in Python."""
    with _filled(work, source) as (root, frame):
        place = str(root.with_name("parquet"))
        frame.write.parquet(place)
        spark = session()
        spark.dataSource.register(tuple_source(frame.schema))
        reader = spark.read.format("tuples").option("path", place)
        yield _draining(reader.load(), source)


def _draining(frame: DataFrame, source: Source) -> Run:
    assert frame.count() == source.row_count, "rows are missing"

    def run() -> float:
        drain(frame)
        return source.row_count

    return run


def tuple_source(schema: Any) -> Any:
    """A class of its own each time: Spark sends it to workers as it is, they need no module."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class FilePartition(InputPartition):
        def __init__(self, path: str) -> None:
            self.path = path

    class TupleReader(DataSourceReader):
        def __init__(self, folder: str) -> None:
            self.folder = folder

        def partitions(self) -> list[InputPartition]:
            return [FilePartition(str(path)) for path in Path(self.folder).glob("*.parquet")]

        def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
            import pyarrow.parquet as parquet

            for batch in parquet.ParquetFile(partition.path).iter_batches(10_000):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    class TupleSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "tuples"

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 (by name)
            return TupleReader(self.options["path"])

    return TupleSource


# What they read.


def fill_topic(root: Path, *, work: Work, value: Callable[[int], bytes] | None = None) -> None:
    """Keyed messages, spread over the partitions in turn."""
    make = value or partial(_value, size=work.value_bytes)
    with Store.open(root, serves=False) as store:
        topic = store.topic("events", partitions=work.partitions)
        numbers = iter(range(work.row_count))
        turn = 0
        while some := list(islice(numbers, _FILL_RECORDS)):
            topic.partition(turn % work.partitions).append_batch(
                [make(number) for number in some], keys=[b"%08d" % number for number in some]
            ).result()
            turn += 1


def fill_log(root: Path, *, work: Work) -> None:
    with Store.open(root, serves=False) as store:
        log = store.log("events")
        numbers = iter(range(work.row_count))
        while some := list(islice(numbers, _FILL_RECORDS)):
            ids = log.append_records([_value(number, size=work.value_bytes) for number in some])
            log.flush(ids[-1])


def fill_objects(root: Path, *, work: Work) -> None:
    fill_metadata(root, (f"photos/{number:012d}" for number in range(work.object_count)))


def _value(number: int, *, size: int) -> bytes:
    """As text is: half of it repeats."""
    head = b'{"id":%d,"state":"shipped","amount":%d,"note":"' % (number, number * 7919 % 100_003)
    return head + b"x" * max(0, size - len(head) - 2) + b'"}'
