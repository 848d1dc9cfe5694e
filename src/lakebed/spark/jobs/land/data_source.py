"""The Spark data source `lakebed.landing`, which only the job `land` uses.

Its stream reads topics or logs as `lakebed.topic` and `lakebed.aof` do. Each task writes the
messages to files of the table, and returns one row: the counts, and the names of the files. The
sink commits these files. A batch read (not a stream) returns a sample: the types of the fields in
the JSON values at the start of each split.

Reading the stream has the side effect of writing files. That is harmless: no reader of the table
sees a file that no commit names, and a repeated task writes new files.
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
SAMPLE_ROWS: Final = 2000  # per split
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
    """The options for reading the topics or logs, and for access to S3. Contains secrets."""

    feed: dict[str, str]
    s3: dict[str, str]


def landing_options(landing: Landing, source_options: SourceOptions) -> dict[str, str]:
    """Returns the options that the data source needs for a table.

    The name of the option with the credentials contains "secret", so that Spark redacts its value.
    """
    return {
        "landing": msgspec.json.encode(landing).decode(),
        "secretPlaces": msgspec.json.encode(source_options).decode(),
    }


class LandingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(ROW)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - fixed
        landing, places = self._parsed_options()
        columns = (landing.value_column,)
        return SampleReader(landing, _settings(landing, places, columns, is_stream=False))

    def streamReader(self, schema: StructType) -> LandingReader:  # noqa: ARG002, N802
        landing, places = self._parsed_options()
        columns = MessageRows(landing).read_columns
        return LandingReader(landing, places, _settings(landing, places, columns, is_stream=True))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LandingWriter:  # noqa: ARG002, N802
        return LandingWriter(*self._parsed_options())

    def _parsed_options(self) -> tuple[Landing, SourceOptions]:
        options = Options(NAME, self.options, known=("landing", "secretPlaces"))
        return (
            msgspec.json.decode(options.required("landing"), type=Landing),
            msgspec.json.decode(options.required("secretPlaces"), type=SourceOptions),
        )


class LandingReader(FeedStreamReader):
    """Reads the topics or logs of one table as a stream. Its tasks also write the files of the
    table.
    """

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
        decoded = decode_progress(progress)
        if self._target_table is None:
            rows, _ = targets(self._landing, self._places, MessageRows(self._landing))
            self._target_table = rows
        ids = [
            lane_id(decoded.identities.get(lane.name, ""), lane.number)
            for lane in decoded.positions
        ]
        landed = self._target_table.landed([lane_name for lane_name in ids if lane_name])
        if not landed:
            return progress
        return encode_progress(as_landed(decoded, landed, self._feed(), ends=ends))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Split):  # an empty plan
            return
        messages = MessageRows(self._landing)
        batches = read_split(self.kind, self.settings, partition, times_us=Interval())
        ranges = [
            LandedRange(*piece.lane, piece.identity, piece.start, piece.end)
            for piece in partition.pieces
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
            [pa.array([cell], field.type) for cell, field in zip(cells, ROW, strict=True)],
            schema=ROW,
        )


class SampleReader(FeedReader):
    """Samples JSON values to find the types of their fields. Values that are not JSON objects are
    ignored.
    """

    def __init__(self, landing: Landing, settings: ReadSettings) -> None:
        super().__init__(settings)
        self._landing = landing

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self._landing.kind

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shape, rows_left = Shape(), SAMPLE_ROWS
        for batch in read_split(self.kind, self.settings, partition, times_us=Interval()):
            for value in batch.column(self._landing.value_column)[:rows_left].to_pylist():
                see_value(shape, value)
            rows_left -= batch.num_rows
            if rows_left <= 0:
                break
        cells = [0, 0, 0, 0, msgspec.json.encode(shape)]
        yield pa.RecordBatch.from_arrays(
            [pa.array([cell], field.type) for cell, field in zip(cells, ROW, strict=True)],
            schema=ROW,
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
    """The message of one task to the commit: the files that the task wrote."""

    files: list[bytes]
    query: str | None


class LandingWriter(DataSourceStreamArrowWriter):
    """Commits the files of a micro-batch: dead letters first, then rows, each once per query and
    batch.
    """

    def __init__(self, landing: Landing, places: SourceOptions) -> None:
        self._landing = landing
        self._places = places

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        files: list[bytes] = []
        for batch in iterator:
            files += batch.column("files").to_pylist()
        return LandedFiles(files, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = files_in(messages)
        if not written:
            return
        query = next(
            (message.query for message in messages if isinstance(message, LandedFiles)), None
        )
        if query is None:
            raise InputError(
                "land: cannot commit the batch, because Spark did not give the tasks the id of "
                "their query"
            )
        transaction = Transaction(query, batchId)
        rows, dead_letters = targets(self._landing, self._places, MessageRows(self._landing))
        dead_files = [file for task in written for file in task.dead_letters]
        if dead_files:
            dead_ranges = advances_of(range_ for task in written for range_ in task.dead_ranges)
            dead_letters.commit(dead_files, spark_schema(DEAD_LETTER), transaction, dead_ranges)
        files = [file for task in written for file in task.rows]
        advances = advances_of(range_ for task in written for range_ in task.ranges)
        if files or advances:
            schema = StructType.fromJson(msgspec.json.decode(written[0].schema_json))
            rows.commit(files, schema, transaction, advances)
        count = self._landing.optimize_batches
        if count and (batchId + 1) % count == 0:
            keep_up(self._landing, (rows, dead_letters))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Removes the files of the batch if a task failed.

        If the commit failed, nothing is removed here, because only the commit knows which files may
        be in use.
        """
        if not any(message is None for message in messages):
            return
        rows, dead_letters = targets(self._landing, self._places, MessageRows(self._landing))
        for task_files in files_in(messages):
            rows.remove(task_files.rows)
            dead_letters.remove(task_files.dead_letters)


def files_in(messages: list[WriterCommitMessage | None]) -> list[TaskFiles]:
    return [
        msgspec.json.decode(document, type=TaskFiles)
        for message in messages
        if isinstance(message, LandedFiles)
        for document in message.files
    ]


def targets(
    landing: Landing, source_options: SourceOptions, messages: MessageRows
) -> tuple[Target, Target]:
    """Returns the table for rows and the table for dead letters."""
    columns = messages.partition_columns
    return (
        target_of(landing, source_options.s3, partition_columns=columns),
        target_of(landing, source_options.s3, is_dead=True),
    )


def keep_up(landing: Landing, tables: tuple[Target, Target]) -> tuple[int, int]:
    """Optimizes both tables if they are Delta tables, and vacuums them if a retention is set.

    Returns how many files were replaced by larger ones, and how many a vacuum removed. An error is
    logged, not raised: no rows are lost, and the next call tries again. A table that does not exist
    yet is skipped.
    """
    from deltalake.exceptions import DeltaError

    optimized = vacuumed = 0
    for name, table in zip((landing.table, landing.dead_letters), tables, strict=True):
        try:
            if table.schema() is None:
                continue
            if landing.table_format == "delta":
                optimized += table.optimize()
            if landing.vacuum_retention_h is not None:
                vacuumed += table.vacuum(retention_h=landing.vacuum_retention_h)
        except (DeltaError, OSError, LakebedError) as error:
            event(_log, "upkeep_failed", level=logging.WARNING, table=name, why=error)
    return optimized, vacuumed


def _settings(
    landing: Landing, source_options: SourceOptions, columns: tuple[str, ...], *, is_stream: bool
) -> ReadSettings:
    kind = landing.kind
    options = {**source_options.feed, kind.nouns: ",".join(landing.names)}
    return settings_of(kind, options, columns=columns, is_stream=is_stream)
