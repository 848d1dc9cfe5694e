"""Commits files to a Delta table: adds all of them to the table, once, or none of them.

A transaction is an application and an increasing number (a query and its batch). The table stores
the last number of each application in the same commit as the files. `deltalake` accepts the same
transaction twice, so a commit works like this:

1. Load the table. If its number for the application is not below ours, the transaction was already
   committed.
2. Commit on that same handle, without retries inside `deltalake`, so that the commit fails if
   another writer came first.
3. After any failure, go to 1. If the commit succeeded but its response was lost, step 1 finds it.
   The names of the files show whether this call made the commit: no other commit has them.

If the table cannot be read after step 2 was tried, the outcome is unknown. Then `CommitInDoubt` is
raised or, if the server does not answer, the error of the last attempt.

A commit may also advance the numbers of other applications from one value to another. If a number
in the table is already past the start of its advance, the rows would be stored twice, so the commit
is not made.

New tables and new columns are commits of their own, made first. A run that dies after such a commit
leaves an empty table, or a column of nulls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from lakebed.api.problems import Unreachable
from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import Busy, InputError, LakebedError
from lakebed.base.events import event
from lakebed.base.retry import Backoff, RetryPolicy
from lakebed.base.runner import Runner
from lakebed.spark.tables.files import WrittenFile
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.log import read_change
from lakebed.spark.tables.schemas import as_table_schema, check_partitioning, evolved
from lakebed.spark.tables.snapshot import (
    UnreadableTable,
    UnsupportedTable,
    check_overwritable,
    check_writable,
    find_table,
    partition_columns_of,
    schema_of,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

ATTEMPTS_MAX: Final = 100  # after conflicts with other writers
FAILURES_MAX: Final = 4  # that are not conflicts
UNCOMMITTED_MS_MAX: Final = 3_600_000  # files older than this are checked before the commit
POLICY: Final = RetryPolicy(delay_ms_first=5.0, delay_ms_max=500.0, jitter=0.9)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Transaction:
    """Identifies a commit, so that it is made once. The numbers of an application must increase."""

    application: str
    number: int


@dataclass(frozen=True)
class Advance:
    """An increase of the number that a table stores for an application.

    The number must be `start` or lower before the commit; it is `end` afterwards.
    """

    application: str
    start: int
    end: int


@dataclass(frozen=True)
class Target:
    """Describes a write to a table: the schema of the rows, and what the write may change in the
    table.
    """

    schema: StructType
    partition_columns: tuple[str, ...] = ()  # if empty, those of the table
    overwrites: bool = False
    may_add_columns: bool = False
    may_replace_schema: bool = False  # only used with `overwrites`


@dataclass(frozen=True)
class Committed:
    """The result of a commit.

    `is_new` is False if another call committed the transaction or all advances, before or during
    this one. The table then does not have the files of this call, unless the other call had the
    same files.
    """

    version: int
    is_new: bool


class CommitInDoubt(LakebedError):
    """A commit was sent and its outcome is unknown, so the table may use the files."""

    exit_code = 75


@dataclass(frozen=True)
class Plan:
    """The schema and partition columns with which a task writes files.

    The schema is the one that the table has, or will have after the commit.
    """

    schema: StructType
    partition_columns: tuple[str, ...]


def planned(place: TableLocation, target: Target) -> Plan:
    """Returns how to write the files. The table need not exist yet.

    Raises `InputError` or `UnsupportedTable` if the table does not accept the rows.
    """
    table = find_table(place)
    if table is None:
        schema = as_table_schema(target.schema)
        check_partitioning(schema, target.partition_columns)
        return Plan(schema, target.partition_columns)
    columns = tuple(partition_columns_of(table))
    if target.partition_columns not in ((), columns):
        raise _wrong_partitioning(place, columns)
    return Plan(_schema_for(table, target.schema, target, may_widen=True), columns)


def commit_files(
    place: TableLocation,
    files: Sequence[WrittenFile],
    plan: Plan,
    target: Target,
    *,
    transaction: Transaction | None,
    advances: Sequence[Advance] = (),
    runner: Runner,
    random: Random,
) -> Committed:
    """Commits the files to the table, once for the transaction. Creates or extends the table first.

    These errors mean that the files are not in the table: `Busy` if other writers kept committing
    first, or committed part of the advances; `InputError` or `UnsupportedTable` if the table does
    not accept the files. After any other error it is unknown whether the files are in the table.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    backoff = Backoff(POLICY, random)
    tried_from: int | None = None
    conflicts = failures = 0
    while True:
        try:
            table, committed = _current_table(place, files, transaction, tried_from)
            if committed is not None:
                return committed
            if table is not None and are_made(advances, table.transaction_version, place):
                return Committed(table.version(), is_new=False)
            if conflicts >= ATTEMPTS_MAX:
                raise Busy(f"{place}: other writers committed first {conflicts} times; try again")
            if table is None:
                _create(place, plan)
            elif not _evolve(table, place, plan, target):
                if not files and not advances and not target.overwrites:
                    return Committed(table.version(), is_new=True)
                check_files(place, files, runner.clock)
                tried_from = table.version() if tried_from is None else tried_from
                _commit_on(table, files, plan, target, _numbers(transaction, advances))
                return Committed(table.version(), is_new=True)
            continue
        except CommitFailedError as error:
            conflicts += 1
            event(_log, "commit_conflict", table=place, count=conflicts, why=error)
        except (DeltaError, OSError, Unreachable, UnreadableTable) as error:
            failures += 1
            event(_log, "commit_failed", level=logging.WARNING, table=place, why=error)
            if failures >= FAILURES_MAX:
                raise
        runner.sleep_ns(backoff.next_ns())


def replace_files(
    place: TableLocation,
    files: Sequence[WrittenFile],
    schema: StructType,
    *,
    version: int,
    numbers: Mapping[str, int] | None = None,
) -> bool:
    """Replaces all files and the schema of the table in one commit, if it still has this version.

    Returns False, and changes nothing, if the table has another version by now. `numbers` are the
    new transaction numbers by application. Raises `UnsupportedTable` if Lakebed cannot write to the
    table, and `CommitInDoubt` if the outcome is unknown.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    table = find_table(place)
    if table is None or table.version() != version:
        return False
    check_writable(table)
    check_overwritable(table)
    plan = Plan(schema, tuple(partition_columns_of(table)))
    target = Target(schema, overwrites=True, may_replace_schema=True)
    try:
        _commit_on(table, files, plan, target, numbers or {})
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        try:
            current = find_table(place)
            is_made = current is not None and (
                not files or _version_of(files[0], current, place, version) is not None
            )
        except LakebedError:
            is_made = False
        if is_made and files:
            return True
        raise CommitInDoubt(f"{place}: the outcome of the commit is unknown: {error}") from error
    return True


def are_made(
    advances: Sequence[Advance], number_of: Callable[[str], int | None], place: TableLocation
) -> bool:
    """Returns whether all advances were committed before.

    Raises `Busy` if only some of them were. `number_of` returns the number that the table stores
    for an application.
    """
    numbers = {advance: number_of(advance.application) for advance in advances}
    passed = [
        advance for advance, last in numbers.items() if last is not None and last > advance.start
    ]
    if not passed:
        return False
    if all(last is not None and last >= advance.end for advance, last in numbers.items()):
        return True
    raise Busy(
        f"{place}: another job committed part of the same rows ({passed[0].application}); "
        "run this job again to continue from there"
    )


def _current_table(
    place: TableLocation,
    files: Sequence[WrittenFile],
    transaction: Transaction | None,
    tried_from: int | None,
) -> tuple[DeltaTable | None, Committed | None]:
    """Returns the current table, and the result of the commit if it was already made.

    `tried_from` is the version of the table before the first try, or None if no commit was tried.
    If a commit was tried, raises `CommitInDoubt` in place of an `InputError` or `UnsupportedTable`.
    """
    try:
        table = find_table(place)
        if table is None:
            return None, None
        return table, _was_committed(table, place, files, transaction, tried_from)
    except (InputError, UnsupportedTable) as error:
        if tried_from is None:
            raise
        raise CommitInDoubt(
            f"{place}: the table cannot be read, so the outcome of the commit is unknown: {error}"
        ) from error


def _was_committed(
    table: DeltaTable,
    place: TableLocation,
    files: Sequence[WrittenFile],
    transaction: Transaction | None,
    tried_from: int | None,
) -> Committed | None:
    """Returns the result of the commit if this or another call made it, otherwise None."""
    if transaction is not None:
        last = table.transaction_version(transaction.application)
        if last is None or last < transaction.number:
            return None
        if tried_from is None:
            return Committed(table.version(), is_new=False)
        is_mine = not files or _version_of(files[0], table, place, tried_from) is not None
        return Committed(table.version(), is_new=is_mine)
    if tried_from is None or not files:
        return None
    version = _version_of(files[0], table, place, tried_from)
    return None if version is None else Committed(version, is_new=True)


def _version_of(
    file: WrittenFile, table: DeltaTable, place: TableLocation, tried_from: int
) -> int | None:
    """Returns the version after `tried_from` that added the file, or None if there is none."""
    source = place.file_system()
    for version in range(tried_from + 1, table.version() + 1):
        if any(added.path == file.path for added in read_change(source, place, version).added):
            return version
    return None


def check_files(place: TableLocation, files: Sequence[WrittenFile], clock: Clock) -> None:
    """Raises `InputError` if a file that was written long ago does not exist any more.

    A vacuum by another program may have removed it as unused.
    """
    written_before_ms = clock.wall_ns() // NS_PER_MS - UNCOMMITTED_MS_MAX
    old = [place.key(file.path) for file in files if file.written_ms < written_before_ms]
    if not old:
        return
    gone = [info.path for info in place.file_system().get_file_info(old) if not info.is_file]
    if gone:
        raise InputError(
            f"{place}: {len(gone)} of {len(files)} files were removed before they were committed "
            f"(the first: {gone[0]}), probably by a vacuum with a short retention; write the rows "
            "again"
        )


def _create(place: TableLocation, plan: Plan) -> None:
    from deltalake import DeltaTable, Schema

    with place.trusted():
        DeltaTable.create(
            place.uri,
            schema=Schema.from_json(plan.schema.json()),
            mode="ignore",
            partition_by=list(plan.partition_columns),
            storage_options=place.storage_options(),
        )


def _evolve(table: DeltaTable, place: TableLocation, plan: Plan, target: Target) -> bool:
    """Changes the schema of the table if the files need it.

    Returns whether it made a commit; then the table must be loaded again.
    """
    from deltalake import CommitProperties, Schema

    columns = tuple(partition_columns_of(table))
    if columns != plan.partition_columns:
        raise _wrong_partitioning(place, columns)
    schema = _schema_for(table, plan.schema, target, may_widen=False)
    before = schema_of(table)
    if schema == before:
        return False
    if _has_ntz(schema) and "timestampNtz" not in (table.protocol().writer_features or ()):
        from deltalake import TableFeatures

        table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True
        )
        return True
    if target.overwrites and target.may_replace_schema:
        return False  # replaced in the commit of the files
    changed = [
        field.name
        for field in schema.fields
        if field.name not in before.names or field != before[field.name]
    ]
    fields = [field for field in Schema.from_json(schema.json()).fields if field.name in changed]
    table.alter.add_columns(fields, commit_properties=CommitProperties(max_commit_retries=0))
    return True


def _commit_on(
    table: DeltaTable,
    files: Sequence[WrittenFile],
    plan: Plan,
    target: Target,
    numbers: Mapping[str, int],
) -> None:
    from deltalake import CommitProperties, Schema
    from deltalake import Transaction as DeltaTransaction
    from deltalake.transaction import AddAction

    replaces = target.overwrites and target.may_replace_schema
    schema = plan.schema if replaces else schema_of(table)
    transactions = [DeltaTransaction(name, number) for name, number in numbers.items()]
    table.create_write_transaction(
        [
            AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=file.partition,
                modification_time=file.written_ms,
                data_change=True,
                stats=file.stats,
            )
            for file in files
        ],
        mode="overwrite" if target.overwrites else "append",
        schema=Schema.from_json(schema.json()),
        partition_by=partition_columns_of(table),
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=transactions),
    )


def _numbers(transaction: Transaction | None, advances: Sequence[Advance]) -> dict[str, int]:
    numbers = {} if transaction is None else {transaction.application: transaction.number}
    return numbers | {advance.application: advance.end for advance in advances}


def _schema_for(
    table: DeltaTable, rows: StructType, target: Target, *, may_widen: bool
) -> StructType:
    """Returns the schema that the table needs to store the rows.

    Raises `InputError` or `UnsupportedTable` if the table does not accept rows with the schema
    `rows`.
    """
    check_writable(table)
    if target.overwrites:
        check_overwritable(table)
    if target.overwrites and target.may_replace_schema:
        schema = as_table_schema(rows)
        check_partitioning(schema, partition_columns_of(table))
        return schema
    return evolved(schema_of(table), rows, may_add=target.may_add_columns, may_widen=may_widen)


def _wrong_partitioning(place: TableLocation, columns: Sequence[str]) -> InputError:
    by = ", ".join(columns) or "no column"
    return InputError(
        f"{place} is partitioned by {by}, but this write asks for another partitioning: use the "
        "same columns, or another table"
    )


def _has_ntz(schema: StructType) -> bool:
    return '"timestamp_ntz"' in schema.json()
