"""Recovers an object store when it is opened: seals open segments and reports damage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lakebed.base.clock import Clock
from lakebed.base.errors import DataError
from lakebed.base.files import Disk
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.meta.database import Database
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_recovery import recover_segments
from lakebed.seglake.segment_walk import Damage
from lakebed.seglake.upkeep import record
from lakebed.seglake.upload_rows import part_manifest

_AT_ONCE = 1000


def recover_lake(
    database: Database, disk: Disk, paths: LakePaths, *, clock: Clock
) -> list[tuple[str, Damage]]:
    """Seals the segments that a crash left open, and records them in the metadata.

    Logs the damage found and returns it as pairs of segment id and damage.
    """
    with database.snapshot() as reader:
        known = {row.segment_id: row for row in reader.segments()}

    def offsets_of(segment_id: str) -> Sequence[int]:
        return _offsets_in(database, segment_id)

    recovered = recover_segments(
        disk,
        paths.segments,
        quarantine=paths.quarantine,
        known=known,
        offsets_of=offsets_of,
        clock=clock,
    )
    record(database, recovered.rows)
    return recovered.damage


def _offsets_in(database: Database, segment_id: str) -> list[int]:
    """Returns the sorted offsets of the segment's chunks that manifests refer to.

    Reads all manifests, so it is called only for a damaged segment.
    """
    offsets = set()
    for manifest in _manifests(database):
        offsets |= {chunk.offset for chunk in manifest.chunks if chunk.segment_id == segment_id}
    return sorted(offsets)


def _manifests(database: Database) -> Iterator[Manifest]:
    """Yields the manifests of all versions and uploaded parts; skips damaged manifests."""
    with database.snapshot() as reader:
        after = ""
        while rows := reader.manifests(after, _AT_ONCE):
            for version_id, data in rows:
                with contextlib.suppress(DataError):
                    yield decode(data, path=version_id)
            after = rows[-1][0]
        last = 0
        while parts := reader.parts_by_id(last, _AT_ONCE):
            for _, row in parts:
                with contextlib.suppress(DataError):
                    yield part_manifest(row)
            last = parts[-1][0]
