"""Opening: what a crash left open is sealed, and what is wrong is told."""

from __future__ import annotations

import contextlib
import logging
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

_log = logging.getLogger(__name__)
_AT_ONCE = 1000


def recover_lake(
    database: Database, disk: Disk, paths: LakePaths, *, clock: Clock
) -> list[tuple[str, Damage]]:
    """Seal segments that are open, record them, and hand back the damage that was found."""
    with database.snapshot() as reader:
        known = {row.segment_id: row for row in reader.segments()}

    def offsets_of(segment_id: str) -> Sequence[int]:
        return _offsets_in(database, segment_id)

    found = recover_segments(
        disk,
        paths.segments,
        quarantine=paths.quarantine,
        known=known,
        offsets_of=offsets_of,
        clock=clock,
    )
    record(database, found.rows)
    for segment_id, damage in found.damage:
        _log.error("segment %s is damaged: %s", segment_id, damage)
    return found.damage


def _offsets_in(database: Database, segment_id: str) -> list[int]:
    """Where manifests say that chunks begin. Reads them all: only for a damaged segment."""
    offsets = set()
    for manifest in _manifests(database):
        offsets |= {chunk.offset for chunk in manifest.chunks if chunk.segment_id == segment_id}
    return sorted(offsets)


def _manifests(database: Database) -> Iterator[Manifest]:
    """Of versions and of parts; one that is itself damaged tells nothing."""
    with database.snapshot() as reader:
        after = ""
        while found := reader.manifests(after, _AT_ONCE):
            for version_id, data in found:
                with contextlib.suppress(DataError):
                    yield decode(data, path=version_id)
            after = found[-1][0]
        last = 0
        while parts := reader.parts_by_id(last, _AT_ONCE):
            for _, row in parts:
                with contextlib.suppress(DataError):
                    yield part_manifest(row)
            last = parts[-1][0]
