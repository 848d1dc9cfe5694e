"""The data source `lakebed.topic`: reads messages of topics as rows, and writes rows as messages.

    (spark.read.format("lakebed.topic").option("path", root).option("topic", "events").load())

Columns: topic, partition, offset, timestamp, key, value, headers. By default a batch read returns
all messages, and a stream starts with the oldest message of each partition.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from lakebed.spark.arrow import messages
from lakebed.spark.filters import by_name, by_offset, by_partition, by_time
from lakebed.spark.sources.batch import FeedReader
from lakebed.spark.sources.settings import Kind, schema_of, settings_of
from lakebed.spark.sources.stream import FeedStreamReader
from lakebed.spark.sources.topic_feed import TopicFeed

TOPICS = Kind(
    source="lakebed.topic",
    noun="topic",
    fields=messages.FIELDS,
    columns={
        "topic": by_name,
        "partition": by_partition,
        "offset": by_offset,
        "timestamp": by_time,
    },
    new_feed=TopicFeed,
)


class TopicReader(FeedReader):
    kind = TOPICS


class TopicStreamReader(FeedStreamReader):
    kind = TOPICS


class TopicSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return TOPICS.source

    def schema(self) -> str:
        return schema_of(TOPICS, self.options)

    def reader(self, schema: StructType) -> FeedReader:
        columns = schema.fieldNames()
        return TopicReader(settings_of(TOPICS, self.options, columns=columns, is_stream=False))

    def streamReader(self, schema: StructType) -> TopicStreamReader:  # noqa: N802 - Spark's name
        columns = schema.fieldNames()
        return TopicStreamReader(settings_of(TOPICS, self.options, columns=columns, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lakebed.spark.sinks.topic import topic_writer

        return topic_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from lakebed.spark.sinks.topic_stream import topic_stream_writer

        return topic_stream_writer(self.options, schema, overwrite=overwrite)
