"""Delta tables: commits are PUTs that only one may win."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from tests.clients.nodes import S3Client
from tests.s3.endpoint import Endpoint

WRITERS = 4
COMMITS = 5


@pytest.fixture
def options(endpoint: Endpoint) -> dict[str, str]:
    """Where and who, and that it may be plain HTTP; nothing about locks."""
    return {
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.fixture
def place(bucket: str) -> str:
    return f"s3://{bucket}/tables/numbers"


def rows(*numbers: int) -> Any:
    return pa.table({"number": pa.array(numbers, pa.int64())})


def numbers(place: str, options: dict[str, str], version: int | None = None) -> list[int]:
    table = DeltaTable(place, version=version, storage_options=options)
    return sorted(table.to_pyarrow_table()["number"].to_pylist())


def append_some(place: str, options: dict[str, str], writer: int) -> None:
    for commit in range(COMMITS):
        write_deltalake(
            place, rows(writer * COMMITS + commit), mode="append", storage_options=options
        )


def test_a_table_is_written_and_read_at_any_version(place: str, options: dict[str, str]) -> None:
    with pytest.raises(TableNotFoundError):
        DeltaTable(place, storage_options=options)
    write_deltalake(place, rows(1, 2, 3), storage_options=options)
    write_deltalake(place, rows(4), mode="append", storage_options=options)
    table = DeltaTable(place, storage_options=options)
    table.delete("number = 2")
    table.update(updates={"number": "number * 10"}, predicate="number > 3")
    assert numbers(place, options) == [1, 3, 40]
    assert numbers(place, options, version=1) == [1, 2, 3, 4]
    assert numbers(place, options, version=0) == [1, 2, 3]
    table.restore(1)
    assert numbers(place, options) == [1, 2, 3, 4]
    assert [entry["version"] for entry in table.history()] == [4, 3, 2, 1, 0]


def test_small_files_are_put_together_and_old_ones_removed(
    place: str, options: dict[str, str], s3: S3Client, bucket: str
) -> None:
    for number in range(5):
        write_deltalake(place, rows(number), mode="append", storage_options=options)
    table = DeltaTable(place, storage_options=options)
    assert table.optimize.compact()["numFilesRemoved"] == 5
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert len(removed) == 5
    table.create_checkpoint()
    assert numbers(place, options) == [0, 1, 2, 3, 4]
    found = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert len([entry for entry in found if "/part-" in entry["Key"]]) == 1


def test_no_commit_of_many_processes_is_lost(place: str, options: dict[str, str]) -> None:
    write_deltalake(place, rows(), storage_options=options)
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=append_some, args=(place, options, writer))
        for writer in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert numbers(place, options) == list(range(WRITERS * COMMITS))
    assert DeltaTable(place, storage_options=options).version() == WRITERS * COMMITS
