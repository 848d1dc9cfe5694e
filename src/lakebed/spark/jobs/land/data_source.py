"""`lakebed.landing`: what `land` reads and writes by; nobody else needs it.

Its stream reads topics or logs as `lakebed.topic` and `lakebed.aof` do, and gives a row for each
task: how much that landed, and the files that it wrote. Its sink commits them. A batch read gives
the shapes of the JSON values at the beginning of each split: a sample.

What reading does here has an effect, which is harmless: files that no commit names are seen by
nobody. A task that is tried again writes others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from lakebed.base.errors import InputError, LakebedError
from lakebed.base.events import event
from lakebed.spark.filters import Interval
from lakebed.spark.jobs.land.config import Landing
from lakebed.spark.jobs.land.json_decoder import BadDocument, generic
from lakebed.spark.jobs.land.landed_range import LandedRange, advances_of, as_landed, lane_id
from lakebed.spark.jobs.land.rows import DEAD_LETTER, MessageRows, spark_schema
from lakebed.spark.jobs.land.shapes import Shape
from lakebed.spark.jobs.land.target import Target, target_of
from lakebed.spark.jobs.land.task import LandTask, TaskFiles
from lakebed.spark.options import Options
from lakebed.spark.sinks.query import QUERY_PROPERTY
from lakebed.spark.sources.batch import FeedReader
from lakebed.spark.sources.feed import Lane
from lakebed.spark.sources.progress import decode_progress, encode_progress
from lakebed.spark.sources.settings import ReadSettings, settings_of
from lakebed.spark.sources.split_plan import Split
from lakebed.spark.sources.split_reader import read_split
from lakebed.spark.sources.stream import FeedStreamReader
from lakebed.spark.tables.commit import Transaction

if TYPE_CHECKING:
    from lakebed.spark.sources.settings import Kind

NAME: Final = "lakebed.landing"
SAMPLE_ROWS: Final = 2000  # of each split
ROW: Final = pa.schema(
    [
        ("rows", pa.int64()),
        ("rescued", pa.int64()),
        ("dead_letters", pa.int64()),
        ("size_bytes", pa.int64()),
        ("files", pa.binary()),
    ]
)

_log = logging.getLogger(__name__)


class SourceOptions(msgspec.Struct, frozen=True):
    """Options of the source and of the S3. There are secrets in it."""

    feed: dict[str, str]
    s3: dict[str, str]


def landing_options(landing: Landing, places: SourceOptions) -> dict[str, str]:
    """Spark shows no value of an option whose name says that it is a secret."""
    return {
        "landing": msgspec.json.encode(landing).decode(),
        "secretPlaces": msgspec.json.encode(places).decode(),
    }


class LandingSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(ROW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - there is one
        landing, places = self._given()
        columns = (landing.value_column,)
        return SampleReader(landing, _settings(landing, places, columns, is_stream=False))

    def streamReader(self, schema: StructType) -> LandingReader:  # noqa: ARG002, N802
        landing, places = self._given()
        columns = MessageRows(landing).read_columns
        return LandingReader(landing, places, _settings(landing, places, columns, is_stream=True))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LandingWriter:  # noqa: ARG002, N802
        return LandingWriter(*self._given())

    def _given(self) -> tuple[Landing, SourceOptions]:
        options = Options(NAME, self.options, known=("landing", "secretPlaces"))
        return (
            msgspec.json.decode(options.required("landing"), type=Landing),
            msgspec.json.decode(options.required("secretPlaces"), type=SourceOptions),
        )


class LandingReader(FeedStreamReader):
    """The tasks of a stream do all the work."""

    def __init__(self, landing: Landing, places: SourceOptions, settings: ReadSettings) -> None:
        super().__init__(settings)
        self._landing = landing
        self._places = places
        self._target_table: Target | None = None

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self._landing.kind

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._as_landed(super().initialOffset())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return super().latestOffset(self._as_landed(start), limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        ends = decode_progress(end).positions
        return super().partitions(self._as_landed(start, ends=ends), end)

    def _as_landed(
        self, progress: dict[str, Any], *, ends: Mapping[Lane, int] | None = None
    ) -> dict[str, Any]:
        begun = decode_progress(progress)
        if self._target_table is None:
            rows, _ = targets(self._landing, self._places, MessageRows(self._landing))
            self._target_table = rows
        ids = [
            lane_id(begun.identities.get(lane.name, ""), lane.number) for lane in begun.positions
        ]
        landed = self._target_table.landed([one for one in ids if one])
        if not landed:
            return progress
        return encode_progress(as_landed(begun, landed, self._feed(), ends=ends))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Split):  # the plan has none
            return
        messages = MessageRows(self._landing)
        batches = read_split(self.kind, self.settings, partition, times_us=Interval())
        ranges = [
            LandedRange(*one.lane, one.identity, one.start, one.end) for one in partition.pieces
        ]
        task = LandTask(
            self._landing, messages, *targets(self._landing, self._places, messages), ranges
        )
        try:
            for batch in batches:
                task.take(batch)
            files = task.finish()
        except BaseException:
            task.drop()
            raise
        counts = (task.row_count, task.rescued_count, task.dead_count, task.size_bytes)
        cells = [*counts, msgspec.json.encode(files)]
        yield pa.RecordBatch.from_arrays(
            [pa.array([cell], one.type) for cell, one in zip(cells, ROW, strict=True)], schema=ROW
        )


class SampleReader(FeedReader):
    """Of JSON values; what is none is passed over."""

    def __init__(self, landing: Landing, settings: ReadSettings) -> None:
        super().__init__(settings)
        self._landing = landing

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self._landing.kind

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shape, left = Shape(), SAMPLE_ROWS
        for batch in read_split(self.kind, self.settings, partition, times_us=Interval()):
            for value in batch.column(self._landing.value_column)[:left].to_pylist():
                see_value(shape, value)
            left -= batch.num_rows
            if left <= 0:
                break
        cells = [0, 0, 0, 0, msgspec.json.encode(shape)]
        yield pa.RecordBatch.from_arrays(
            [pa.array([cell], one.type) for cell, one in zip(cells, ROW, strict=True)], schema=ROW
        )


def see_value(shape: Shape, value: bytes | None) -> None:
    if value is None:
        return
    try:
        document = generic(value)
    except BadDocument:
        return
    if isinstance(document, dict):
        shape.add_value(document)


@dataclass
class LandedFiles(WriterCommitMessage):
    """Of one task."""

    files: list[bytes]
    query: str | None


class LandingWriter(DataSourceStreamArrowWriter):
    """The dead letters first, then the rows: each of both once for the query and the batch."""

    def __init__(self, landing: Landing, places: SourceOptions) -> None:
        self._landing = landing
        self._places = places

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        found: list[bytes] = []
        for batch in iterator:
            found += batch.column("files").to_pylist()
        return LandedFiles(found, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = files_in(messages)
        if not written:
            return
        query = next((one.query for one in messages if isinstance(one, LandedFiles)), None)
        if query is None:
            raise InputError("land: the tasks do not know their query")
        transaction = Transaction(query, batchId)
        rows, dead_letters = targets(self._landing, self._places, MessageRows(self._landing))
        dead_files = [file for one in written for file in one.dead_letters]
        if dead_files:
            dead_ranges = advances_of(range_ for one in written for range_ in one.dead_ranges)
            dead_letters.commit(dead_files, spark_schema(DEAD_LETTER), transaction, dead_ranges)
        files = [file for one in written for file in one.rows]
        advances = advances_of(range_ for one in written for range_ in one.ranges)
        if files or advances:
            schema = StructType.fromJson(msgspec.json.decode(written[0].schema_json))
            rows.commit(files, schema, transaction, advances)
        count = self._landing.optimize_batches
        if count and (batchId + 1) % count == 0:
            keep_up(self._landing, (rows, dead_letters))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """A failed commit knows better what may be removed."""
        if not any(message is None for message in messages):
            return
        rows, dead_letters = targets(self._landing, self._places, MessageRows(self._landing))
        for one in files_in(messages):
            rows.remove(one.rows)
            dead_letters.remove(one.dead_letters)


def files_in(messages: list[WriterCommitMessage | None]) -> list[TaskFiles]:
    return [
        msgspec.json.decode(one, type=TaskFiles)
        for message in messages
        if isinstance(message, LandedFiles)
        for one in message.files
    ]


def targets(
    landing: Landing, places: SourceOptions, messages: MessageRows
) -> tuple[Target, Target]:
    """Of the rows, and of the dead letters."""
    columns = messages.partition_columns
    return (
        target_of(landing, places.s3, partition_columns=columns),
        target_of(landing, places.s3, is_dead=True),
    )


def keep_up(landing: Landing, tables: tuple[Target, Target]) -> tuple[int, int]:
    """Files that were made larger ones, and files that were removed. What fails is logged, and is
    done the next time: the rows are there."""
    from deltalake.exceptions import DeltaError

    optimized = vacuumed = 0
    for table in tables:
        try:
            if table.schema() is None:
                continue
            if landing.table_format == "delta":
                optimized += table.optimize()
            if landing.vacuum_retention_h is not None:
                vacuumed += table.vacuum(retention_h=landing.vacuum_retention_h)
        except (DeltaError, OSError, LakebedError) as error:
            event(_log, "upkeep_failed", level=logging.WARNING, table=landing.table, why=error)
    return optimized, vacuumed


def _settings(
    landing: Landing, places: SourceOptions, columns: tuple[str, ...], *, is_stream: bool
) -> ReadSettings:
    kind = landing.kind
    given = {**places.feed, kind.nouns: ",".join(landing.names)}
    return settings_of(kind, given, columns=columns, is_stream=is_stream)
