"""Lands dead letters again: `land --retry-dead-letters`.

After a fix (another schema, a newer release) some dead letters may be valid rows. All dead letters
are converted back to messages and landed. Those that become rows go to the table; the others stay
in the table of dead letters. This takes two commits, so both are first recorded in one document in
the bucket, `_land/<prefix>/retry.json` (the prefix of the table of dead letters). If a run dies,
the next run with this option finds the document and completes the commits. If the table refuses
the rows, the document is removed, and then the files that it names: the dead letters stay in their
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from secrets import randbits
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.types import StructType

from lakebed.base.clock import SystemClock
from lakebed.base.errors import Busy, DataError, InputError
from lakebed.base.runner import ThreadRunner
from lakebed.spark.jobs.land.config import Landing
from lakebed.spark.jobs.land.parquet_target import FOLDER
from lakebed.spark.jobs.land.rows import DEAD_LETTER, LOG_NAMES, MessageRows
from lakebed.spark.jobs.land.target import files_of, place_of_table, target_of
from lakebed.spark.jobs.land.task import LandTask, TaskFiles
from lakebed.spark.tables import snapshot
from lakebed.spark.tables.commit import (
    Plan,
    Target,
    Transaction,
    check_files,
    commit_files,
    replace_files,
)
from lakebed.spark.tables.files import WrittenFile, remove_files
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import splits_of
from lakebed.spark.tables.snapshot import UnsupportedTable

ATTEMPTS_MAX: Final = 5
_SEGMENT_SHIFT: Final = 32
_NS_PER_US: Final = 1000

Letter = tuple[str, int, int]  # topic, partition, offset


class Retry(msgspec.Struct, frozen=True):
    """The recorded retry of dead letters: the files of both commits, and the version of the
    table of dead letters that they are based on.
    """

    retry_id: str
    version: int
    files: TaskFiles
    row_count: int

    @property
    def application(self) -> str:
        return f"lakebed.land/retry/{self.retry_id}"


def retry_dead_letters(landing: Landing, s3: Mapping[str, str]) -> int:
    """Lands the dead letters of a table again. Returns how many of them became rows.

    First completes a retry that an earlier run left unfinished; its rows are counted too.
    """
    place = place_of_table(landing.dead_letters, s3)
    unfinished = _begun(place)
    count = 0 if unfinished is None else _finish(landing, s3, place, unfinished)
    table = snapshot.find_table(place)
    if table is None:
        return count
    messages = MessageRows(landing)
    rows = target_of(landing, s3, partition_columns=messages.partition_columns)
    task = LandTask(landing, messages, rows, target_of(landing, s3, is_dead=True))
    try:
        for batch in _letters(place, table.version()):
            task.take(as_messages(batch, landing))
        files = task.finish()
    except BaseException:
        task.drop()
        raise
    if not task.row_count:
        remove_files(place, [file.path for file in files.dead_letters])
        return count
    retry = Retry(uuid4().hex, table.version(), files, task.row_count)
    _decide(place, retry)
    return count + _finish(landing, s3, place, retry)


def as_messages(letters: pa.RecordBatch, landing: Landing) -> pa.RecordBatch:
    """Converts dead letters back to messages, with the columns of the topic or log.

    Of the columns that dead letters do not have, `segment` and `timestamp_ns` of a log are computed
    from the others; the rest are null.
    """
    names = (
        {log_name: letter_name for letter_name, log_name in LOG_NAMES.items()}
        if landing.is_log
        else {}
    )
    columns = []
    schema = landing.kind.fields.schema()
    for field in schema:
        name = names.get(field.name, field.name)
        if landing.is_log and field.name == "segment":
            column = compute.shift_right(letters.column("offset"), _SEGMENT_SHIFT)
        elif landing.is_log and field.name == "timestamp_ns":
            stamps = letters.column("timestamp").cast(pa.int64())
            column = compute.multiply(stamps, _NS_PER_US)
        elif name in letters.schema.names:
            column = letters.column(name)
        else:
            column = pa.nulls(len(letters), field.type)
        columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _finish(landing: Landing, s3: Mapping[str, str], place: TableLocation, retry: Retry) -> int:
    """Makes both commits of the retry, each once, then removes the record of the retry.

    Returns how many dead letters became rows.
    """
    _commit_rows(landing, s3, place, retry)
    for _ in range(ATTEMPTS_MAX):
        if _take_out(landing, place, retry):
            _remove_decision(place)
            return retry.row_count
    raise Busy(
        f"{place}: other writers changed the table during each of {ATTEMPTS_MAX} attempts; "
        "try again"
    )


def _commit_rows(
    landing: Landing, s3: Mapping[str, str], place: TableLocation, retry: Retry
) -> None:
    columns = MessageRows(landing).partition_columns
    schema = StructType.fromJson(msgspec.json.decode(retry.files.schema_json))
    table = place_of_table(landing.table, s3)
    try:
        with ThreadRunner() as runner:
            commit_files(
                table,
                retry.files.rows,
                Plan(schema, columns),
                Target(schema, columns),
                transaction=Transaction(retry.application, 1),
                runner=runner,
                random=Random(randbits(64)),
            )
    except (InputError, UnsupportedTable):  # nothing was committed
        _remove_decision(place)
        remove_files(table, [file.path for file in retry.files.rows])
        remove_files(place, [file.path for file in retry.files.dead_letters])
        raise


def _take_out(landing: Landing, place: TableLocation, retry: Retry) -> bool:
    """Replaces the content of the table of dead letters after a retry.

    The new content is the dead letters that did not become rows, and those that were added since
    the retry began. Returns False if another commit to the table came first.
    """
    table = snapshot.load_table(place)
    if table.transaction_version(retry.application) is not None:
        return True
    check_files(place, retry.files.dead_letters, SystemClock())
    schema = snapshot.schema_of(table)
    added: list[WrittenFile] = []
    if table.version() != retry.version:
        retried = {key for batch in _letters(place, retry.version) for key in _keys(batch)}
        files = files_of(place, landing, schema, partition_columns=(), clock=SystemClock())
        for batch in _letters(place, table.version()):
            files.write(batch.filter(pa.array([key not in retried for key in _keys(batch)])))
        added = files.finish()
    if replace_files(
        place,
        [*retry.files.dead_letters, *added],
        schema,
        version=table.version(),
        numbers={retry.application: 1},
    ):
        return True
    remove_files(place, [file.path for file in added])
    return False


def _letters(place: TableLocation, version: int) -> Iterator[pa.RecordBatch]:
    table = snapshot.load_table(place, version=version)
    parts = [part for split in splits_of(snapshot.files_of(table)) for part in split]
    return read_parts(place, parts, DEAD_LETTER)


def _keys(batch: pa.RecordBatch) -> list[Letter]:
    names = ("topic", "partition", "offset")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


def _path(place: TableLocation) -> str:
    return f"{FOLDER}/{place.prefix}/retry.json"


def _begun(place: TableLocation) -> Retry | None:
    import obstore

    try:
        text = bytes(obstore.get(place.object_store(), _path(place)).bytes())
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=Retry)
    except msgspec.DecodeError as error:
        raise DataError(
            f"this is not a valid record of a retry of dead letters: {error}", path=_path(place)
        ) from error


def _decide(place: TableLocation, retry: Retry) -> None:
    import obstore
    from obstore.exceptions import AlreadyExistsError

    mode: Any = "create"
    document = msgspec.json.encode(retry)
    try:
        obstore.put(place.object_store(), _path(place), document, mode=mode, use_multipart=False)
    except AlreadyExistsError as error:
        raise Busy(
            f"{place}: another job is retrying these dead letters; try again later"
        ) from error


def _remove_decision(place: TableLocation) -> None:
    import obstore

    obstore.delete(place.object_store(), _path(place))
