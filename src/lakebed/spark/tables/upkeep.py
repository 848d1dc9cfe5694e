"""Maintains a Delta table: merges small files, and removes files that recent versions do not
need.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from lakebed.base.errors import InputError
from lakebed.base.units import MIB
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.snapshot import check_writable, load_table

TARGET_BYTES: Final = 128 * MIB
RETENTION_H: Final = 7 * 24  # the default and the minimum of a vacuum


@dataclass(frozen=True)
class Optimized:
    """The result of `optimize`. `version` is the version of the table afterwards."""

    version: int
    files_removed: int
    files_added: int


def optimize(
    place: TableLocation,
    *,
    target_bytes: int = TARGET_BYTES,
    partition_filters: list[tuple[str, str, Any]] | None = None,
) -> Optimized:
    """Merges small files of a table into files of about `target_bytes`.

    The rows stay the same, and streams see no change. Files that other writers add at the same time
    are not touched. `partition_filters` are tuples `(column, "=", value)`.
    """
    table = load_table(place)
    check_writable(table)
    metrics = table.optimize.compact(partition_filters=partition_filters, target_size=target_bytes)
    return Optimized(
        version=table.version(),
        files_removed=int(metrics["numFilesRemoved"]),
        files_added=int(metrics["numFilesAdded"]),
    )


def check_retention(retention_h: float) -> None:
    """Raises `InputError` if the retention is less than a week: a vacuum could then remove files
    that are in use.
    """
    if not retention_h >= RETENTION_H:
        raise InputError(
            f"a vacuum retention of {retention_h:g} hours is too short: writers that have not "
            "committed yet, and readers of older versions, need the files; the minimum is "
            f"{RETENTION_H} hours"
        )


def vacuum(
    place: TableLocation, *, retention_h: float = RETENTION_H, dry_run: bool = False
) -> list[str]:
    """Removes files that the versions of the last `retention_h` hours do not need.

    Older versions cannot be read afterwards. Files that no version names are removed too, if they
    are older than `retention_h` hours. Such files may belong to a writer that has not committed
    yet, so `InputError` is raised if the retention is less than a week. Returns the paths of the
    files; with `dry_run`, removes nothing.
    """
    check_retention(retention_h)
    table = load_table(place)
    check_writable(table)
    return table.vacuum(retention_hours=ceil(retention_h), dry_run=dry_run, full=True)
