"""Upkeep of a table: small files become large ones, and what no version needs is removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from lakebed.base.errors import InputError
from lakebed.base.units import MIB
from lakebed.spark.tables.place import TablePlace
from lakebed.spark.tables.snapshot import check_writable, load_table

TARGET_BYTES: Final = 128 * MIB
RETENTION_H: Final = 7 * 24


@dataclass(frozen=True)
class Optimized:
    """`version` is the table's afterwards."""

    version: int
    files_removed: int
    files_added: int


def optimize(
    place: TablePlace,
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


def vacuum(
    place: TablePlace,
    *,
    retention_h: float = RETENTION_H,
    dry_run: bool = False,
    allow_short: bool = False,
) -> list[str]:
    """Remove files that no version of the last `retention_h` hours needs, or that none ever named.

    Older versions cannot be read then. Less than a week breaks readers and writers under way that
    took longer, and is refused unless `allow_short`. Returns the files' paths.
    """
    if retention_h < 0:
        raise InputError("retention_h cannot be negative")
    if retention_h < RETENTION_H and not allow_short:
        raise InputError(
            f"retention_h is {retention_h}: below {RETENTION_H} whoever reads or writes meanwhile "
            "may lose files; allow_short does it all the same"
        )
    table = load_table(place)
    check_writable(table)
    hours = -(-timedelta(hours=retention_h) // timedelta(hours=1))
    return table.vacuum(
        retention_hours=hours,
        dry_run=dry_run,
        enforce_retention_duration=False,
        full=True,
    )
