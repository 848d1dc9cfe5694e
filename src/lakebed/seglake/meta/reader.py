"""The queries of the metadata. In a transaction, all queries read from one snapshot.

Each method is one small typed query; callers decide what a result means for a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import index
from typing import Any

import apsw

from lakebed.base.clock import HybridTime
from lakebed.base.errors import Corrupt
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.rows import (
    ApiKeyRow,
    OplogRow,
    PartRow,
    PendingManifest,
    SegmentRow,
    Totals,
    UploadRow,
    VersionRow,
)
from lakebed.seglake.model import BucketInfo, State, Versioning

KEYS_END = b"\xff"  # sorts after every key, because no UTF-8 text begins with it

_STATES = {state.value: state for state in State}
_VERSIONINGS = {versioning.value: versioning for versioning in Versioning}
# Raised when a damaged row is decoded: SQLite may return any type for any of its columns.
_DAMAGED = (AttributeError, KeyError, TypeError, UnicodeDecodeError)


def key_bytes(text: str) -> bytes:
    """Encodes a key as it is stored. Text that is not a valid key is encoded too, for searches."""
    return text.encode("utf-8", "surrogatepass")


class Reader:
    """Reads the metadata through one connection, while that is lent. Not thread-safe."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._execute = connection.execute

    # Buckets.

    def site_id(self) -> str:
        """Returns the id of this site, which was generated when the database was created."""
        site_id: str = self._execute(statements.SITE_ID).get
        return site_id

    def bucket(self, name: str) -> BucketInfo | None:
        row = self._execute(statements.BUCKET, (name,)).fetchone()
        return None if row is None else self._bucket(row)

    def buckets(self) -> list[BucketInfo]:
        """Returns all buckets, sorted by name."""
        return [self._bucket(row) for row in self._execute(statements.BUCKETS)]

    def is_empty(self, bucket: str) -> bool:
        """Whether the bucket has no objects and no old versions.

        Delete markers and uploads in progress do not count.
        """
        has_data: int = self._execute(statements.HAS_DATA, (bucket,)).get
        return not self.has_objects(bucket) and not has_data

    def has_objects(self, bucket: str) -> bool:
        exists: int = self._execute(statements.HAS_OBJECTS, (bucket,)).get
        return bool(exists)

    def starts_with_markers(self, bucket: str, count: int) -> bool:
        """Whether the first `count` versions of the bucket are delete markers.

        The versions are in order of key, and newest first within a key. If the bucket has fewer
        versions, checks all of them; True if it has none.
        """
        rows = self._execute(statements.FIRST_STATES, (bucket, count))
        return all(state == State.DELETED.value for (state,) in rows)

    # Versions.

    def current(self, bucket: str, key: str) -> VersionRow | None:
        """Returns the newest version of a key, which may be a delete marker.

        Returns None if the key has no version.
        """
        row = self._execute(statements.CURRENT, (bucket, key_bytes(key))).fetchone()
        return self._marker(bucket, key) if row is None else self._version(row)

    def current_manifest(self, bucket: str, key: str) -> tuple[VersionRow, bytes] | None:
        """Returns the newest version of a key, which may be a delete marker, and its manifest.

        Returns None if the key has no version.
        """
        row = self._execute(statements.CURRENT_WITH_MANIFEST, (bucket, key_bytes(key))).fetchone()
        if row is not None:
            return self._version(row), row[11]
        marker = self._marker(bucket, key)
        data = None if marker is None else self.manifest(marker.version_id)
        return None if marker is None or data is None else (marker, data)

    def version(self, bucket: str, key: str, version_id: str) -> VersionRow | None:
        row = self._execute(statements.VERSION, (version_id,)).fetchone()
        if row is None or row[1] != bucket or row[2] != key_bytes(key):
            return None
        return self._version(row)

    def null_version(self, bucket: str, key: str) -> VersionRow | None:
        row = self._execute(statements.NULL_VERSION, (bucket, key_bytes(key))).fetchone()
        return None if row is None else self._version(row)

    def newest(self, bucket: str, key: str, *, excluding: str = "") -> VersionRow | None:
        for row in self._execute(statements.NEWEST, (bucket, key_bytes(key))).fetchall():
            if row[0] != excluding:
                return self._version(row)
        return None

    def last_hlc(self) -> HybridTime | None:
        """Returns the hybrid time of the last logged change, from which the clock must continue.

        Returns None if the operation log is empty.
        """
        text: str | None = self._execute(statements.LAST_HLC).get
        return None if text is None else HybridTime.parse(text)

    def has_history(self) -> bool:
        """Whether the database has any bucket, any version or any entry in the operation log."""
        return bool(self._execute(statements.HAS_HISTORY).get)

    # Ranges of rows in order. They are fetched one by one, so that the caller can stop at any row.

    def current_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[VersionRow]:
        """Yields the current objects with keys in `[start, end)`, in order of key."""
        return map(self._version, self._execute(statements.CURRENT_FROM, (bucket, start, end)))

    def versions_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[VersionRow]:
        """Yields all versions of keys in `[start, end)`, by key, and newest first within a key."""
        return map(self._version, self._execute(statements.VERSIONS_FROM, (bucket, start, end)))

    def versions_older(self, row: VersionRow) -> Iterator[VersionRow]:
        """Yields the versions of the same key that are older than `row`, newest first."""
        return self.versions_before(row.bucket, row.key, hlc=row.hlc, site_id=row.site_id)

    def versions_before(
        self, bucket: str, key: str, *, hlc: str, site_id: str
    ) -> Iterator[VersionRow]:
        """Yields the versions of a key that are older than the given time, newest first.

        `site_id` orders versions with the same `hlc`.
        """
        bindings = (bucket, key_bytes(key), hlc, site_id)
        return map(self._version, self._execute(statements.VERSIONS_OLDER, bindings))

    def uploads_from(self, bucket: str, *, start: bytes, end: bytes) -> Iterator[UploadRow]:
        """Yields the uploads to keys in `[start, end)`, in order of key and upload id."""
        return map(self._upload, self._execute(statements.UPLOADS_FROM, (bucket, start, end)))

    def uploads_after(self, bucket: str, key: str, *, upload_id: str) -> Iterator[UploadRow]:
        """Yields the uploads to a key whose ids come after `upload_id`, in order of id."""
        bindings = (bucket, key_bytes(key), upload_id)
        return map(self._upload, self._execute(statements.UPLOADS_AFTER, bindings))

    # Manifests and segments.

    def manifest(self, version_id: str) -> bytes | None:
        row = self._execute(statements.MANIFEST, (version_id,)).fetchone()
        return None if row is None else row[0]

    def manifest_file(self, version_id: str) -> PendingManifest | None:
        """Returns the manifest of a version and the state of its manifest file.

        Returns None if the metadata has no manifest of that version.
        """
        row = self._execute(statements.MANIFEST_WITH_STATE, (version_id,)).fetchone()
        return None if row is None else PendingManifest(*row)

    def manifests(self, after: str = "", limit: int = 1000) -> list[tuple[str, bytes]]:
        """Returns up to `limit` pairs of version id and manifest, in order of version id.

        They start after the id `after`.
        """
        rows = self._execute(statements.MANIFESTS_AFTER, (after, limit))
        return [(version_id, data) for version_id, data in rows]

    def pending_manifests(self, limit: int) -> list[PendingManifest]:
        """Returns up to `limit` manifests whose files must be written or removed.

        The manifests of the oldest versions come first.
        """
        rows = self._execute(statements.PENDING_MANIFESTS, (limit,))
        return [PendingManifest(*row) for row in rows]

    def segments(self) -> list[SegmentRow]:
        """Returns all segments in order of id, so oldest first."""
        return [self._segment(row) for row in self._execute(statements.SEGMENTS)]

    # Multipart uploads.

    def upload(self, upload_id: str) -> UploadRow | None:
        row = self._execute(statements.UPLOAD, (upload_id,)).fetchone()
        return None if row is None else self._upload(row)

    def parts(self, upload_id: str, after: int = 0, limit: int = 1000) -> list[PartRow]:
        """Returns up to `limit` parts of an upload, above number `after`, in order of number."""
        rows = self._execute(statements.PARTS, (upload_id, after, limit))
        return [self._part(row) for row in rows]

    def part_bytes(self, upload_id: str, *, excluding: int) -> int:
        """Returns the total size of an upload's parts, except the part with number `excluding`."""
        size: int = self._execute(statements.PART_BYTES, (upload_id, excluding)).get
        return size

    def parts_by_id(self, after: int = 0, limit: int = 1000) -> list[tuple[int, PartRow]]:
        """Returns up to `limit` parts of all uploads, in order of row id, as (row id, part).

        They start after the row id `after`.
        """
        rows = self._execute(statements.PARTS_BY_ID, (after, limit))
        return [(row[0], self._part(row[1:])) for row in rows]

    # Access keys.

    def api_key(self, access_key: str) -> ApiKeyRow | None:
        row = self._execute(statements.API_KEY, (access_key,)).fetchone()
        return None if row is None else _api_key(row)

    def api_keys(self) -> list[ApiKeyRow]:
        """Returns all access keys, oldest first."""
        keys = map(_api_key, self._execute(statements.API_KEYS))
        return sorted(keys, key=lambda row: (row.created_ms, row.access_key))

    # The operation log, and the database itself.

    def oplog(self, after: int = 0, limit: int = 1000) -> list[OplogRow]:
        """Returns up to `limit` entries of the operation log, oldest first.

        They start after the sequence number `after`.
        """
        rows = self._execute(statements.OPLOG_AFTER, (after, limit))
        return [OplogRow._make(row)._replace(key=row[5].decode()) for row in rows]

    def totals(self) -> Totals:
        """Counts the stored objects, versions, segments and bytes.

        Slow for large stores, because it reads all rows or index entries of these tables.
        """
        objects: int = self._execute(statements.OBJECT_COUNT).get
        segments: int = self._execute(statements.SEGMENT_COUNT).get
        [(versions, bytes_live)] = self._execute(statements.VERSION_TOTALS)
        manifests: int = self._execute(statements.MANIFEST_COUNT).get
        return Totals(objects, segments, bytes_live, versions, manifests)

    def problems(self) -> list[str]:
        """Returns the first 100 problems that SQLite's integrity check finds.

        Reads the whole database.
        """
        messages = [row[0] for row in self._execute(statements.INTEGRITY)]
        return [] if messages == ["ok"] else messages

    def _marker(self, bucket: str, key: str) -> VersionRow | None:
        newest = self.newest(bucket, key)
        return newest if newest is not None and newest.state is State.DELETED else None

    # Decoding of rows.

    def _bucket(self, row: tuple[Any, ...]) -> BucketInfo:
        try:
            versioning = _VERSIONINGS[row[2]]
            return BucketInfo(name=row[0], created_ms=index(row[1]), versioning=versioning)
        except _DAMAGED as error:
            raise self._corrupt("bucket", row[:1], error) from error

    def _version(self, row: tuple[Any, ...]) -> VersionRow:
        try:
            return VersionRow(
                row[0],
                row[1],
                row[2].decode(),
                _STATES[row[3]],
                row[4] != 0,
                row[5],
                index(row[6]),
                row[7],
                index(row[8]),
                row[9],
                row[10],
            )
        except _DAMAGED as error:
            raise self._corrupt("version", row[:3], error) from error

    def _upload(self, row: tuple[Any, ...]) -> UploadRow:
        try:
            return UploadRow(row[0], row[1], row[2].decode(), index(row[3]), row[4], row[5])
        except _DAMAGED as error:
            raise self._corrupt("upload", row[:3], error) from error

    def _part(self, row: tuple[Any, ...]) -> PartRow:
        part = PartRow(*row)
        try:
            return replace(part, size=index(part.size))
        except _DAMAGED as error:
            raise self._corrupt("part", row[:2], error) from error

    def _segment(self, row: tuple[Any, ...]) -> SegmentRow:
        segment = SegmentRow(*row)
        try:
            return segment._replace(size=index(segment.size))
        except _DAMAGED as error:
            raise self._corrupt("segment", row[:1], error) from error

    def _corrupt(self, kind: str, names: tuple[Any, ...], error: Exception) -> Corrupt:
        """Returns the error for a damaged row. `names` are the columns that identify the row."""
        shown = ", ".join(f"{name!r:.200}" for name in names)
        problem = f"the row of {kind} {shown} is damaged ({error})"
        return Corrupt(problem, path=self.connection.filename)


def _api_key(row: tuple[Any, ...]) -> ApiKeyRow:
    return ApiKeyRow(row[0], row[1], row[2], row[3] != 0, *row[4:])
