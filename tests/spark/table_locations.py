"""Tables of a node in another process, each with a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import boto3  # type: ignore[import-untyped,unused-ignore]
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructType

from lakebed.base.clock import SystemClock
from lakebed.base.runner import ThreadRunner
from lakebed.spark.tables.commit import Committed, Plan, Target, Transaction, commit_files, planned
from lakebed.spark.tables.files import FileOptions, TableFiles, WrittenFile
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.schemas import arrow_schema
from tests.s3.endpoint import Endpoint

BUCKET = "lake"
SCHEMA = StructType().add("n", LongType()).add("p", StringType())
_NUMBERS = count(1)


def make_bucket(node: Endpoint) -> None:
    client = s3(node)
    client.create_bucket(Bucket=BUCKET)
    client.close()


def s3(node: Endpoint) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=node.url,
        region_name=node.region,
        aws_access_key_id=node.access_key,
        aws_secret_access_key=node.secret_key,
    )


def new_place(node: Endpoint) -> TableLocation:
    prefix = f"tables/t{next(_NUMBERS)}"
    return TableLocation(node.url, node.access_key, node.secret_key, BUCKET, prefix)


def options_of(place: TableLocation) -> dict[str, str]:
    """Those of `lakebed.table`."""
    return {
        "s3Endpoint": place.endpoint,
        "accessKey": place.access_key,
        "secretKey": place.secret_key,
        "table": str(place),
    }


def delta(place: TableLocation, version: int | None = None) -> DeltaTable:
    return DeltaTable(place.uri, version=version, storage_options=place.storage_options())


def rows_of(place: TableLocation, version: int | None = None) -> list[dict[str, Any]]:
    """What `deltalake` itself reads."""
    found: list[dict[str, Any]] = delta(place, version).to_pyarrow_table().to_pylist()
    return found


def batch(*numbers: int, p: str | None = None) -> pa.RecordBatch:
    """Rows of `SCHEMA`."""
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


def numbers_of(place: TableLocation, version: int | None = None) -> list[int]:
    return sorted(row["n"] for row in rows_of(place, version))


def keys_below(node: Endpoint, place: TableLocation) -> Iterator[str]:
    """Of the data files, and of whatever else is not the log."""
    client = s3(node)
    for page in client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=f"{place.prefix}/"
    ):
        for entry in page.get("Contents", []):
            if "/_delta_log/" not in entry["Key"]:
                yield entry["Key"].removeprefix(f"{place.prefix}/")
    client.close()


def write(
    place: TableLocation, plan: Plan, batches: Sequence[pa.RecordBatch], **settings: Any
) -> list[WrittenFile]:
    """As a task does."""
    written = TableFiles(
        place,
        arrow_schema(plan.schema),
        FileOptions("job", plan.partition_columns, **settings),
        files=place.file_system(),
        clock=SystemClock(),
    )
    for batch in batches:
        written.write(batch)
    return written.finish()


def commit(
    place: TableLocation,
    files: Sequence[WrittenFile],
    plan: Plan,
    target: Target,
    transaction: Transaction | None = None,
) -> Committed:
    with ThreadRunner() as runner:
        return commit_files(
            place, files, plan, target, transaction=transaction, runner=runner, random=Random(1)
        )


def append(
    place: TableLocation,
    batch: pa.RecordBatch,
    schema: StructType,
    *,
    transaction: Transaction | None = None,
    **settings: Any,
) -> Committed:
    target = Target(schema, **settings)
    plan = planned(place, target)
    return commit(place, write(place, plan, [batch]), plan, target, transaction)
