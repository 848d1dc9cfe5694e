"""Distinguishes a root that never had metadata from one that lost it.

Metadata that looks new (a missing or empty `meta.db`, or one that records no change) counts as new
only if the root holds nothing that it should describe. The database is durable before the first
segment, manifest or access key is created, so any of these proves that the database existed.

A single segment that is unknown to a database without history does not prove a loss: a crash during
the very first commit leaves one.
"""

from __future__ import annotations

import os

from lakebed.base.files import Disk
from lakebed.seglake.errors import MetadataLost
from lakebed.seglake.meta.connection import RESTORE
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.wal import wal_bytes
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_id import segment_id_of

_ADVICE = f"the store has lost its metadata; put the file back, or {RESTORE}"


class LostMetadataCheck:
    """Detects lost metadata: each check raises `MetadataLost` if the metadata cannot be new."""

    def __init__(self, disk: Disk, paths: LakePaths) -> None:
        self._disk = disk
        self._paths = paths

    def check_file(self) -> None:
        """Checks for a missing database file; call it before the database is opened."""
        if not self._disk.exists(self._paths.database):
            self._require_new("is missing", wal_counts=True)

    def check_empty(self, *, is_blank: bool) -> None:
        """Checks a database without tables.

        `is_blank` means that the file is empty. Then SQLite has not read the write-ahead log, and a
        log that is not empty proves a loss.
        """
        self._require_new("is empty", wal_counts=is_blank)

    def check_history(self, reader: Reader) -> None:
        """Checks a database with tables, which must record the changes that led to the files."""
        if reader.has_history():
            return
        recorded = {row.segment_id for row in reader.segments()}
        unrecorded = self._segments() - recorded
        trace = self._manifest() or (_counted(unrecorded) if len(unrecorded) > 1 else None)
        if trace is not None:
            raise self._error("records nothing", trace)

    def _require_new(self, what: str, *, wal_counts: bool) -> None:
        trace = self._trace(wal_counts=wal_counts)
        if trace is not None:
            raise self._error(what, trace)

    def _trace(self, *, wal_counts: bool) -> str | None:
        segments = self._segments()
        if segments:
            return _counted(segments)
        if manifest := self._manifest():
            return manifest
        if wal_counts and wal_bytes(self._disk, self._paths.database):
            return "its write-ahead log"
        path = self._paths.secret_key
        has_key = self._disk.exists(path) and not self._disk.is_folder(path)
        return "the key of its secrets" if has_key else None

    def _segments(self) -> set[str]:
        folder = self._paths.segments
        names = self._disk.names(folder) if self._disk.is_folder(folder) else []
        return set(filter(None, map(segment_id_of, names)))

    def _manifest(self) -> str | None:
        """Returns any one manifest file, described for the error message."""
        folder = self._paths.manifests
        if not self._disk.is_folder(folder):
            return None
        for name in self._disk.names(folder):
            below = os.path.join(folder, name)
            if self._disk.is_folder(below) and (manifests := self._disk.names(below)):
                return f"manifest {manifests[0]}"
        return None

    def _error(self, what: str, trace: str) -> MetadataLost:
        return MetadataLost(f"{what}, but {trace} exists: {_ADVICE}", path=self._paths.database)


def _counted(segments: set[str]) -> str:
    others = f" with {len(segments) - 1} more" if len(segments) > 1 else ""
    return f"segment {min(segments)}{others}"
