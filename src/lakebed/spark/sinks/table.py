"""Writing a batch to a table: tasks write Parquet files, the commit names them.

Where a task fails, those of the others are removed when the write is given up, with whatever it
left. Where the commit fails, it removes them itself if it is sure that no version names them; else
they are left to a vacuum, because a lost answer may hide a commit that was made.
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
    """As the data source's options say."""

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
        """A stream has numbers of its own: those of its batches."""
        application = options.text("txnAppId")
        number = None if is_stream else options.number("txnVersion")
        if not is_stream and (application is None) != (number is None):
            raise BadConfig("the options txnAppId and txnVersion: one of both is missing")
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
    """Of one task. `query` is that of the stream, if it is one."""

    files: list[WrittenFile]
    plan: Plan
    query: str | None = None


class TableWriter(DataSourceArrowWriter):
    """Made where the write is planned; it travels to the tasks, and to whoever commits."""

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
    """Whether such rows can go there, and how, before any is written."""
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
    """In a task."""
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
    """Files of a transaction that was committed before are removed: they are not needed."""
    files = files_in(messages)
    plans = [one.plan for one in messages if isinstance(one, FilesWritten)]
    plan = plans[0] if plans else planned(place, target)
    paths = [one.path for one in files]
    try:
        with ThreadRunner() as runner:
            done = commit_files(
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
    if not done.is_new:
        # The other call may have had the same messages: then the files are the table's.
        named = set() if (table := find_table(place)) is None else _named(table.file_uris())
        unused = [path for path in paths if path.rpartition("/")[2] not in named]
        remove_files(place, unused)
    return done


def files_in(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFile]:
    found = []
    for message in messages:
        if isinstance(message, FilesWritten):
            found += message.files
    return found


def is_failed_task(messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Or else it was the commit that failed, which knows better what may be removed."""
    return any(message is None for message in messages)


def remove_written(
    place: TableLocation, messages: Sequence[WriterCommitMessage | None], *, job: str | None
) -> None:
    """What tasks wrote; of a `job` also what is in no message, by its name."""
    from pyarrow.fs import FileSelector

    source = place.file_system()
    paths = {one.path for one in files_in(messages)}
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
