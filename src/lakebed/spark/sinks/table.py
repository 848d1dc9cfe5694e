"""Writes a batch to a Delta table: the tasks write Parquet files, and the commit adds them to the
table.

If a task fails, all files of the write are removed. If the commit fails, it removes the files
itself, but only if no version of the table can name them. Otherwise they are left to a vacuum,
because after a lost response the commit may have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from secrets import randbits
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakebed.base.clock import SystemClock
from lakebed.base.errors import BadConfig, Busy, InputError
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.spark.options import Options
from lakebed.spark.tables.commit import (
    Advance,
    Committed,
    Plan,
    Target,
    Transaction,
    commit_files,
    planned,
)
from lakebed.spark.tables.files import (
    FILE_BYTES,
    FileOptions,
    TableFiles,
    WrittenFile,
    remove_files,
)
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.schemas import arrow_schema
from lakebed.spark.tables.snapshot import UnsupportedTable, find_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COMPRESSIONS: Final = ("zstd", "snappy", "gzip", "lz4", "none")


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options of a write to a table."""

    partition_columns: tuple[str, ...] = ()
    may_add_columns: bool = False
    may_replace_schema: bool = False
    application: str | None = None
    number: int | None = None
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    creates_bucket: bool = False

    @classmethod
    def of(cls, options: Options, *, is_stream: bool) -> WriteOptions:
        """Parses the options of a write.

        For a stream, `txnVersion` is not used: the batch number takes its place.
        """
        application = options.text("txnAppId")
        number = None if is_stream else options.number("txnVersion")
        if not is_stream and (application is None) != (number is None):
            raise BadConfig("set both options txnAppId and txnVersion, or neither")
        return cls(
            partition_columns=tuple(options.names("partitionBy")),
            may_add_columns=options.flag("mergeSchema", default=False),
            may_replace_schema=options.flag("overwriteSchema", default=False),
            application=application,
            number=number,
            compression=options.choice("compression", COMPRESSIONS, default="zstd"),
            file_bytes=options.size("fileBytes", minimum=MIB // 16) or FILE_BYTES,
            creates_bucket=options.flag("createBucket", default=False),
        )

    def target(self, schema: StructType, *, overwrites: bool) -> Target:
        return Target(
            schema=schema,
            partition_columns=self.partition_columns,
            overwrites=overwrites,
            may_add_columns=self.may_add_columns,
            may_replace_schema=self.may_replace_schema,
        )


@dataclass
class FilesWritten(WriterCommitMessage):
    """The message of a task to the commit: the files that the task wrote.

    `query` is the id of the stream's query; it is None for a batch write.
    """

    files: list[WrittenFile]
    plan: Plan
    query: str | None = None


class TableWriter(DataSourceArrowWriter):
    """Writes one batch to a table.

    It is created where Spark plans the write, and copies of it are sent to the tasks and to the
    process that commits.
    """

    def __init__(
        self, place: TableLocation, schema: StructType, options: WriteOptions, *, overwrites: bool
    ) -> None:
        self._place = place
        self._options = options
        self._target = options.target(schema, overwrites=overwrites)
        self._job = uuid4().hex
        self._plan = plan_write(place, self._target, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        files = write_files(self._place, self._plan, self._options, iterator, job=self._job)
        return FilesWritten(files, self._plan)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        options = self._options
        transaction = None
        if options.application is not None and options.number is not None:
            transaction = Transaction(options.application, options.number)
        commit_messages(self._place, self._target, messages, transaction=transaction)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if is_failed_task(messages):
            remove_written(self._place, messages, job=self._job)


def plan_write(place: TableLocation, target: Target, options: WriteOptions) -> Plan:
    """Checks that the table accepts the rows, before any row is written. Returns how to write them.

    Creates the bucket first if the options request it.
    """
    if options.creates_bucket:
        _ensure_bucket(place)
    return planned(place, target)


def write_files(
    place: TableLocation,
    plan: Plan,
    options: WriteOptions,
    batches: Iterator[pa.RecordBatch],
    *,
    job: str,
) -> list[WrittenFile]:
    """Writes the rows of a task to Parquet files. Runs in a task.

    If it fails, it removes the files. `job` becomes part of the file names.
    """
    written = TableFiles(
        place,
        arrow_schema(plan.schema),
        FileOptions(job, plan.partition_columns, options.compression, options.file_bytes),
        files=place.file_system(),
        clock=SystemClock(),
    )
    try:
        for batch in batches:
            written.write(batch)
        return written.finish()
    except BaseException:
        written.remove()
        raise


def commit_messages(
    place: TableLocation,
    target: Target,
    messages: Sequence[WriterCommitMessage | None],
    *,
    transaction: Transaction | None,
    advances: Sequence[Advance] = (),
) -> Committed:
    """Commits the files that are named in the messages of all tasks.

    If the table does not accept the files, or other writers keep committing first, removes the
    files and raises the error. If the transaction was committed before, removes those files that
    the table does not use.
    """
    files = files_in(messages)
    plans = [message.plan for message in messages if isinstance(message, FilesWritten)]
    plan = plans[0] if plans else planned(place, target)
    paths = [file.path for file in files]
    try:
        with ThreadRunner() as runner:
            committed = commit_files(
                place,
                files,
                plan,
                target,
                transaction=transaction,
                advances=advances,
                runner=runner,
                random=Random(randbits(64)),
            )
    except (InputError, UnsupportedTable, Busy):  # nothing was committed
        remove_files(place, paths)
        raise
    if not committed.is_new:
        # The earlier commit may have had the same messages: then the table uses these files.
        named = set() if (table := find_table(place)) is None else _named(table.file_uris())
        unused = [path for path in paths if path.rpartition("/")[2] not in named]
        remove_files(place, unused)
    return committed


def files_in(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFile]:
    files = []
    for message in messages:
        if isinstance(message, FilesWritten):
            files += message.files
    return files


def is_failed_task(messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Returns whether an aborted write was aborted because a task failed: that task has no message.

    If all tasks have messages, the commit failed, and the commit itself decides which files to
    remove.
    """
    return any(message is None for message in messages)


def remove_written(
    place: TableLocation, messages: Sequence[WriterCommitMessage | None], *, job: str | None
) -> None:
    """Removes the files that are named in the tasks' messages.

    If `job` is set, also removes all files whose names begin with `part-` and this id, because
    tasks that failed have no message.
    """
    from pyarrow.fs import FileSelector

    source = place.file_system()
    paths = {file.path for file in files_in(messages)}
    if job is not None:
        root = place.key("")
        for info in source.get_file_info(
            FileSelector(root.rstrip("/"), recursive=True, allow_not_found=True)
        ):
            if info.base_name.startswith(f"part-{job}-"):
                paths.add(info.path.removeprefix(root))
    remove_files(place, sorted(paths))


def _named(uris: Sequence[str]) -> set[str]:
    return {uri.rpartition("/")[2] for uri in uris}


def _ensure_bucket(place: TableLocation) -> None:
    source = place.file_system(creates_buckets=True)
    source.create_dir(place.bucket)
