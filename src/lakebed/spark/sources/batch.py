"""Batch reads of topics and logs: planned when Spark plans the query, and read in the tasks.

The option `filters` reduces what is read. A query's own `where` conditions do not;
`lakebed.spark.conditions` explains why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from lakebed.spark.conditions import check_columns, kept
from lakebed.spark.filters import ReadFilter, narrow
from lakebed.spark.sources.settings import Kind, ReadSettings
from lakebed.spark.sources.split_plan import Split, plan_batch
from lakebed.spark.sources.split_reader import read_split


class FeedReader(DataSourceReader):
    """Reads topics or logs for a batch query. Plain data, sent to the workers."""

    kind: ClassVar[Kind]

    def __init__(self, settings: ReadSettings) -> None:
        self.settings = settings
        self.wanted, self.left = ReadFilter(), list[Filter]()
        if settings.filters:
            self.narrow(settings.filters)

    def narrow(self, filters: Sequence[Filter]) -> None:
        """Applies filters: as far as possible by reading less, and otherwise row by row.

        Raises `BadConfig` if a filter to apply row by row uses a column that is not read.
        """
        self.wanted, left = narrow(filters, self.kind.columns)
        self.left = list(left)
        check_columns(self.kind.source, self.left, self.settings.columns)

    def partitions(self) -> list[Split]:
        with self.settings.opened(self.kind) as feed:
            return plan_batch(feed, self.kind, self.settings, self.wanted)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        times_us = self.wanted.times_us
        for batch in read_split(self.kind, self.settings, partition, times_us=times_us):
            rows = kept(batch, self.left)
            if rows.num_rows:
                yield rows
