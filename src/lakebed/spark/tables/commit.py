"""The commit: files become rows of the table, all of them once, or none.

A transaction is an application and a number that only rises (a query and its batch). The table
keeps the last number of each, in the same commit as the files. `deltalake` itself takes the same
transaction twice, so this is the order of things:

1. load the table; if its number of the application is not below ours, it was all done before;
2. commit on that very handle, and let nothing be retried below: whoever was faster makes it fail;
3. after a failure, of whichever kind, go to 1. An answer that was lost is found there. Whether it
   was this call that committed is told by the names of the files: they are in no other commit.

Nobody gives up between 2 and 1: who cannot look says that it is not known whether it was committed.

A commit may also advance numbers of other applications from one value to another. If the table is
past the start of one, its rows would be there twice, and the commit is not made.

A new table, and new columns, are commits of their own before that: a run that dies between leaves
an empty table, or a column of nulls.
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

ATTEMPTS_MAX: Final = 100  # that another writer was faster
FAILURES_MAX: Final = 4  # of any other kind
UNCOMMITTED_MS_MAX: Final = 3_600_000  # older files are looked at before they are committed
POLICY: Final = RetryPolicy(delay_ms_first=5.0, delay_ms_max=500.0, jitter=0.9)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Transaction:
    """Of an application, the number must rise from commit to commit."""

    application: str
    number: int


@dataclass(frozen=True)
class Advance:
    """An application's number rises from `start`, or something lower, to `end`."""

    application: str
    start: int
    end: int


@dataclass(frozen=True)
class Target:
    """How rows go into a table. `schema` is that of the rows."""

    schema: StructType
    partition_columns: tuple[str, ...] = ()  # none: as the table has it
    overwrites: bool = False
    may_add_columns: bool = False
    may_replace_schema: bool = False  # when it overwrites


@dataclass(frozen=True)
class Committed:
    """`is_new` is false if another call committed the transaction: before, or while this one was
    at it. Then these files are not in the table, unless the other one had the very same."""

    version: int
    is_new: bool


class CommitInDoubt(LakebedError):
    """A commit was sent, and nobody can tell now whether it was made: the files may be in use."""

    exit_code = 75


@dataclass(frozen=True)
class Plan:
    """What files are written by: the table's schema as it is, or will be after the commit."""

    schema: StructType
    partition_columns: tuple[str, ...]


def planned(place: TableLocation, target: Target) -> Plan:
    """An error if such rows cannot go there."""
    table = find_table(place)
    if table is None:
        schema = as_table_schema(target.schema)
        check_partitioning(schema, target.partition_columns)
        return Plan(schema, target.partition_columns)
    columns = tuple(partition_columns_of(table))
    if target.partition_columns not in ((), columns):
        raise _otherwise_partitioned(place, columns)
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
    """`Busy` if others were faster for too long or committed a part of the advances, `InputError`
    or `UnsupportedTable` if the table does not take them: then the files are in no commit.

    Any other error leaves open whether they are.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    backoff = Backoff(POLICY, random)
    tried_from: int | None = None
    conflicts = failures = 0
    while True:
        try:
            table, done = _current_table(place, files, transaction, tried_from)
            if done is not None:
                return done
            if table is not None and are_made(advances, table.transaction_version, place):
                return Committed(table.version(), is_new=False)
            if conflicts >= ATTEMPTS_MAX:
                raise Busy(f"{place}: other writers were faster {conflicts} times")
            if table is None:
                _create(place, plan)
            elif not _evolve(table, place, plan, target):
                if not files and not advances and not target.overwrites:
                    return Committed(table.version(), is_new=True)
                _check_files(place, files, runner.clock)
                tried_from = table.version() if tried_from is None else tried_from
                _commit_on(table, files, plan, target, _numbers(transaction, advances))
                return Committed(table.version(), is_new=True)
            continue
        except CommitFailedError as error:
            conflicts += 1
            event(_log, "commit_conflict", table=place, count=conflicts, why=error)
        except (DeltaError, OSError, Unreachable) as error:
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
    """Have these files, and the schema, in place of what that version of the table has, in one
    commit. False if the table has another version by now: then nothing was changed."""
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
            now = find_table(place)
            is_made = now is not None and (
                not files or _version_of(files[0], now, place, version) is not None
            )
        except LakebedError:
            is_made = False
        if is_made and files:
            return True
        raise CommitInDoubt(
            f"{place}: it is not known whether a commit was made: {error}"
        ) from error
    return True


def are_made(
    advances: Sequence[Advance], number_of: Callable[[str], int | None], place: TableLocation
) -> bool:
    """Whether all advances were made before; `Busy` if a part of them was."""
    numbers = {one: number_of(one.application) for one in advances}
    passed = [one for one, last in numbers.items() if last is not None and last > one.start]
    if not passed:
        return False
    if all(last is not None and last >= one.end for one, last in numbers.items()):
        return True
    raise Busy(
        f"{place}: another job committed a part of the same rows ({passed[0].application}); "
        "run it again to go on from there"
    )


def _current_table(
    place: TableLocation,
    files: Sequence[WrittenFile],
    transaction: Transaction | None,
    tried_from: int | None,
) -> tuple[DeltaTable | None, Committed | None]:
    """The table as it is now, and whether it was committed there: `CommitInDoubt` if it may have
    been, and cannot be looked at."""
    try:
        table = find_table(place)
        if table is None:
            return None, None
        return table, _was_committed(table, place, files, transaction, tried_from)
    except (InputError, UnsupportedTable) as error:
        if tried_from is None:
            raise
        raise CommitInDoubt(
            f"{place} cannot be looked at, so nobody knows whether a commit was made: {error}"
        ) from error


def _was_committed(
    table: DeltaTable,
    place: TableLocation,
    files: Sequence[WrittenFile],
    transaction: Transaction | None,
    tried_from: int | None,
) -> Committed | None:
    """By this call, or by another one."""
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
    """Which of the versions since then added the file."""
    source = place.file_system()
    for version in range(tried_from + 1, table.version() + 1):
        if any(one.path == file.path for one in read_change(source, place, version).added):
            return version
    return None


def _check_files(place: TableLocation, files: Sequence[WrittenFile], clock: Clock) -> None:
    """`InputError` if files are gone that were written so long ago that a vacuum, of whatever
    program, may have taken them for left over."""
    written_before_ms = clock.wall_ns() // NS_PER_MS - UNCOMMITTED_MS_MAX
    old = [place.key(one.path) for one in files if one.written_ms < written_before_ms]
    if not old:
        return
    gone = [info.path for info in place.file_system().get_file_info(old) if not info.is_file]
    if gone:
        raise InputError(
            f"{place}: {len(gone)} of {len(files)} files were removed before they were committed "
            f"(the first: {gone[0]}), by a vacuum with a short retention; write the rows again"
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
    """Whether a commit was made for it, after which the table is to be loaded again."""
    from deltalake import CommitProperties, Schema

    columns = tuple(partition_columns_of(table))
    if columns != plan.partition_columns:
        raise _otherwise_partitioned(place, columns)
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
        return False  # with the files
    changed = [
        field.name
        for field in schema.fields
        if field.name not in before.names or field != before[field.name]
    ]
    fields = [one for one in Schema.from_json(schema.json()).fields if one.name in changed]
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
                path=one.path,
                size=one.size_bytes,
                partition_values=one.partition,
                modification_time=one.written_ms,
                data_change=True,
                stats=one.stats,
            )
            for one in files
        ],
        mode="overwrite" if target.overwrites else "append",
        schema=Schema.from_json(schema.json()),
        partition_by=partition_columns_of(table),
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=transactions),
    )


def _numbers(transaction: Transaction | None, advances: Sequence[Advance]) -> dict[str, int]:
    found = {} if transaction is None else {transaction.application: transaction.number}
    return found | {one.application: one.end for one in advances}


def _schema_for(
    table: DeltaTable, rows: StructType, target: Target, *, may_widen: bool
) -> StructType:
    """What the table must have to take the rows; `InputError` if they do not fit."""
    check_writable(table)
    if target.overwrites:
        check_overwritable(table)
    if target.overwrites and target.may_replace_schema:
        schema = as_table_schema(rows)
        check_partitioning(schema, partition_columns_of(table))
        return schema
    return evolved(schema_of(table), rows, may_add=target.may_add_columns, may_widen=may_widen)


def _otherwise_partitioned(place: TableLocation, columns: Sequence[str]) -> InputError:
    by = ", ".join(columns) or "no column"
    return InputError(f"{place} is partitioned by {by}, and the rows are otherwise (partitionBy)")


def _has_ntz(schema: StructType) -> bool:
    return '"timestamp_ntz"' in schema.json()
