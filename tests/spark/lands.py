"""What the tests of `land` share: a node with topics, tables in its buckets, and a look at them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as dataset

from lakebed.client.store import RemoteStore
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.land.config import LandConfig, Landing
from lakebed.spark.jobs.land.data_source import SourceOptions, targets
from lakebed.spark.jobs.land.rows import MessageRows
from lakebed.spark.jobs.land.task import LandTask, TaskFiles
from lakebed.spark.tables.location import TableLocation
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import BUCKET, make_bucket, rows_of

_NUMBERS = count(1)


class Lake:
    """A node that serves a store, by its files, its socket and its S3."""

    def __init__(self, node: Endpoint) -> None:
        self.node = node
        self.root = node.root
        self.store = RemoteStore.open(node.root)

    @property
    def s3(self) -> dict[str, str]:
        return {
            "s3Endpoint": self.node.url,
            "accessKey": self.node.access_key,
            "secretKey": self.node.secret_key,
        }

    def new_topic(self, partitions: int = 1, **settings: object) -> str:
        name = f"topic{next(_NUMBERS)}"
        self.store.topics.create(name, partitions=partitions, settings=settings)
        return name

    def add(self, topic: str, *values: object, partition: int = 0, **named: Any) -> None:
        """Bytes and null as they are, and other things as JSON."""
        found = [
            one if one is None or isinstance(one, bytes) else json.dumps(one).encode()
            for one in values
        ]
        self.store.topic(topic).partition(partition).append_batch(found, **named)

    def config(self, *topics: str, **named: Any) -> LandConfig:
        chosen: dict[str, Any] = {"topics": topics, "table": f"{BUCKET}/tables/{{name}}"}
        chosen |= {"source": Backend(path=str(self.root)), "s3": self.s3}
        return LandConfig(**{**chosen, **named})

    def place(self, table: str) -> TableLocation:
        node = self.node
        bucket, _, prefix = table.partition("/")
        return TableLocation(node.url, node.access_key, node.secret_key, bucket, prefix)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return by_offset(rows_of(self.place(f"{BUCKET}/tables/{topic}")))

    def dead_letters(self, topic: str) -> list[dict[str, Any]]:
        return by_offset(rows_of(self.place(f"{BUCKET}/tables/{topic}_dead_letters")))

    def parquet_rows(self, topic: str) -> list[dict[str, Any]]:
        """As a reader that knows nothing of who wrote them."""
        place = self.place(f"{BUCKET}/tables/{topic}")
        found = dataset.dataset(
            f"{place.bucket}/{place.prefix}", filesystem=place.file_system(), partitioning="hive"
        )
        return by_offset(found.to_table().to_pylist())

    def keys(self, prefix: str) -> list[str]:
        store = self.place(f"{BUCKET}/x").object_store()
        return sorted(one["path"] for page in store.list(prefix) for one in page)


@contextmanager
def started_lake(folder: Path, *arguments: str) -> Iterator[Lake]:
    with Endpoint(folder / "store", *arguments) as node:
        make_bucket(node)
        lake = Lake(node)
        try:
            yield lake
        finally:
            lake.store.close()


def by_offset(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By partition and offset, whatever they are called."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        names = ("topic", "partition", "offset", "record_id")
        return tuple(row.get(f"_{name}", row.get(name)) or 0 for name in names if name != "topic")

    return sorted(rows, key=place)


def messages(*values: object, first: int = 0) -> pa.RecordBatch:
    """As a task reads them."""
    number = len(values)
    found = [
        one if one is None or isinstance(one, bytes) else json.dumps(one).encode() for one in values
    ]
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * number,
            "partition": pa.array([0] * number, pa.int32()),
            "offset": list(range(first, first + number)),
            "timestamp": pa.array([1_000_000] * number, pa.timestamp("us", tz="UTC")),
            "key": pa.array([b"k"] * number, pa.binary()),
            "value": pa.array(found, pa.binary()),
        }
    )


def new_task(landing: Landing, lake: Lake) -> LandTask:
    rows = MessageRows(landing)
    return LandTask(landing, rows, *targets(landing, SourceOptions({}, lake.s3), rows))


def written(landing: Landing, lake: Lake, *batches: pa.RecordBatch) -> TaskFiles:
    task = new_task(landing, lake)
    for batch in batches:
        task.take(batch)
    return task.finish()
