"""Loads a Delta table at one version: its schema and files.

Also checks whether Lakebed can read and write the table. Queries read the log of the table with
`deltalake`, but its data files without it. So a table is refused if it uses a Delta feature that
changes how data files must be read (deletion vectors, column mapping, new types) and that Lakebed
does not support.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakebed.api.problems import Unreachable
from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.stats_filter import FileStats, columns_of, may_match

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

READER_FEATURES: Final = frozenset(
    {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"}
)
# A table may list invariants, constraints and generated columns as features, but `check_writable`
# refuses a table that has any.
WRITER_FEATURES: Final = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
    | {"changeDataFeed", "checkConstraints", "generatedColumns"}
)
_READER_VERSION_MAX: Final = 3
_WRITER_NAMED_FEATURES: Final = 7
_VERSION_DIGITS: Final = 20
_VERSION_FILE: Final = re.compile(r"[0-9]{20}\.json")
_NS_PER_US: Final = 1000


class UnsupportedTable(LakebedError):
    """The table uses a Delta feature that Lakebed does not support, or has a property that forbids
    the operation.
    """

    exit_code = 65


class UnreadableTable(LakebedError):
    """The log of the table cannot be read: it may be damaged."""

    exit_code = 65


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    `path` is relative to the table; `partition` has the typed values of the partition columns.
    """

    path: str
    size_bytes: int
    partition: dict[str, Any]


def find_table(place: TableLocation) -> DeltaTable | None:
    """Returns the newest version of the table, or None if there is no table.

    Raises `NotFound` if the bucket does not exist, `InputError` if the access key is refused or
    does not allow the access, `Unreachable` if the request fails for another reason, for example if
    no server answers, and `UnreadableTable` if the log of the table cannot be read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        with place.trusted():
            return DeltaTable(place.uri, storage_options=place.storage_options())
    except TableNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise NotFound(f"bucket {place.bucket} does not exist") from error
        return None
    except OSError as error:
        raise _unreachable(place, error) from error
    except DeltaError as error:
        raise _unreadable(place, error) from error


def load_table(
    place: TableLocation, *, version: int | None = None, moment_us: int | None = None
) -> DeltaTable:
    """Returns the table at `version`, or else as of `moment_us`; by default the newest version.

    Raises `NotFound` if the table or the version does not exist, and `InputError` if the log has no
    version that was written at or before `moment_us`. Also raises the errors of `find_table`.
    """
    from deltalake.exceptions import DeltaError

    table = find_table(place)
    if table is None:
        raise NotFound(f"{place} is not a Delta table: there is no log in {place.uri}/_delta_log")
    if version is None and moment_us is not None:
        version = _version_as_of(place, moment_us)
    if version is None or version == table.version():
        return table
    if version > table.version() or version not in _written_ns(place):
        raise NotFound(
            f"{place}: version {version} does not exist, or was removed; the newest is "
            f"{table.version()}"
        )
    try:
        with place.trusted():
            table.load_as_version(version)
    except OSError as error:
        raise _unreachable(place, error) from error
    except DeltaError as error:
        raise _unreadable(place, error, version=version) from error
    return table


def check_readable(table: DeltaTable) -> None:
    """Raises `UnsupportedTable` if the table's rows cannot be read directly from its data files.

    That is the case if it uses column mapping, has rows deleted with deletion vectors, or requires
    readers to support a Delta feature or version that Lakebed does not support.
    """
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    unknown = features - READER_FEATURES
    if protocol.min_reader_version > _READER_VERSION_MAX:
        unknown.add(f"reader version {protocol.min_reader_version}")
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        unknown.add(f"columnMapping ({mode})")
    if unknown:
        raise UnsupportedTable(
            f"{table.table_uri} cannot be read: it uses Delta features that are not supported: "
            f"{', '.join(sorted(unknown))}"
        )
    if "deletionVectors" in features and _has_deletion_vectors(table):
        raise UnsupportedTable(
            f"{table.table_uri} cannot be read: it has rows deleted with deletionVectors; "
            "rewrite its files first (REORG TABLE … APPLY (PURGE) in Spark with Delta)"
        )


def check_writable(table: DeltaTable) -> None:
    """Raises `UnsupportedTable` if the table uses a Delta feature that its writers must support
    and Lakebed does not, or if `check_readable` raises it.

    For example, Lakebed neither checks constraints nor computes generated columns, so it refuses a
    table that has any.
    """
    check_readable(table)
    protocol = table.protocol()
    unknown = set(protocol.writer_features or ()) - WRITER_FEATURES
    configuration = table.metadata().configuration
    unknown |= {name for name in configuration if name.startswith("delta.constraints.")}
    for field in json.loads(table.schema().to_json())["fields"]:
        unknown |= {
            f"{name} of {field['name']}"
            for name in field["metadata"]
            if name.startswith(("delta.invariants", "delta.generationExpression", "delta.identity"))
        }
    if protocol.min_writer_version > _WRITER_NAMED_FEATURES:
        unknown.add(f"writer version {protocol.min_writer_version}")
    if unknown:
        raise UnsupportedTable(
            f"{table.table_uri} cannot be written: it uses Delta features that are not supported: "
            f"{', '.join(sorted(unknown))}"
        )


def check_overwritable(table: DeltaTable) -> None:
    """Raises `UnsupportedTable` if the table does not allow rows to be removed."""
    if table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
        raise UnsupportedTable(
            f"{table.table_uri} cannot be overwritten: its property delta.appendOnly is true; "
            "append to it, or write another table"
        )


def schema_of(table: DeltaTable) -> StructType:
    from pyspark.sql.types import StructType

    schema: StructType = StructType.fromJson(json.loads(table.schema().to_json()))
    return schema


def partition_columns_of(table: DeltaTable) -> list[str]:
    return list(table.metadata().partition_columns)


def files_of(table: DeltaTable, filters: Sequence[Filter] = ()) -> Iterator[DataFile]:
    """Returns the table's files that may have rows that match all filters, sorted by path.

    Raises `UnsupportedTable` if the log has an absolute path for one of these files.
    """
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=False))
    needed = columns_of(filters)
    partitions = _listed(actions, "partition")
    records = _listed(actions, "num_records")
    least, greatest, nulls = (
        _narrowed(actions, name, needed) for name in ("min", "max", "null_count")
    )
    files = []
    for index, (path, size_bytes) in enumerate(
        zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    ):
        stats = FileStats(
            rows=records[index],
            least=least[index] or {},
            greatest=greatest[index] or {},
            nulls=nulls[index] or {},
            partition=partitions[index] or {},
        )
        if may_match(filters, stats):
            files.append(DataFile(relative(path), size_bytes, stats.partition))
    return iter(sorted(files, key=lambda file: file.path))


def relative(path: str) -> str:
    """Decodes a path in the log, which is URL-encoded and relative to the table.

    Raises `UnsupportedTable` if the path is absolute: the file may be outside the table.
    """
    if "://" in path or path.startswith("/"):
        raise UnsupportedTable(
            f"the table has a file with an absolute path, {path}, as a shallow clone has; that is "
            "not supported"
        )
    return unquote(path)


def _listed(actions: Any, name: str) -> list[Any]:
    """Returns a column of the list of files; all None if the list does not have the column."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    values: list[Any] = actions[name].to_pylist()
    return values


def _narrowed(actions: Any, name: str, columns: set[str]) -> list[Any]:
    """Returns one kind of statistics of each file, as a dictionary with only these columns.

    `name` is the kind, such as `min`. If the list of files has no such statistics for any of the
    columns, returns None for each file.
    """
    import pyarrow as pa

    if not columns or name not in actions.column_names:
        return [None] * actions.num_rows
    structs = actions[name].combine_chunks()
    kept = [field.name for field in structs.type if field.name in columns]
    if not kept:
        return [None] * actions.num_rows
    narrow = pa.StructArray.from_arrays([structs.field(column) for column in kept], names=kept)
    values: list[Any] = narrow.to_pylist()
    return values


def _version_as_of(place: TableLocation, moment_us: int) -> int:
    """Returns the newest version that was written at or before that time.

    As usual in Delta, a version counts as written when its file in the log was.
    """
    versions = [
        version for version, at_ns in _written_ns(place).items() if at_ns // _NS_PER_US <= moment_us
    ]
    if not versions:
        raise InputError(
            f"{place} did not exist at that time, or its log does not go back that far"
        )
    return max(versions)


def _written_ns(place: TableLocation) -> dict[int, int]:
    """Returns when each version that the log still has was written, in ns since 1970."""
    from pyarrow.fs import FileSelector

    log = FileSelector(place.key("_delta_log"))
    return {
        int(info.base_name[:_VERSION_DIGITS]): info.mtime_ns
        for info in place.file_system().get_file_info(log)
        if _VERSION_FILE.fullmatch(info.base_name)
    }


def _has_deletion_vectors(table: DeltaTable) -> bool:
    import pyarrow as pa

    return bool(pa.table(table.deletion_vectors().read_all()).num_rows)


def _unreadable(
    place: TableLocation, error: Exception, *, version: int | None = None
) -> UnreadableTable:
    what = "the log of the table" if version is None else f"version {version} of the table"
    why = str(error).partition("\n")[0]
    return UnreadableTable(f"{place}: {what} cannot be read; the log may be damaged: {why}")


def _unreachable(place: TableLocation, error: OSError) -> LakebedError:
    text = str(error)
    if "NoSuchBucket" in text:
        return NotFound(f"bucket {place.bucket} does not exist")
    for code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"):
        if code in text:
            return InputError(
                f"{place.endpoint} refused the access key, or denied it access: {code}"
            )
    return Unreachable(f"{place} cannot be reached at {place.endpoint}: {text[:500]}")
