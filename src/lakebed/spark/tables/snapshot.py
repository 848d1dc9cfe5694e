"""A table at one of its versions: its schema, its files, and whether this program can read it.

`deltalake` reads the log; the data files are read elsewhere, so what their bytes may mean (deleted
rows, renamed columns, other types) is checked here, and refused if it is not understood.
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
WRITER_FEATURES: Final = frozenset(
    {"appendOnly", "invariants", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
    | {"changeDataFeed", "checkConstraints", "generatedColumns"}  # if none is in use
)
_READER_VERSION_MAX: Final = 3
_WRITER_NAMED_FEATURES: Final = 7
_VERSION_DIGITS: Final = 20
_VERSION_FILE: Final = re.compile(r"[0-9]{20}\.json")
_NS_PER_US: Final = 1000


class UnsupportedTable(LakebedError):
    """The table uses a feature of Delta that is not understood here."""

    exit_code = 65


@dataclass(frozen=True)
class DataFile:
    """`path` is below the table's prefix; `partition` has values of their columns' types."""

    path: str
    size_bytes: int
    partition: dict[str, Any]


def find_table(place: TableLocation) -> DeltaTable | None:
    """The table as it is now; None if there is none.

    `NotFound` if there is no such bucket, `InputError` if the key is refused, `Unreachable` if
    nobody answers.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        with place.trusted():
            return DeltaTable(place.uri, storage_options=place.storage_options())
    except TableNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise NotFound(f"there is no bucket {place.bucket}") from error
        return None
    except OSError as error:
        raise _unreachable(place, error) from error


def load_table(
    place: TableLocation, *, version: int | None = None, moment_us: int | None = None
) -> DeltaTable:
    """The table at a version, or as it was at a moment; `NotFound` if there is no such."""
    from deltalake.exceptions import DeltaError

    table = find_table(place)
    if table is None:
        raise NotFound(f"{place} is no Delta table: there is no log in {place.uri}/_delta_log")
    try:
        if version is not None:
            table.load_as_version(version)
        elif moment_us is not None:
            version = _version_as_of(place, moment_us)
            table.load_as_version(version)
    except (DeltaError, ValueError) as error:
        raise NotFound(
            f"{place} has no version {version} (any more): its newest is {newest_version(place)}"
        ) from error
    return table


def newest_version(place: TableLocation) -> int:
    table = find_table(place)
    return -1 if table is None else table.version()


def check_readable(table: DeltaTable) -> None:
    """`UnsupportedTable` if its files cannot be read as they are."""
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
            f"{table.table_uri} cannot be read here: it uses {', '.join(sorted(unknown))}"
        )
    if "deletionVectors" in features and _has_deletion_vectors(table):
        raise UnsupportedTable(
            f"{table.table_uri} cannot be read here: rows are deleted by deletionVectors; "
            "rewrite its files first (REORG TABLE … APPLY (PURGE) in Spark with Delta)"
        )


def check_writable(table: DeltaTable) -> None:
    """`UnsupportedTable` if rows cannot be added without more than their files."""
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
            f"{table.table_uri} cannot be written here: it uses {', '.join(sorted(unknown))}"
        )


def check_overwritable(table: DeltaTable) -> None:
    """`UnsupportedTable` if rows of it may never be removed."""
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
    """Those that may have rows which pass the filters, in a fixed order."""
    import pyarrow as pa

    actions = pa.table(table.get_add_actions(flatten=False))
    needed = columns_of(filters)
    partitions = _listed(actions, "partition")
    records = _listed(actions, "num_records")
    least, greatest, nulls = (
        _narrowed(actions, name, needed) for name in ("min", "max", "null_count")
    )
    found = []
    for at, (path, size_bytes) in enumerate(
        zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    ):
        stats = FileStats(
            rows=records[at],
            least=least[at] or {},
            greatest=greatest[at] or {},
            nulls=nulls[at] or {},
            partition=partitions[at] or {},
        )
        if may_match(filters, stats):
            found.append(DataFile(relative(path), size_bytes, stats.partition))
    return iter(sorted(found, key=lambda one: one.path))


def relative(path: str) -> str:
    """The path below the prefix, of the path in the log; those of other tables are refused."""
    if "://" in path or path.startswith("/"):
        raise UnsupportedTable(f"a file of the table is elsewhere: {path}: it is a shallow clone")
    return unquote(path)


def _listed(actions: Any, name: str) -> list[Any]:
    """A column that is not there if no file has a value of it."""
    if name not in actions.column_names:
        return [None] * actions.num_rows
    found: list[Any] = actions[name].to_pylist()
    return found


def _narrowed(actions: Any, name: str, columns: set[str]) -> list[Any]:
    """A struct of statistics, with no more than these columns of it."""
    import pyarrow as pa

    if not columns or name not in actions.column_names:
        return [None] * actions.num_rows
    structs = actions[name].combine_chunks()
    kept = [field.name for field in structs.type if field.name in columns]
    if not kept:
        return [None] * actions.num_rows
    narrow = pa.StructArray.from_arrays([structs.field(one) for one in kept], names=kept)
    found: list[Any] = narrow.to_pylist()
    return found


def _version_as_of(place: TableLocation, moment_us: int) -> int:
    """As everywhere in Delta, a version is as old as its file in the log."""
    from pyarrow.fs import FileSelector

    log = FileSelector(place.key("_delta_log"))
    written_ns = {
        int(info.base_name[:_VERSION_DIGITS]): info.mtime_ns
        for info in place.file_system().get_file_info(log)
        if _VERSION_FILE.fullmatch(info.base_name)
    }
    found = [version for version, at in written_ns.items() if at // _NS_PER_US <= moment_us]
    if not found:
        raise InputError(f"{place} is not as old as that, or its log does not reach back so far")
    return max(found)


def _has_deletion_vectors(table: DeltaTable) -> bool:
    import pyarrow as pa

    return bool(pa.table(table.deletion_vectors().read_all()).num_rows)


def _unreachable(place: TableLocation, error: OSError) -> LakebedError:
    text = str(error)
    if "NoSuchBucket" in text:
        return NotFound(f"there is no bucket {place.bucket}")
    for code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"):
        if code in text:
            return InputError(f"{place.endpoint} refused the access key: {code}")
    return Unreachable(f"{place} cannot be reached at {place.endpoint}: {text[:500]}")
