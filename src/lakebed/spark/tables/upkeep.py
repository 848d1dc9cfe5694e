"""Upkeep of a table: small files become large ones, and what no version needs is removed."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from lakebed.base.errors import InputError
from lakebed.base.units import MIB
from lakebed.spark.tables.location import TableLocation
from lakebed.spark.tables.snapshot import check_writable, load_table

TARGET_BYTES: Final = 128 * MIB
RETENTION_H: Final = 7 * 24  # the default of a vacuum, and the least it can be


@dataclass(frozen=True)
class Optimized:
    """`version` is the table's afterwards."""

    version: int
    files_removed: int
    files_added: int


def optimize(
    place: TableLocation,
    *,
    target_bytes: int = TARGET_BYTES,
    partition_filters: list[tuple[str, str, Any]] | None = None,
) -> Optimized:
    """Rewrite small files into larger ones; the rows stay, and streams are not disturbed.

    Rows that are added meanwhile stay as they are. Filters are `(column, "=", value)`.
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
    """`InputError` if a vacuum with that retention could remove files that are in use."""
    if not retention_h >= RETENTION_H:
        raise InputError(
            f"a vacuum cannot keep files for {retention_h:g} hours only: writers that have not "
            f"committed yet, and readers of older versions, need them; the least is {RETENTION_H}"
        )


def vacuum(
    place: TableLocation, *, retention_h: float = RETENTION_H, dry_run: bool = False
) -> list[str]:
    """Remove files that no version of the last `retention_h` hours needs, and files that no version
    ever named, if they are older than that.

    Older versions cannot be read afterwards. A file that is not named yet may belong to a writer
    that will commit it, so there is a floor of a week. Returns the paths.
    """
    check_retention(retention_h)
    table = load_table(place)
    check_writable(table)
    return table.vacuum(retention_hours=ceil(retention_h), dry_run=dry_run, full=True)
