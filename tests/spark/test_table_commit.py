"""Commits to a table of a real node: each transaction once, whoever else writes. No session."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from deltalake import CommitProperties, DeltaTable, TableFeatures
from pyspark.sql import datasource as pushed
from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampNTZType

from lakebed.base.errors import DataError, InputError, NotFound
from lakebed.spark.sinks.table import FilesWritten, commit_messages
from lakebed.spark.tables.commit import UNCOMMITTED_MS_MAX, Target, Transaction, planned
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import FilePart, splits_of
from lakebed.spark.tables.schemas import SchemaMismatch, arrow_schema
from lakebed.spark.tables.snapshot import (
    DataFile,
    UnreadableTable,
    UnsupportedTable,
    check_readable,
    check_writable,
    files_of,
    load_table,
    schema_of,
)
from lakebed.spark.tables.upkeep import optimize, vacuum
from tests.s3.endpoint import Endpoint
from tests.spark.table_locations import (
    SCHEMA,
    append,
    batch,
    commit,
    delta,
    keys_below,
    numbers_of,
    rows_of,
    s3,
    write,
)

pytestmark = [pytest.mark.process]

TARGET = Target(SCHEMA)


def test_the_same_transaction_again_is_stored_once_and_its_files_are_removed(
    node: Endpoint, place: TableLocation
) -> None:
    plan = planned(place, TARGET)
    for _ in range(3):
        message = FilesWritten(write(place, plan, [batch(1, 2)]), plan)
        commit_messages(place, TARGET, [message], transaction=Transaction("query", 7))
    assert numbers_of(place) == [1, 2]
    assert delta(place).transaction_version("query") == 7
    assert len(list(keys_below(node, place))) == 1


def test_the_same_messages_again_keep_their_files(node: Endpoint, place: TableLocation) -> None:
    plan = planned(place, TARGET)
    message = FilesWritten(write(place, plan, [batch(1, 2)]), plan)
    for _ in range(2):
        commit_messages(place, TARGET, [message], transaction=Transaction("query", 7))
    assert numbers_of(place) == [1, 2]
    assert len(list(keys_below(node, place))) == 1


def test_an_older_transaction_is_not_stored_and_a_newer_one_is(place: TableLocation) -> None:
    for number, value, is_new in ((3, 1, True), (2, 2, False), (4, 3, True)):
        done = append(place, batch(value), SCHEMA, transaction=Transaction("query", number))
        assert done.is_new is is_new
    assert numbers_of(place) == [1, 3]


def test_applications_do_not_disturb_each_other(place: TableLocation) -> None:
    for application in ("one", "two"):
        append(place, batch(1), SCHEMA, transaction=Transaction(application, 0))
    assert numbers_of(place) == [1, 1]


def test_many_writers_at_once_lose_nothing_and_store_nothing_twice(place: TableLocation) -> None:
    def work(writer: int) -> None:
        for number in range(4):
            # Each transaction comes from two writers.
            transaction = Transaction(f"application {writer // 2}", number)
            append(place, batch(writer // 2 * 100 + number), SCHEMA, transaction=transaction)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert numbers_of(place) == [0, 1, 2, 3, 100, 101, 102, 103]


def test_an_empty_append_makes_no_version_and_an_empty_overwrite_does(place: TableLocation) -> None:
    append(place, batch(1), SCHEMA)
    append(place, batch(), SCHEMA)
    assert delta(place).version() == 1
    append(place, batch(), SCHEMA, overwrites=True)
    assert numbers_of(place) == []


def test_files_for_another_partitioning_are_refused_and_removed(
    node: Endpoint, place: TableLocation
) -> None:
    plan = planned(place, TARGET)  # there is no table yet
    message = FilesWritten(write(place, plan, [batch(1)]), plan)
    append(place, batch(2, p="x"), SCHEMA, partition_columns=("p",))
    with pytest.raises(InputError, match="partitioned by p"):
        commit_messages(place, TARGET, [message], transaction=None)
    assert numbers_of(place) == [2]
    assert len(list(keys_below(node, place))) == 1


def test_files_of_a_smaller_type_than_a_table_made_meanwhile_are_refused(
    place: TableLocation,
) -> None:
    small = StructType().add("n", "integer")
    plan = planned(place, Target(small))
    files = write(place, plan, [pa.record_batch({"n": pa.array([1], pa.int32())})])
    append(place, batch(2), SCHEMA)
    with pytest.raises(SchemaMismatch):
        commit(place, files, plan, Target(small))


def test_columns_are_added_also_within_structs_and_of_new_features(place: TableLocation) -> None:
    first = StructType().add("n", LongType()).add("s", StructType().add("x", LongType()))
    append(place, pa.record_batch({"n": [1], "s": [{"x": 1}]}), first)
    more = StructType().add("s", StructType().add("y", StringType())).add("t", TimestampNTZType())
    rows = pa.record_batch({"s": [{"y": "new"}], "t": pa.array([5], pa.timestamp("us"))})
    with pytest.raises(SchemaMismatch, match="mergeSchema"):
        append(place, rows, more)
    append(place, rows, more, may_add_columns=True)
    assert "timestampNtz" in (delta(place).protocol().reader_features or ())
    found = sorted(rows_of(place), key=lambda row: row["n"] or 0)
    assert [row["s"] for row in found] == [{"x": None, "y": "new"}, {"x": 1, "y": None}]
    assert [row["n"] for row in found] == [None, 1]


def test_an_overwrite_may_replace_the_schema(place: TableLocation) -> None:
    append(place, batch(1), SCHEMA)
    other = StructType().add("word", StringType())
    with pytest.raises(SchemaMismatch):
        append(place, pa.record_batch({"word": ["x"]}), other, overwrites=True)
    append(
        place,
        pa.record_batch({"word": ["x"]}),
        other,
        overwrites=True,
        may_replace_schema=True,
    )
    assert rows_of(place) == [{"word": "x"}]
    assert schema_of(delta(place)) == other


HOSTILE = ["a b", "a/b", "../x", "50%", "%41", "é", "a=b&c", "x" * 300, "+", "", None]


def test_partition_values_of_any_kind_are_kept_also_by_deltalake(
    node: Endpoint, place: TableLocation
) -> None:
    rows = pa.record_batch({"n": list(range(len(HOSTILE))), "p": HOSTILE})
    append(place, rows, SCHEMA, partition_columns=("p",))
    expected = {number: text or None for number, text in enumerate(HOSTILE)}
    assert {row["n"]: row["p"] for row in rows_of(place)} == expected
    assert {row["n"]: row["p"] for row in read_all(place)} == expected
    append(place, rows, SCHEMA)
    assert optimize(place).files_added == len(HOSTILE) - 1  # null and nothing are one
    age_log(node, place)
    vacuum(place)
    assert len(list(keys_below(node, place))) == len(HOSTILE) - 1
    assert len(read_all(place)) == 2 * len(HOSTILE)


def read_all(place: TableLocation, *filters: pushed.Filter, split_bytes: int = 10**9) -> list[Any]:
    table = load_table(place)
    check_readable(table)
    schema = arrow_schema(schema_of(table))
    found: list[Any] = []
    for parts in splits_of(files_of(table, filters), split_bytes=split_bytes):
        for one in read_parts(place, parts, schema):
            assert one.schema == schema
            found += one.to_pylist()
    return found


def test_a_file_that_is_read_in_pieces_gives_every_row_once(place: TableLocation) -> None:
    plan = planned(place, TARGET)
    words = [f"{number:030d}" for number in range(30_000)]
    rows = pa.record_batch({"n": list(range(30_000)), "p": words})
    pieces = [rows.slice(start, 1000) for start in range(0, 30_000, 1000)]
    files = write(place, plan, pieces, file_bytes=300_000, compression="none")
    assert len(files) > 1
    commit(place, files, plan, TARGET)
    for split_bytes in (10_000, 100_000, 10**9):
        found = [row["n"] for row in read_all(place, split_bytes=split_bytes)]
        assert sorted(found) == list(range(30_000))


def test_a_row_group_at_a_border_is_read_on_one_side_of_it(place: TableLocation) -> None:
    plan = planned(place, TARGET)
    rows = pa.record_batch({"n": list(range(30_000)), "p": ["x" * 30] * 30_000})
    pieces = [rows.slice(start, 1000) for start in range(0, 30_000, 1000)]
    (written,) = write(place, plan, pieces, file_bytes=300_000)
    source = place.file_system()
    with source.open_input_file(place.key(written.path)) as stream:
        metadata = parquet.read_metadata(stream)
    assert metadata.num_row_groups > 1
    column = metadata.row_group(1).column(0)
    border = column.dictionary_page_offset or column.data_page_offset
    file = DataFile(written.path, written.size_bytes, {})
    counts = [
        sum(one.num_rows for one in read_parts(place, [part], arrow_schema(plan.schema)))
        for part in (FilePart(file, 0, border), FilePart(file, border, file.size_bytes))
    ]
    assert counts[0] == metadata.row_group(0).num_rows
    assert sum(counts) == 30_000


def test_statistics_pass_over_files_and_not_over_nan(place: TableLocation) -> None:
    schema = StructType().add("f", DoubleType())
    for values in ([1.0, 2.0], [5.0, math.nan], [7.0, 8.0]):
        append(place, pa.record_batch({"f": values}), schema)

    def count(one: pushed.Filter) -> int:
        return len(list(files_of(load_table(place), [one])))

    assert count(pushed.LessThan(("f",), 3.0)) == 2  # of the one with NaN nothing is known
    assert count(pushed.EqualTo(("f",), 7.5)) == 2
    assert count(pushed.GreaterThan(("f",), 100.0)) == 3


def test_deltalake_passes_over_files_by_our_statistics(place: TableLocation) -> None:
    for start in (0, 100, 200):
        append(place, batch(*range(start, start + 10)), SCHEMA)
    assert len(delta(place).file_uris(file_pruning_predicate="n > 150")) == 1
    found = delta(place).get_add_actions(flatten=True)
    assert sorted(pa.table(found)["min.n"].to_pylist()) == [0, 100, 200]


def test_a_column_that_cannot_be_null_is_obeyed(place: TableLocation) -> None:
    DeltaTable.create(
        place.uri,
        schema=pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("p", pa.string())]),
        storage_options=place.storage_options(),
    )
    append(place, batch(1), SCHEMA)
    nulls = pa.record_batch({"n": pa.array([None], pa.int64()), "p": ["x"]})
    with pytest.raises(InputError, match="the column 'n' cannot be null"):
        append(place, nulls, SCHEMA)


def test_a_table_with_a_constraint_or_a_strange_feature_is_not_written(
    place: TableLocation,
) -> None:
    append(place, batch(1), SCHEMA)
    delta(place).alter.add_constraint({"small": "n < 100"})
    with pytest.raises(UnsupportedTable, match=r"delta\.constraints\.small"):
        append(place, batch(200), SCHEMA)
    check_readable(delta(place))


def test_deletion_vectors_without_deleted_rows_are_read_and_not_written(
    place: TableLocation,
) -> None:
    append(place, batch(1), SCHEMA)
    delta(place).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    assert [row["n"] for row in read_all(place)] == [1]
    with pytest.raises(UnsupportedTable, match="deletionVectors"):
        check_writable(delta(place))


def test_renamed_columns_are_refused(place: TableLocation) -> None:
    append(place, batch(1), SCHEMA)
    delta(place).alter.add_feature(
        TableFeatures.ColumnMapping, allow_protocol_versions_increase=True
    )
    with pytest.raises(UnsupportedTable, match="columnMapping"):
        check_readable(delta(place))


def test_versions_and_moments_that_there_are_not_are_told(place: TableLocation) -> None:
    with pytest.raises(NotFound, match="not a Delta table"):
        load_table(place)
    append(place, batch(1), SCHEMA)
    with pytest.raises(NotFound, match="version 9 does not exist"):
        load_table(place, version=9)
    with pytest.raises(InputError, match="did not exist at that time"):
        load_table(place, moment_us=10**6)


def test_a_bucket_or_a_key_that_is_wrong_is_told(node: Endpoint, place: TableLocation) -> None:
    with pytest.raises(NotFound, match="bucket elsewhere does not exist"):
        load_table(place.with_table("elsewhere/t"))
    stranger = TableLocation(place.endpoint, place.access_key, "wrong secret", "lake", "t")
    with pytest.raises(InputError, match="refused the access key"):
        load_table(stranger)
    assert "wrong secret" not in repr(stranger)


def test_a_damaged_log_of_a_table_is_reported(node: Endpoint, place: TableLocation) -> None:
    append(place, batch(1), SCHEMA)
    append(place, batch(2), SCHEMA)
    client = s3(node)
    log = f"{place.prefix}/_delta_log"
    first = client.get_object(Bucket=place.bucket, Key=f"{log}/{0:020d}.json")["Body"].read()
    client.put_object(Bucket=place.bucket, Key=f"{log}/{0:020d}.json", Body=b"{nonsense")
    with pytest.raises(UnreadableTable, match=r"the log of the table cannot be read.*damaged"):
        load_table(place)
    with pytest.raises(UnreadableTable, match="the log of the table cannot be read"):
        append(place, batch(3), SCHEMA)
    client.put_object(Bucket=place.bucket, Key=f"{log}/{0:020d}.json", Body=first)
    newest = load_table(place).version()
    client.delete_object(Bucket=place.bucket, Key=f"{log}/{newest - 1:020d}.json")
    with pytest.raises((NotFound, UnreadableTable), match=f"{newest - 1}|cannot be read"):
        load_table(place, version=newest - 1)
    client.close()


def test_a_file_that_is_gone_or_damaged_is_told(node: Endpoint, place: TableLocation) -> None:
    append(place, batch(1), SCHEMA)
    (name,) = keys_below(node, place)
    client = s3(node)
    client.put_object(Bucket=place.bucket, Key=f"{place.prefix}/{name}", Body=b"x" * 500)
    with pytest.raises(DataError, match="Parquet"):
        read_all(place)
    client.delete_object(Bucket=place.bucket, Key=f"{place.prefix}/{name}")
    with pytest.raises(NotFound, match="is gone"):
        read_all(place)
    client.close()


def test_optimize_keeps_rows_and_old_versions_until_a_vacuum(
    node: Endpoint, place: TableLocation
) -> None:
    for number in range(5):
        append(place, batch(number), SCHEMA, transaction=Transaction("query", number))
    done = optimize(place)
    assert (done.files_removed, done.files_added) == (5, 1)
    assert numbers_of(place) == [0, 1, 2, 3, 4]
    assert numbers_of(place, 2) == [0, 1]
    assert delta(place).transaction_version("query") == 4
    assert vacuum(place) == []
    age_log(node, place)
    assert len(vacuum(place, dry_run=True)) == 5
    assert len(vacuum(place)) == 5
    assert len(list(keys_below(node, place))) == 1
    assert numbers_of(place) == [0, 1, 2, 3, 4]


def age_log(node: Endpoint, place: TableLocation) -> None:
    """As if each file that a version replaced had been replaced eight days ago."""
    client, prefix = s3(node), f"{place.prefix}/_delta_log/"
    for entry in client.list_objects_v2(Bucket=place.bucket, Prefix=prefix)["Contents"]:
        body = client.get_object(Bucket=place.bucket, Key=entry["Key"])["Body"].read().decode()
        actions = [json.loads(line) for line in body.splitlines()]
        for one in actions:
            if "remove" in one:
                one["remove"]["deletionTimestamp"] -= 8 * 24 * 3600 * 1000
        body = "\n".join(map(json.dumps, actions))
        client.put_object(Bucket=place.bucket, Key=entry["Key"], Body=body.encode())
    client.close()


@pytest.mark.parametrize("retention_h", [0, 1, 167.9, -1, float("nan")])
def test_a_vacuum_never_takes_the_files_of_a_writer_that_has_not_committed(
    place: TableLocation, retention_h: float
) -> None:
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    files = write(place, plan, [batch(2)])
    with pytest.raises(InputError, match="the minimum is 168"):
        vacuum(place, retention_h=retention_h)
    assert vacuum(place) == []
    commit(place, files, plan, TARGET)
    assert numbers_of(place) == [1, 2]


def test_files_that_a_vacuum_of_another_program_removed_are_not_committed(
    place: TableLocation,
) -> None:
    append(place, batch(1), SCHEMA)
    plan = planned(place, TARGET)
    files = [
        replace(one, written_ms=one.written_ms - 2 * UNCOMMITTED_MS_MAX)
        for one in write(place, plan, [batch(2)])
    ]
    delta(place).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
    )
    with pytest.raises(InputError, match="write the rows again"):
        commit(place, files, plan, TARGET)
    assert numbers_of(place) == [1]


def test_another_writer_of_deltalake_and_ours_share_a_table(place: TableLocation) -> None:
    from deltalake import write_deltalake

    append(place, batch(1), SCHEMA)
    write_deltalake(
        place.uri,
        pa.table({"n": [2], "p": ["x"]}),
        mode="append",
        storage_options=place.storage_options(),
        commit_properties=CommitProperties(max_commit_retries=3),
    )
    append(place, batch(3), SCHEMA)
    assert sorted(row["n"] for row in read_all(place)) == [1, 2, 3]
