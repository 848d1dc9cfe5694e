"""Reads what one version of a Delta table changed: files added and removed, and the schema.

`deltalake` lists the files of a version, but not what the version changed. That is only in the
version's own file of the log, which has one JSON document per line and exists until the log is
cleaned up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakebed.base.errors import DataError, NotFound
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.snapshot import relative

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class AddedFile:
    """A file that a version of the table added. `partition` has the values as text, as in the
    log.
    """

    path: str
    size_bytes: int
    partition: dict[str, str | None]


@dataclass(frozen=True)
class Change:
    """What a version of the table changed.

    Files that were only rewritten with the same rows (by a compaction) are left out.
    """

    version: int
    added: tuple[AddedFile, ...]
    removed: int  # the number of removed files
    schema: dict[str, Any] | None = None  # in the log's JSON; None if the version did not set it
    table_id: str = ""
    has_deletion_vectors: bool = False


def log_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def read_change(files: FileSystem, place: TableLocation, version: int) -> Change:
    """Returns what a version of the table changed.

    Raises `NotFound` if the version is not in the log, because the log was cleaned up or the
    version does not exist yet.
    """
    path = place.key(log_path(version))
    try:
        with files.open_input_file(path) as source:
            text = source.read()
    except FileNotFoundError as error:
        raise NotFound(
            f"version {version} of {place} is not in the table's log: the log was cleaned up, or "
            "the version does not exist"
        ) from error
    return parse_change(text, version=version, path=path)


def parse_change(text: bytes, *, version: int, path: str) -> Change:
    """Parses a version's file of the log. The added files are in the order of the log.

    Raises `DataError` if a line is not valid, and `UnsupportedTable` if an added file is outside
    the table.
    """
    added: list[AddedFile] = []
    removed = 0
    schema: dict[str, Any] | None = None
    table_id = ""
    has_vectors = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            action = json.loads(line)
            if "add" in action:
                add = action["add"]
                has_vectors = has_vectors or add.get("deletionVector") is not None
                if add.get("dataChange", True):
                    partition = add.get("partitionValues") or {}
                    added.append(AddedFile(relative(add["path"]), int(add["size"]), partition))
            elif "remove" in action:
                removed += bool(action["remove"].get("dataChange", True))
            elif "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                table_id = action["metaData"]["id"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"line {number} is not a Delta action: {error!r}", path=path) from error
    return Change(version, tuple(added), removed, schema, table_id, has_vectors)
