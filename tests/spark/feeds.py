"""Readers of topics and logs in this process, without a session: what Spark's workers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.cloudpickle import dumps
from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import CaseInsensitiveDict, Filter
from pyspark.sql.types import StructType

from lakebed.base.units import KIB
from lakebed.host.store import Store
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.partition import Partition
from lakebed.spark.sources.aof import LogBatchReader, LogSource, LogStreamReader
from lakebed.spark.sources.split_plan import Split
from lakebed.spark.sources.topic import TopicReader, TopicSource, TopicStreamReader
from lakebed.store.read_only import ReadOnlyStore

Thing = TypeVar("Thing")
SMALL = TopicConfig(segment_bytes=16 * KIB, reserve_bytes=0, zero_fill=False)


@contextmanager
def writing(root: Path, topics: TopicConfig = SMALL, **named: Any) -> Iterator[Store]:
    with Store.open(root, topic_config=topics, serves=False, **named) as store:
        yield store


def retain(root: Path) -> list[int]:
    """Let retention have all it may of the topic `events`; where its partitions begin then.

    The store's own upkeep may have begun with it: closing waits for that.
    """
    with writing(root, replace(SMALL, retention_bytes=1)) as store:
        for partition in store.topic("events").partitions:
            partition.upkeep_step()
    with ReadOnlyStore(root) as beside:
        return [partition.start_offset() for partition in beside.topic("events").partitions]


def fill(partition: Partition, count: int, *, size: int = 100, first_ms: int = 1000) -> None:
    """Messages whose numbers are their values, a second apart."""
    start = partition.high_watermark()
    for first in range(start, start + count, 50):
        numbers = range(first, min(first + 50, start + count))
        partition.append_batch(
            [b"%08d" % number + b"x" * (size - 8) for number in numbers],
            timestamps_ms=[first_ms + 1000 * number for number in numbers],
        ).result()


def source(kind: type[TopicSource] | type[LogSource], **options: object) -> Any:
    """Without those options whose text is empty."""
    given = {name: str(text) for name, text in options.items()}
    return kind(CaseInsensitiveDict({name: text for name, text in given.items() if text}))


def topic_reader(path: Path | str, *filters: Filter, **options: object) -> TopicReader:
    chosen = {"path": path, "topic": "events", "minPartitions": 2} | options
    found = source(TopicSource, **chosen)
    reader: TopicReader = found.reader(schema_of(found))
    reader.narrow(filters)
    return travelled(reader)


def topic_stream(path: Path | str, **options: object) -> TopicStreamReader:
    found = source(TopicSource, **{"path": path, "topic": "events"} | options)
    reader: TopicStreamReader = found.streamReader(schema_of(found))
    return travelled(reader)


def log_reader(path: Path | str, *filters: Filter, **options: object) -> LogBatchReader:
    found = source(
        LogSource,
        **{"path": path, "log": "audit", "minPartitions": 2} | options,
    )
    reader: LogBatchReader = found.reader(schema_of(found))
    reader.narrow(filters)
    return travelled(reader)


def log_stream(path: Path | str, **options: object) -> LogStreamReader:
    found = source(LogSource, **{"path": path, "log": "audit"} | options)
    reader: LogStreamReader = found.streamReader(schema_of(found))
    return travelled(reader)


def schema_of(found: Any) -> StructType:
    fields = [part.strip().split(" ")[0] for part in split_ddl(found.schema())]
    schema = StructType()
    for name in fields:
        schema = schema.add(name, "string")  # only the names count here
    return schema


def split_ddl(ddl: str) -> list[str]:
    """At commas that are not within brackets."""
    parts, depth = [""], 0
    for character in ddl:
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def travelled(thing: Thing) -> Thing:
    """As it arrives in a worker."""
    arrived: Thing = CPickleSerializer().loads(dumps(thing))  # type: ignore[no-untyped-call]
    return arrived


def rows(reader: Any, splits: Sequence[Split] | None = None) -> list[dict[str, Any]]:
    """All rows, split by split."""
    found: list[dict[str, Any]] = []
    for one in reader.partitions() if splits is None else splits:
        for batch in reader.read(travelled(one)):
            found += batch.to_pylist()
    return found


def numbers(found: Sequence[dict[str, Any]]) -> list[int]:
    """What `fill` wrote."""
    return [int(row["value"][:8]) for row in found]
