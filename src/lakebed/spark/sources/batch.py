"""A batch read of topics or logs: plans when Spark plans, reads in the tasks.

Spark 4.3.0 keeps what a pushed filter left to be read with the data frame, and takes it for other
queries of that frame, which then miss rows: `df.where(…).count()` and after it `df.count()`. So
filters are pushed only if that is asked for (`pushFilters`), of frames that are used by one query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from lakebed.spark.filters import Wanted, narrow
from lakebed.spark.sources.planning import Split, plan, wanted_portions
from lakebed.spark.sources.reading import read_split
from lakebed.spark.sources.settings import Kind, ReadSettings


class FeedReader(DataSourceReader):
    """Plain: it travels to the workers."""

    kind: ClassVar[Kind]

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self.wanted = Wanted()

    def partitions(self) -> list[Split]:
        with self.settings.opened(self.kind) as feed:
            portions = wanted_portions(feed, self.kind, self.settings, self.wanted)
            return plan(feed, self.kind, self.settings, portions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self.kind, self.settings, partition, times_us=self.wanted.times_us)


class PushingFeedReader(FeedReader):
    """The same, and takes filters. Spark looks whether there is such a method."""

    def pushFilters(self, filters: list[Filter]) -> Sequence[Filter]:  # noqa: N802 - Spark's name
        self.wanted, left = narrow(filters, self.kind.columns)
        return left
