"""One version of a table's log: what it added, what it removed, and whether the schema changed.

`deltalake` tells the files of a version; what a version did stands in its file of the log alone,
a JSON document a line. It is there until the log is cleaned up.
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
    """`partition` has the texts of the log."""

    path: str
    size_bytes: int
    partition: dict[str, str | None]


@dataclass(frozen=True)
class Change:
    """What a version did. Files that hold the same rows as before are left out of it."""

    version: int
    added: tuple[AddedFile, ...]
    removed: int
    schema: dict[str, Any] | None = None  # the new one, as the log has it
    table_id: str = ""
    has_deletion_vectors: bool = False


def log_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def read_change(files: FileSystem, place: TableLocation, version: int) -> Change:
    """`NotFound` if the log does not reach back so far, or not yet that far."""
    path = place.key(log_path(version))
    try:
        with files.open_input_file(path) as source:
            text = source.read()
    except FileNotFoundError as error:
        raise NotFound(
            f"version {version} of {place} is not in its log: it was cleaned up, or never was"
        ) from error
    return parse_change(text, version=version, path=path)


def parse_change(text: bytes, *, version: int, path: str) -> Change:
    """Added files in the order of the log."""
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
            raise DataError(f"line {number} is no action of Delta: {error!r}", path=path) from error
    return Change(version, tuple(added), removed, schema, table_id, has_vectors)
