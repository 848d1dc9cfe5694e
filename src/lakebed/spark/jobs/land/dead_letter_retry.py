"""Dead letters that are landed again: `land --retry-dead-letters`.

After a fix (another schema, a newer release) letters may be rows. They are read as the messages
they were; those that are rows now go to the table, and the table of dead letters keeps the rest.
These are two commits, so what they consist of is decided first, by one document in the bucket,
`_land/<dead letters>/retry.json`. A run that dies is finished by the next one, which finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.types import StructType

from lakebed.base.clock import SystemClock
from lakebed.base.errors import Busy, DataError
from lakebed.spark.jobs.land.config import Landing
from lakebed.spark.jobs.land.parquet_target import FOLDER
from lakebed.spark.jobs.land.rows import DEAD_LETTER, LOG_NAMES, MessageRows
from lakebed.spark.jobs.land.target import files_of, place_of_table, target_of
from lakebed.spark.jobs.land.task import LandTask, TaskFiles
from lakebed.spark.tables import snapshot
from lakebed.spark.tables.commit import Transaction, replace_files
from lakebed.spark.tables.files import WrittenFile, remove_files
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.parquet_reader import read_parts
from lakebed.spark.tables.parts import splits_of

ATTEMPTS_MAX: Final = 5
_SEGMENT_SHIFT: Final = 32
_NS_PER_US: Final = 1000

Letter = tuple[str, int, int]  # topic, partition, offset


class Retry(msgspec.Struct, frozen=True):
    """What is decided: the files of both commits, and the version of the dead letters' table that
    they come from."""

    retry_id: str
    version: int
    files: TaskFiles
    row_count: int

    @property
    def application(self) -> str:
        return f"lakebed.land/retry/{self.retry_id}"


def retry_dead_letters(landing: Landing, s3: Mapping[str, str]) -> int:
    """How many became rows."""
    place = place_of_table(landing.dead_letters, s3)
    begun = _begun(place)
    count = 0 if begun is None else _finish(landing, s3, place, begun)
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
        remove_files(place, [one.path for one in files.dead_letters])
        return count
    retry = Retry(uuid4().hex, table.version(), files, task.row_count)
    _decide(place, retry)
    return count + _finish(landing, s3, place, retry)


def as_messages(letters: pa.RecordBatch, landing: Landing) -> pa.RecordBatch:
    """As they were read from the topic or log; what a dead letter does not keep is null."""
    names = {theirs: ours for ours, theirs in LOG_NAMES.items()} if landing.is_log else {}
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
    """Both commits, each once; then nothing is left to be decided."""
    columns = MessageRows(landing).partition_columns
    schema = StructType.fromJson(msgspec.json.decode(retry.files.schema_json))
    rows = target_of(landing, s3, partition_columns=columns)
    rows.commit(retry.files.rows, schema, Transaction(retry.application, 1))
    for _ in range(ATTEMPTS_MAX):
        if _take_out(landing, place, retry):
            _remove_decision(place)
            return retry.row_count
    raise Busy(f"{place}: others added dead letters {ATTEMPTS_MAX} times meanwhile")


def _take_out(landing: Landing, place: TableLocation, retry: Retry) -> bool:
    """Whether the dead letters are now those that are left, and those that came since."""
    table = snapshot.load_table(place)
    if table.transaction_version(retry.application) is not None:
        return True
    schema = snapshot.schema_of(table)
    added: list[WrittenFile] = []
    if table.version() != retry.version:
        known = {key for batch in _letters(place, retry.version) for key in _keys(batch)}
        files = files_of(place, landing, schema, partition_columns=(), clock=SystemClock())
        for batch in _letters(place, table.version()):
            files.write(batch.filter(pa.array([key not in known for key in _keys(batch)])))
        added = files.finish()
    if replace_files(
        place,
        [*retry.files.dead_letters, *added],
        schema,
        version=table.version(),
        numbers={retry.application: 1},
    ):
        return True
    remove_files(place, [one.path for one in added])
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
        raise DataError(f"no such document: {error}", path=_path(place)) from error


def _decide(place: TableLocation, retry: Retry) -> None:
    import obstore
    from obstore.exceptions import AlreadyExistsError

    mode: Any = "create"
    document = msgspec.json.encode(retry)
    try:
        obstore.put(place.object_store(), _path(place), document, mode=mode, use_multipart=False)
    except AlreadyExistsError as error:
        raise Busy(f"{place}: another job lands these dead letters at the same time") from error


def _remove_decision(place: TableLocation) -> None:
    import obstore

    obstore.delete(place.object_store(), _path(place))
