"""The data source `lakebed.aof`: the records of append-only logs as rows, from any tier.

    (spark.read.format("lakebed.aof").option("path", root).option("log", "audit").load())

Columns: log, record_id, segment, timestamp, timestamp_ns, ext_id, payload.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from lakebed.spark.arrow import records
from lakebed.spark.filters import by_name, by_record_id, by_segment, by_time, by_time_ns
from lakebed.spark.sources.batch import FeedReader
from lakebed.spark.sources.log_feed import LogFeed
from lakebed.spark.sources.settings import Kind, schema_of, settings_of
from lakebed.spark.sources.stream import FeedStreamReader

LOGS = Kind(
    source="lakebed.aof",
    noun="log",
    fields=records.FIELDS,
    columns={
        "log": by_name,
        "record_id": by_record_id,
        "segment": by_segment,
        "timestamp": by_time,
        "timestamp_ns": by_time_ns,
    },
    new_feed=LogFeed,
)


class LogBatchReader(FeedReader):
    kind = LOGS


class LogStreamReader(FeedStreamReader):
    kind = LOGS


class LogSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return LOGS.source

    def schema(self) -> str:
        return schema_of(LOGS, self.options)

    def reader(self, schema: StructType) -> FeedReader:
        columns = schema.fieldNames()
        return LogBatchReader(settings_of(LOGS, self.options, columns=columns, is_stream=False))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        columns = schema.fieldNames()
        return LogStreamReader(settings_of(LOGS, self.options, columns=columns, is_stream=True))
