"""Distinguishes a root that never had metadata from one that lost it.

A database looks new if `meta.db` is missing or empty, or records no change. It really is new only
if the root has no segment, manifest file or `secret.key`: the database is durable before the first
of these is created, so any of them proves that the root once had another database. If `meta.db` is
missing or empty, a write-ahead log that is not empty proves it too.

If the database has tables but records no change, two of these files prove nothing: a single segment
that the database does not record, because a crash during the very first commit leaves such a
segment; and `secret.key`, because creating an access key is not recorded as a change.
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

_ADVICE = f"the store has lost its metadata; put the lost file back, or {RESTORE}"


class LostMetadataCheck:
    """Detects lost metadata: each check raises `MetadataLost` if the database cannot be new."""

    def __init__(self, disk: Disk, paths: LakePaths) -> None:
        self._disk = disk
        self._paths = paths

    def check_file(self) -> None:
        """Raises `MetadataLost` if the database file is missing although the root is not new.

        Call it before the database is opened, because opening would create the file.
        """
        if not self._disk.exists(self._paths.database):
            self._require_new("is missing", wal_counts=True)

    def check_empty(self, *, is_blank: bool) -> None:
        """Raises `MetadataLost` if the database has no tables although the root is not new.

        `is_blank` means that the file is empty. In that case SQLite has not read the write-ahead
        log, so a log that is not empty proves a loss too.
        """
        self._require_new("is empty", wal_counts=is_blank)

    def check_history(self, reader: Reader) -> None:
        """Raises `MetadataLost` if the database records no change although the root is not new."""
        if reader.has_history():
            return
        recorded = {row.segment_id for row in reader.segments()}
        unrecorded = self._segments() - recorded
        trace = self._manifest() or (_counted(unrecorded) if len(unrecorded) > 1 else None)
        if trace is not None:
            raise self._error("records no change", trace)

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
            return "the database's write-ahead log"
        path = self._paths.secret_key
        has_key = self._disk.exists(path) and not self._disk.is_folder(path)
        return "the secret key file" if has_key else None

    def _segments(self) -> set[str]:
        folder = self._paths.segments
        names = self._disk.names(folder) if self._disk.is_folder(folder) else []
        return set(filter(None, map(segment_id_of, names)))

    def _manifest(self) -> str | None:
        """Returns the name of any manifest file, for the error message, or None."""
        folder = self._paths.manifests
        if not self._disk.is_folder(folder):
            return None
        for name in self._disk.names(folder):
            below = os.path.join(folder, name)
            if self._disk.is_folder(below) and (manifests := self._disk.names(below)):
                return f"manifest {manifests[0]}"
        return None

    def _error(self, what: str, trace: str) -> MetadataLost:
        return MetadataLost(
            f"the metadata database {what}, but the store contains {trace}: {_ADVICE}",
            path=self._paths.database,
        )


def _counted(segments: set[str]) -> str:
    others = f" and {len(segments) - 1} more" if len(segments) > 1 else ""
    return f"segment {min(segments)}{others}"
